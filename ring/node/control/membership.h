// ring/node/control/membership.h — a node's part in the agreement on who holds which role.
//
// What:      Membership drives the consensus replica of a node over the control port: founds or
//            joins the cluster, registers this start of the node, hands each agreed view to the
//            node, takes proposals on any node and brings them to the leader.
//            membership_join.cc has how a start gets its part.
// Shape:     consensus messages are one-way control messages, dropped when the peer is not there.
//            Time is counted in ticks; a node that was stopped itself does not count that time as
//            others' silence.
// Ownership: borrows control port, clock, random, configuration and a storage that is given; owns
//            the replica, and what it opened.
// Threads:   one, the node's.
// Errors:    Propose: kUnavailable: it did not happen; kUnknown, kDeadlineExceeded: it may have;
//            else what the state machine says.
// Source:    rules 10.1 to 10.9; L8, L9.
#ifndef RING_NODE_CONTROL_MEMBERSHIP_H_
#define RING_NODE_CONTROL_MEMBERSHIP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/replica.h"
#include "ring/base/clock.h"
#include "ring/base/random.h"
#include "ring/cluster/cluster_state.h"
#include "ring/node/config/config.h"
#include "ring/node/control/cluster_machine.h"
#include "ring/node/control/control_port.h"
#include "ring/node/control/failure_detector.h"
#include "ring/node/control/founding.h"
#include "ring/node/control/server_keeper.h"
#include "ring/node/control/voter_storage.h"
#include "ring/node/events/event_log.h"
#include "ring/node/fence/fence_word.h"
#include "ring/node/fence/lease_fence.h"
#include "ring/node/fence/lease_service.h"
#include "ring/node/fence/role_mark.h"

namespace ring::node {

class Membership final : public consensus::ReplicaListener {
 public:
  // Who is not a voter, and there, has answered by then.
  static constexpr std::uint64_t kFoundWithoutNs = 300'000'000;
  // Of the consensus. What the largest cluster is founded with is one (cluster::Found).
  static constexpr std::size_t kMessageSizeMax = 256 * 1024;

  struct Options {
    EventLog* events = nullptr;
    const NodeConfig* config = nullptr;
    NodeId node;
    Incarnation incarnation;
    const Clock* clock = nullptr;
    Random* random = nullptr;
    ControlPort* control = nullptr;
    std::uint64_t lease_ns = 0;  // 0: no node holds leases
    std::uint64_t wall_us = 0;   // of this start; by it foundings of a cluster have an order
    std::uint64_t found_without_ns = kFoundWithoutNs;
    // Null: the configuration's data_dir, or none.
    VoterStorage* storage = nullptr;
    // From any thread: Progress has something to do.
    std::function<void()> wake;
    std::byte* word = nullptr;  // where this server shows what it has persisted (L1); null: nowhere
    // Each view that was agreed upon, in order.
    ClusterMachine::OnView on_view;
    // This node began or ended to lead.
    absl::AnyInvocable<void(bool leads)> on_leadership;
  };
  using ProposeDone = absl::AnyInvocable<void(absl::StatusOr<cluster::ClusterResult>)>;

  explicit Membership(Options options);
  ~Membership() override;

  // Whether the node can have a part: what is wrong with its storage, and what to do.
  absl::Status CheckStorage() const;
  // self: how this node is reached, for all to know.
  void Start(const cluster::NodeInfo& self);
  // Gives whether anything happened.
  bool Progress(std::uint64_t now_ns);
  // Something is on its way to be durable: until the next Progress, HasPersisted may say yes.
  bool IsPersisting() const { return replica_ != nullptr && replica_->IsPersisting(); }
  // What was to be durable is, or failed: Progress is due.
  bool HasPersisted() const { return replica_ != nullptr && replica_->HasPersisted(); }

  // To the leader, wherever it is.
  void Propose(const cluster::ClusterCommand& command, ProposeDone done);
  // Asks the leader for a lease of this start of the node.
  void Renew(LeaseFence::Granted done);
  // How much of who holds which role is applied here; good until the next Progress.
  RoleMark RolesKnown() const;
  // Learns what was agreed upon by now (a ReadIndex); it comes as a view, and then `done` runs, in
  // Progress. kUnavailable: no leader is known, or it moved.
  void Read(consensus::Replica::ReadDone done);
  void Refresh();
  // Serves changes: an entry of its own term is committed.
  bool leads() const { return replica_ != nullptr && replica_->is_ready_leader(); }
  NodeId leader() const;  // cluster::kNoNode: not known
  const cluster::ClusterState& state() const { return machine_.state(); }
  // Registered, a leader is known, and so is every holder of a role.
  bool ready() const;
  std::string Missing() const;
  const consensus::Replica* replica() const { return replica_.get(); }  // null: not yet

  // consensus::ReplicaListener
  void Send(consensus::ServerId to, std::string bytes) override;
  void OnLeadership(consensus::Role role, consensus::ServerId leader,
                    consensus::Term term) override;
  void OnConfiguration(const consensus::Configuration& configuration) override;

 private:
  static constexpr std::uint64_t kProbePeriodNs = 5 * kMillisecondNs;
  static constexpr std::uint64_t kJoinPeriodNs = 50 * kMillisecondNs;
  static constexpr std::uint64_t kCallTimeoutNs = 5000 * kMillisecondNs;

  // As which server this start begins, from the decision until its storage has taken it.
  struct Beginning {
    consensus::ServerId server;
    bool found = false;
  };

  static cluster::View FirstView(const NodeConfig& config);
  static absl::Status NotLeader(NodeId leader);
  void HandleMessages();
  void OnView(const std::shared_ptr<const cluster::View>& view);
  absl::Status StartReplica(consensus::ServerId fresh, bool found);
  void ProgressFounding(std::uint64_t now_ns);
  void Begin(std::uint64_t now_ns);
  void Probe();
  bool TickReplica(std::uint64_t now_ns);
  void TellOfStorage(const absl::Status& status);
  bool HasPart(std::uint64_t now_ns);
  void ProgressJoin(std::uint64_t now_ns);
  void ProposeFirstView(std::uint64_t now_ns);
  std::string FileDiffersIn() const;
  void ProgressRegistration(std::uint64_t now_ns);
  void FailFormerStart();
  bool Known() const;
  bool Registered() const;
  void FailSilent(std::uint64_t now_ns);
  void OnJoin(NodeId from, absl::string_view body, ControlReply reply);
  void OnPropose(absl::string_view body, ControlReply reply);

  Options options_;
  cluster::NodeInfo self_;
  std::uint64_t tick_ns_;
  ClusterMachine machine_;
  LeaseService leases_;
  std::shared_ptr<const cluster::View> agreed_;  // the last one that was told
  Founding founding_;
  std::optional<Beginning> beginning_;
  std::unique_ptr<VoterStorage> own_disk_;  // if none was given
  std::unique_ptr<consensus::Storage> storage_;
  std::unique_ptr<FenceWord> word_;  // null: nobody reads it
  std::unique_ptr<consensus::Replica> replica_;
  std::unique_ptr<ServerKeeper> keeper_;
  std::unique_ptr<FailureDetector> detector_;
  consensus::ServerId server_;
  bool started_ = false;
  bool led_ = false;
  absl::StatusCode storage_status_ = absl::StatusCode::kOk;  // that was told of last
  bool over_ = false;  // another start of this node registered: this one has no part any more
  bool work_ = false;  // the replica has something to do
  bool register_pending_ = false;
  bool removal_told_ = false;
  std::uint64_t register_attempt_ = 0;
  std::string register_error_;                               // the last one that was told
  consensus::ServerId leader_known_ = consensus::kNoServer;  // the last one that there was
  std::uint64_t leader_hint_ = 0;                            // a server id that another node told
  std::uint64_t now_ns_ = 0;
  std::uint64_t last_tick_ns_ = 0;
  std::uint64_t began_ns_ = 0;  // to look who else is there
  std::uint64_t probe_ns_ = 0;
  std::uint64_t begin_ns_ = 0;
  std::set<NodeId> probed_;     // asked, and not answered yet
  std::set<NodeId> suspected_;  // and told so
  std::uint64_t campaign_until_ns_ = 0;
  std::uint64_t campaign_ns_ = 0;
  std::uint64_t heard_ns_ = 0;  // when a leader was known last
  std::uint64_t join_ns_ = 0;
  std::uint64_t found_ns_ = 0;
  std::uint64_t register_ns_ = 0;
  std::uint64_t fail_ns_ = 0;
  // Callbacks of calls that outlive this object find nobody.
  std::shared_ptr<Membership*> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_MEMBERSHIP_H_
