// ring/node/coordinated_shard.h — a shard that this node coordinates, through the epochs of its
// group.
//
// What:      Drives the shard's EpochChange: asks members to seal, connects to them, re-appends
//            what they lack, proposes Normal; owns the ShardCoordinator, which serves once Normal
//            is applied. Later views add memgests.
// Shape:     one per (group, shard) whose coordinator role this node holds.
//            coordinated_shard_epoch.cc does what an epoch change asks for,
//            coordinated_shard_events.cc tells of it, coordinated_shard_join.cc brings members that
//            have nothing up to date, and further Normals of the epoch about.
// Ownership: owns log links and coordinator; borrows the node's context.
// Threads:   one, the node's.
// Errors:    a member that is lost breaks its writer: a new epoch is proposed, and what needs the
//            member is refused as unavailable until then.
// Source:    the steps of an epoch change; L6, L7, L8, V2.
#ifndef RING_NODE_COORDINATED_SHARD_H_
#define RING_NODE_COORDINATED_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ring/cluster/cluster_command.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/block_decoder.h"
#include "ring/coordinator/catalogue_reader.h"
#include "ring/coordinator/shard.h"
#include "ring/coordinator/shard_builder.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/control/control_port.h"
#include "ring/node/events/event_log.h"
#include "ring/node/log_links.h"
#include "ring/node/recovery/absent_values.h"
#include "ring/node/recovery/demotion_check.h"
#include "ring/node/recovery/lag_watch.h"
#include "ring/node/recovery/snapshot_shipment.h"
#include "ring/node/recovery/takeover.h"
#include "ring/recovery/epoch_change.h"
#include "ring/recovery/join_progress.h"

namespace ring::node {

// Commands on their way to the replicated state machine.
using CommandSink = std::function<void(const cluster::ClusterCommand&)>;

// What all shards of a node share.
struct ShardContext {
  rdma::Device* device = nullptr;
  LogLinkContext links;
  memgest::DeltaArena* arena = nullptr;
  memgest::CalcQueue* calc_queue = nullptr;  // null: deltas are calculated by the node's thread
  coordinator::ReplySink* sink = nullptr;
  ControlPort* control = nullptr;
  Pace* pace = nullptr;  // of recovery in the background
  EventLog* events = nullptr;
  CommandSink propose;  // nothing is heard of it but the view that follows
  coordinator::CatalogueReader* catalogue = nullptr;
  coordinator::BlockDecoder* decoder = nullptr;  // null: degraded reads are refused
  std::uint64_t lag_ns = 0;                      // a member may lag so long (E5); 0: for ever
  NodeId node;
  Incarnation incarnation;
  std::uint64_t hash_seed = 0;
  std::uint64_t lines_per_step = 0;     // NodeOptions
  std::size_t snapshot_piece_size = 0;  // ... too
  recovery::EpochChange::Timeouts timeouts;
  std::uint64_t last_snapshot_id = 0;
};

class CoordinatedShard final : public recovery::EpochActions {
 public:
  CoordinatedShard(ShardContext* context, GroupId group, ShardId shard, std::size_t role_count,
                   std::uint16_t first_writer_id, std::size_t index);
  ~CoordinatedShard() override;

  // The view names this node as the shard's coordinator. addresses: how this node reaches others,
  // by id.
  void ApplyView(std::shared_ptr<const cluster::View> view,
                 const std::vector<std::string>& addresses);
  // Another node coordinated the shard since this one served: what is here is out of date, whoever
  // holds the role now. Views may skip epochs.
  bool WasReplaced(const cluster::View& view) const;
  // Nobody coordinated the shard since this one did: with the role it may go on from what it has.
  bool LivesOn(const cluster::View& view) const;
  // The role is nobody's: nothing is executed, committed or answered until ApplyView gives it back.
  // REQUIRES: LivesOn(view).
  void Rest(const cluster::View& view);
  void Progress(std::uint64_t now_ns);
  // Whether the event was for one of these connections.
  bool OnEvent(const rdma::ConnectionEvent& event);
  bool serving() const {
    return change_ != nullptr && change_->phase() == recovery::EpochChange::Phase::kServing &&
           !outdated_;
  }
  // Whether an operation may be executed now: all of them while the shard serves, reads also while
  // a coordinator that keeps its state goes into an epoch (ShardCoordinator::BeginEpoch). Who may
  // not answer any more is held back by the fence, then as ever.
  bool Takes(protocol::Operation operation) const {
    return serving() || (coordinator::IsRead(operation) && Reads());
  }
  // L9: a peer speaks of this epoch of the group. If it is a later one than the view's, nothing is
  // served until the view has it. Gives whether it is.
  bool Meet(Epoch epoch);
  // Null before the first epoch of this node's tenure has begun.
  coordinator::ShardCoordinator* coordinator() { return coordinator_.get(); }
  // What was fetched is being made a coordinator: each Progress does a part, and nothing rings.
  bool building() const { return building_ != nullptr; }
  const recovery::EpochChange* change() const { return change_.get(); }
  memgest::LogWriter* WriterById(std::uint16_t writer_id) { return links_.WriterById(writer_id); }
  std::uint16_t writer_count() const { return links_.writer_count(); }
  // Once a turn with something to do: after a fail-over, the first answers are events.
  void WatchServed() {
    if (watch_.get || watch_.put) TellServed();
  }
  // Wakes members that sleep on news of the commit position.
  void RingDoorbells() {
    if (coordinator_->log().TakeTold()) links_.RingDoorbells();
  }

  const DemotionCheck& demotion_check() const { return demotion_check_; }
  // Null: the shard was not taken over.
  const AbsentValues* values() const { return values_.get(); }

  GroupId group() const { return group_; }
  ShardId shard() const { return shard_; }
  std::size_t index() const { return index_; }
  // "g2/s0 to node 4 (connecting)", for what is missing.
  std::string Missing() const;

  // The role went to another node: nothing is executed any more. What waits is captured an answer,
  // which the caller is to drop with what is held (V7, ClientPort::DropHeld). Once it is gone(),
  // nothing of the device refers to it (V6).
  void Retire();
  bool gone() const { return coordinator_ == nullptr || coordinator_->gone(); }

  bool active = false;  // has something to do this turn (node.cc)

 private:
  // coordinated_shard_epoch.cc
  void Seal(Role role, const cluster::Holder& holder) override;
  void Fetch(const std::vector<recovery::AdoptedLog>& logs) override;
  void Connect(Role role, const cluster::Holder& holder, bool joins) override;
  void Begin(const std::vector<recovery::AdoptedLog>& logs) override;
  absl::Status Reappend(Role role, const std::vector<recovery::LogEnd>& logs) override;
  absl::StatusOr<bool> Reappended(Role role) override;
  void Renew(Role role) override;
  void GiveBack(Role role) override;
  void Propose(const std::vector<cluster::MemgestNormal>& sets) override;
  void Serve(const std::vector<cluster::MemgestNormal>& sets) override;

  // coordinated_shard_join.cc
  void Disconnect(Role role) override;
  void Join(Role role, const cluster::Holder& holder) override;
  void Entered(recovery::EpochPhase phase) override;  // coordinated_shard_events.cc
  absl::Status StartJoin(Role role, const cluster::Holder& holder);
  void ProgressJoins(std::uint64_t now_ns);
  void ProgressJoin(Role role, std::uint64_t now_ns);
  bool HoldsUp(Role role, std::uint64_t now_ns);
  void AskHowComplete();
  recovery::JoinProgress::Ends LogEnds() const;
  void OnProgress(Role role, const absl::StatusOr<std::string>& bytes);
  void CheckOwnValues();
  bool HasAllValues(const memgest::Memgest& memgest) const;
  void ProposeFurther(const std::vector<cluster::MemgestNormal>& sets);
  void SendProposal();
  std::vector<coordinator::NamedSet> NamedBy(const std::vector<cluster::MemgestNormal>& sets) const;

  bool Reads() const {
    return change_ != nullptr && change_->plan().living && !outdated_ &&
           change_->phase() < recovery::EpochPhase::kServing;
  }
  const cluster::GroupView& group_view() const { return view_->groups[group_.value()]; }
  const cluster::NormalRecord& normal() const { return group_view().shards[shard_.value()].normal; }
  coordinator::ShardOptions MakeOptions() const;
  void BeginTakeOver();
  void GoOnTakingOver();
  void BeginLinks();
  bool EverybodyIsKnown() const;
  std::vector<MemgestId> AcceptedLosses() const;
  bool RecordsSettled(const cluster::NormalRecord& last) const;
  bool GoOnWithLoss();
  std::vector<protocol::MemgestDescriptor> LivingMemgests() const;
  RoleMask ReachableOf(const cluster::NormalRecord& last) const;
  int AbsentShards() const;
  RoleMask TakingOver() const;
  recovery::EpochPlan MakePlan() const;
  void EndEpoch();
  void StartEpoch();
  void ApplyCatalogue();
  std::vector<recovery::LogEnd> OwnLogs() const;
  void Urge(std::uint64_t now_ns);
  void ProposeReturn(std::uint64_t now_ns);
  bool MayYetFail(std::uint64_t now_ns) const;
  void AskForVersions(std::uint64_t now_ns);
  void ProposeEpoch(std::uint64_t now_ns, std::string reason);
  void DemoteWhoLags(std::uint64_t now_ns);
  DemotionCheck::Ask MakeAsk();
  // coordinated_shard_events.cc
  void Tell(EventKind kind, NodeId subject = cluster::kNoNode);
  void TellServed();
  void TellValues();
  void TellNamed(const std::vector<cluster::MemgestNormal>& sets);

  ShardContext* context_;
  GroupId group_;
  ShardId shard_;
  std::size_t index_;  // among the shards of this node
  std::shared_ptr<const cluster::View> view_;
  std::vector<std::string> addresses_;
  LogLinks links_;
  std::unique_ptr<Takeover> takeover_;  // of this epoch
  struct Building {
    std::unique_ptr<AbsentValues> values;
    std::unique_ptr<coordinator::ShardBuilder> builder;  // refers to the values
  };
  std::unique_ptr<Building> building_;    // of what takeover_ fetched
  std::unique_ptr<AbsentValues> values_;  // if the shard was taken over
  std::unique_ptr<coordinator::ShardCoordinator> coordinator_;
  Epoch made_in_;  // the epoch in which coordinator_ began, or is about to
  std::unique_ptr<recovery::EpochChange> change_;
  // Answers to calls of an epoch that is over are nobody's.
  std::shared_ptr<bool> epoch_alive_;
  cluster::NormalRecord applied_;  // of this epoch
  bool served_ = false;            // in this one or an earlier one
  std::uint64_t now_ns_ = 0;       // of the last Progress
  // When this coordinator began to serve without records of what was lost (X7).
  std::uint64_t records_lost_ns_ = 0;
  // What is an event when it happens next.
  struct Watch {
    bool get = false;
    bool put = false;
    bool values = false;
    bool whole = false;      // all that the last record names
    std::uint64_t gets = 0;  // served before
    std::uint64_t puts = 0;
    RoleMask active = 0;  // roles that the last record names
  };
  Watch watch_;  // of this epoch
  std::string last_error_;
  Epoch met_;  // the latest one that a peer spoke of
  bool outdated_ = false;
  // Why this epoch must end; it is proposed until it did.
  std::string urge_reason_;
  std::uint64_t urge_since_ns_ = 0;  // 0: since now
  std::uint64_t urge_ns_ = 0;        // not before
  RoleMask urged_by_ = 0;            // whose connections are lost
  std::optional<Role> to_return_;    // a role that its former holder is to have back
  bool told_return_ = false;         // in this epoch

  // By role; of this epoch.
  struct Joiner {
    std::unique_ptr<SnapshotShipment> shipment;  // null: it does not join just now
    // From which extent on it counts for the memgests that it is a parity of (S6).
    recovery::EpochChange::ParityExtents parities;
    bool installed = false;
    std::uint64_t held_up_since_ns = 0;  // 0: nobody waits for it
  };
  std::vector<Joiner> joiners_;
  std::vector<LagWatch> lags_;             // by role; of this epoch
  std::vector<LagPatience> lag_patience_;  // by role, over epochs
  DemotionCheck demotion_check_;
  std::uint64_t lag_look_ns_ = 0;
  // By role; of the coordinator's life: large writes up to it may have PARTs that the role's
  // snapshot did not bring the bytes of.
  std::vector<std::uint64_t> joined_behind_;
  std::vector<recovery::JoinProgress> progress_;  // by role; of this epoch
  int joins_given_up_ = 0;                        // in a row, as they held the log up
  std::vector<cluster::MemgestNormal> further_;   // a further Normal, proposed here
  bool further_sent_ = false;
  bool incomplete_ = false;  // somebody who counts lacks values
  std::uint64_t asked_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_COORDINATED_SHARD_H_
