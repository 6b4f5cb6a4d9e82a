// ring/node/node.h — one node: its device, its doors, the shards it coordinates and those it is a
// member of.
//
// What:      Node wires the core to a fabric and is driven by a reactor, stage by stage: Progress,
//            Gather, Route, Execute, Finish, Fold. dispatcher.cc routes requests.
// Shape:     single-threaded, runs to completion; a process may host many nodes on one reactor.
// Ownership: owns everything below it; borrows config and clock.
// Threads:   one, its reactor's.
// Errors:    Open: kResourceExhausted, kInvalidArgument, kUnavailable (address in use), naming the
//            address; what the device says of an rdma address that the node has to have.
// Cost:      an idle node's turn is a few loads per client and ring.
// Source:    docs/ARCHITECTURE.md "The loop".
#ifndef RING_NODE_NODE_H_
#define RING_NODE_NODE_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "rdma/faulty/faulty_device.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/clock.h"
#include "ring/base/random.h"
#include "ring/cluster/routing.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/fence.h"
#include "ring/node/calc_link.h"
#include "ring/node/client_port.h"
#include "ring/node/config/config.h"
#include "ring/node/control/catalogue_reads.h"
#include "ring/node/control/control_port.h"
#include "ring/node/control/membership.h"
#include "ring/node/control/refusal_log.h"
#include "ring/node/control/voter_storage.h"
#include "ring/node/coordinated_shard.h"
#include "ring/node/events/event_log.h"
#include "ring/node/fence/check_fence.h"
#include "ring/node/fence/word_links.h"
#include "ring/node/member_port.h"
#include "ring/node/recovery/degraded_decoder.h"
#include "ring/node/recovery/held_memory.h"

namespace ring::node {

// Opens the device of a node; a simulation gives its own.
using DeviceFactory = absl::AnyInvocable<absl::StatusOr<std::unique_ptr<rdma::Device>>(
    const rdma::SoftDeviceOptions&) const>;

struct NodeOptions {
  NodeConfig config;
  NodeId id;
  const Clock* clock = nullptr;
  Random* random = nullptr;
  std::uint64_t wall_us = 0;  // of this start, since 1970: by it foundings have an order
  // So long voters that know of no cluster ask the other nodes before they found one.
  std::uint64_t found_without_ns = Membership::kFoundWithoutNs;
  std::string host;  // of this machine: nodes and clients with an equal one share memory
  const DeviceFactory* open_device = nullptr;  // null: rdma::OpenSoftDevice
  // Of its part in the consensus; a simulation gives a voter its own. Null: as configured.
  VoterStorage* storage = nullptr;
  // From any thread: the node is to take a turn soon. Null: it takes turns by itself.
  std::function<void()> wake = nullptr;
  // To the replicated state machine, whose views come back through ApplyView. Null: with
  // fail_over on the node's own membership() takes them; with it off nobody does: membership is
  // static, and every epoch is normal as soon as its members are connected.
  CommandSink propose;
  // Of metadata, of which a new coordinator is built a step in each turn: others' requests wait.
  // 512 are 32 KiB, and a node may take several shards over at once.
  std::uint64_t lines_per_step = 512;
  // Of a snapshot for who takes over or joins: as memgest::SnapshotWriter.
  std::size_t snapshot_piece_size = memgest::kPieceSizeMax;
  // Ends the node, with its memory, soon. Null: nobody can.
  std::function<void(NodeId)> die;
  // Its RDMA card went away, and all its connections by rdma with it: said once, on its thread.
  std::function<void(NodeId, const absl::Status&)> card_lost = nullptr;
};

class ControlServices;

// A request on its way through a batch.
struct BatchItem {
  Incoming incoming;
  coordinator::Request request;
  alignas(8) std::array<char, protocol::kKeySizeMax> key;  // a long one, copied from the ring
  CoordinatedShard* shard = nullptr;                       // null: answered by the node itself
};

struct NodeCounters {
  std::uint64_t wrong_owner = 0;
  std::uint64_t bad_requests = 0;
};

class Node {
 public:
  static absl::StatusOr<std::unique_ptr<Node>> Open(const NodeOptions& options);
  ~Node();

  // Id, name, incarnation and the addresses in use.
  const cluster::NodeInfo& info() const { return info_; }
  const NodeConfig& config() const { return options_.config; }
  // As if its process died, as far as whoever runs it can do that.
  void Die() {
    if (options_.die != nullptr) options_.die(options_.id);
  }
  // node_roles.cc. The first view makes the node connect to its peers, and take part in the
  // agreement on the next ones; each makes it take and lose roles, and follow the catalogue.
  void ApplyView(std::shared_ptr<const cluster::View> view);
  // Where a node of the configuration is, whose name had no address when this one was opened.
  // Empty: nothing new. After the first view.
  void LearnContact(NodeId id, const std::string& tcp, const std::string& rdma);
  // A view that was agreed upon; one that is not newer changes nothing.
  void TakeAgreed(const std::shared_ptr<const cluster::View>& agreed);
  const std::shared_ptr<const cluster::View>& view() const { return view_; }
  // L9: a peer knows this epoch of the group.
  void MeetEpoch(GroupId group, Epoch epoch);
  bool ready() const;
  std::string Missing() const;

  // The stages of a turn. Each gives how much it did. busy: requests keep coming.
  bool Progress(std::uint64_t now_ns, bool busy);
  std::size_t Gather(absl::Span<BatchItem> items);
  void Route(BatchItem* item);
  void Prefetch(const BatchItem& item) const;
  void Execute(BatchItem& item);
  bool Finish(std::uint64_t now_ns, bool busy);
  // Completions of answers, and bells of clients that sleep: Progress does it, too, a while later.
  void PollClients() { clients_->PollCompletions(false); }
  int Fold(int ring_count, int budget) { return members_->Fold(ring_count, budget); }
  int FoldRing(std::size_t ring) { return members_->FoldRing(ring); }
  bool ShareCredits() { return members_->ShareCredits(); }

  // Before sleeping: arms every queue, and tells peers.
  void Arm();
  void SetSleeping(bool sleeping);
  bool HasWork() const;
  // Shards wait for connections, members or records: not all of that rings a bell.
  bool connecting() const { return connecting_; }
  // It connects, changes epochs or recovers, or a turn's bytes were not enough: what the next turn
  // goes on with takes long next to a request.
  bool occupied() const { return look_; }
  int event_fd() const { return device_->event_fd(); }

  NodeId id() const { return options_.id; }
  rdma::Device& device() { return *device_; }
  // Null unless the configuration allows faults.
  rdma::FaultyDevice* faulty_device() { return faulty_device_; }
  ClientPort& clients() { return *clients_; }
  MemberPort& members() { return *members_; }
  ControlPort& control() { return *control_; }
  ControlServices& services() { return *services_; }
  const coordinator::Fence& fence() const { return *fence_; }
  Membership& membership() { return *membership_; }
  const EventLog& events() const { return events_; }
  EventLog& events() { return events_; }
  Pace& pace() { return pace_; }
  HeldMemory& held_memory() { return held_memory_; }
  // Null: the device calculates nothing for puts.
  CalcLink* calc() { return calc_.get(); }
  std::size_t lost_shard_count() const { return lost_shards_.size(); }
  std::size_t resting_shard_count() const { return resting_shards_.size(); }
  // Counted by the reactor.
  void set_wakeups(const std::atomic<std::uint64_t>* wakeups) { wakeups_ = wakeups; }
  std::uint64_t wakeups() const {
    return wakeups_ == nullptr ? 0 : wakeups_->load(std::memory_order_relaxed);
  }
  std::vector<std::unique_ptr<CoordinatedShard>>& shards() { return shards_; }
  CoordinatedShard* FindShard(GroupId group, ShardId shard);
  const NodeCounters& counters() const { return counters_; }
  // Names something that this start of the node asks of others; never 0.
  std::uint64_t TakeToken() { return ++last_token_; }

 private:
  explicit Node(const NodeOptions& options);
  absl::Status OpenDevice();
  absl::Status OpenPorts();
  absl::Status OpenCalc();
  absl::Status ListenAll();
  absl::Status ListenRdma(const std::string& address);
  std::string AddressOf(const cluster::NodeInfo& peer);
  std::string ControlAddressOf(const cluster::NodeInfo& node);
  std::vector<std::string> SetAddresses();
  void FillIn(cluster::NodeInfo* node) const;
  void FillShardContext();
  absl::Status OpenMembership();
  void WatchCard();
  void OpenCatalogueReads();
  bool Checks() const;
  absl::Status OpenWords(std::uint64_t cluster);
  void OpenFence();
  std::uint64_t LeaseNs() const;
  void StartMembership();
  void TellChanges(const cluster::View& before, const cluster::View& now);
  bool Look(std::uint64_t now_ns);
  void HandleEvents(std::uint64_t now_ns);
  void FlushShards();
  bool PollLog();
  void AnswerOwner(const coordinator::ReplyTo& to, const protocol::OwnerQuestion& question);
  bool Serving() const;
  void TakeRoles();
  void LoseShard(CoordinatedShard* shard);
  void Retire(std::unique_ptr<CoordinatedShard> shard);
  bool MayRest(const CoordinatedShard& shard) const;
  void WakeOrForget(GroupId group, std::optional<Role> role);
  void ForgetLostShards();
  CoordinatedShard* ShardOfWriter(std::uint16_t writer_id);

  NodeOptions options_;
  cluster::NodeInfo info_;
  EventLog events_;
  std::uint64_t hash_seed_ = 0;
  std::unique_ptr<rdma::Device> device_;
  rdma::FaultyDevice* faulty_device_ = nullptr;  // the device, if it is one
  std::unique_ptr<rdma::CompletionQueue> log_cq_;
  std::unique_ptr<memgest::DeltaArena> arena_;
  std::unique_ptr<CalcLink> calc_;
  std::unique_ptr<CreditLines> credits_;
  std::unique_ptr<BufferPool> staging_;
  std::unique_ptr<ClientPort> clients_;
  std::unique_ptr<MemberPort> members_;
  std::unique_ptr<ControlPort> control_;
  std::unique_ptr<CatalogueReads> catalogue_reads_;  // null: views come from elsewhere
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<ControlServices> services_;
  std::unique_ptr<coordinator::Fence> fence_;
  LeaseFence* lease_ = nullptr;              // the fence, if it is one
  std::unique_ptr<WordLinks> words_;         // null: the fence needs none
  CheckFence* check_ = nullptr;              // the fence, if it is one
  std::vector<cluster::NodeInfo> contacts_;  // how nodes are reached until they register
  std::vector<std::string> told_links_;      // by peer, what was said last of how it is reached
  const std::atomic<std::uint64_t>* wakeups_ = nullptr;
  Pace pace_;
  bool card_lost_ = false;
  RefusalLog refusals_;  // whom this node refuses before it knows what they want
  HeldMemory held_memory_{this};
  DegradedDecoder degraded_decoder_{this};
  ShardContext shard_context_;
  std::shared_ptr<const cluster::View> view_;
  std::string encoded_view_;
  std::unique_ptr<cluster::Routing> routing_;
  std::vector<std::unique_ptr<CoordinatedShard>> shards_;
  std::vector<std::unique_ptr<CoordinatedShard>> resting_shards_;  // their roles are vacant
  std::vector<std::unique_ptr<CoordinatedShard>> lost_shards_;
  std::vector<CoordinatedShard*> by_group_;  // null: another node's
  std::size_t role_count_ = 0;
  bool connecting_ = false;
  std::uint32_t turns_per_look_ = 1;
  std::uint32_t turns_per_look_max_ = 1;
  std::uint32_t turns_to_look_ = 0;
  std::uint64_t looked_ns_ = 0;
  bool look_ = true;         // in the next Progress
  bool persisting_ = false;  // as of the last look
  std::uint64_t last_token_ = 0;
  NodeCounters counters_;
};

}  // namespace ring::node

#endif  // RING_NODE_NODE_H_
