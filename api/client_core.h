// api/client_core.h — the client behind its doors: operations, routing, retries.
//
// What:      ClientCore takes requests, sends each to the coordinator of its key, finds the
//            answers, and retries what may be retried under the same (client, seq).
// Shape:     a table of operations; lists of those that wait to be sent, for an answer, or to be
//            taken. Nothing happens outside Step and WaitStep.
// Units:     nanoseconds of CLOCK_BOOTTIME.
// Ownership: an Operation is lent from Submit to Free.
// Threads:   the client's.
// Errors:    Submit: kInvalidArgument, kResourceExhausted (window or memory). Later failures are
//            outcomes of operations.
// Cost:      Submit and Step allocate nothing once connections and large buffers are there.
// Source:    protocol rules X1 (same client and seq), X3 (owner unknown), X4 (window, 60 s), X5.
#ifndef RING_API_CLIENT_CORE_H_
#define RING_API_CLIENT_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/client.h"
#include "api/client_connection.h"
#include "api/client_memory.h"
#include "api/client_operation.h"
#include "api/client_owner_search.h"
#include "api/client_sequence.h"
#include "rdma/fabric.h"
#include "ring/base/clock.h"
#include "ring/base/processors.h"
#include "ring/base/random.h"
#include "ring/cluster/routing.h"
#include "ring/cluster/view.h"

namespace ring::api {

struct Request {
  protocol::Operation operation = protocol::Operation::kGet;
  absl::string_view key;
  absl::string_view value;
  std::optional<MemgestId> memgest;  // put, move; none: the cluster's default
  std::optional<Version> if_version;
  // Of the view when memgest and if_version were given: Submit may come later. 0: it comes at once,
  // or nothing was founded then.
  std::uint64_t founding = 0;
  absl::Duration deadline;
  std::size_t value_size_hint = 0;
  bool degraded = false;  // get
  Sink sink = Sink::kCaller;
  std::uint64_t token = 0;
  char* destination = nullptr;
  std::size_t destination_size = 0;
};

// What a simulation puts in the place of the system.
struct ClientEnvironment {
  const Clock* clock = nullptr;
  Random* random = nullptr;
  std::unique_ptr<rdma::Device> device;
  int processor_count = 0;  // that client and nodes run on; 0: the machine's
};

class ClientCore {
 public:
  // clock: null for CLOCK_BOOTTIME; a test may own time. It outlives the core.
  static absl::StatusOr<std::unique_ptr<ClientCore>> Open(const ClientOptions& options,
                                                          const Clock* clock = nullptr);
  // Does not wait for a view: the caller drives Step, and submits once connected(). It sleeps by
  // PrepareSleep and WakeUp.
  static absl::StatusOr<std::unique_ptr<ClientCore>> Start(const ClientOptions& options,
                                                           ClientEnvironment environment);
  bool connected() const { return view_refreshes_ != 0; }
  ~ClientCore();

  // Sent with the next Flush or Step, or ended already, when it comes too late (Request::founding).
  // The operation is the caller's until Free, or the pipeline's.
  absl::StatusOr<Operation*> Submit(const Request& request);
  void Free(Operation* op);
  void Flush();
  // Never waits; gives whether anything happened.
  bool Step();
  // Step, and when nothing happened: spins, then sleeps, until something does or until `until_ns`.
  void WaitStep(std::uint64_t until_ns);
  // Around a sleep: arms the queues and looks once more. Gives until when to sleep at most; not
  // later than now: there was something. WakeUp follows in either case.
  std::uint64_t PrepareSleep(std::uint64_t until_ns);
  void WakeUp();
  // The oldest finished operation of the pipeline, lent until FreeTaken; null: none.
  Operation* TakeFinished();
  void FreeTaken();
  // Calls the callbacks of finished operations, which free these. Gives whether there were any.
  bool RunCallbacks();
  // Ends everything under way without an answer, and takes nothing more.
  void Shutdown();

  // Asks for the view; true once an answer was adopted.
  bool RefreshView(std::uint64_t until_ns);
  const cluster::View& view() const { return view_; }
  std::size_t in_use() const { return in_use_; }
  // Whether steps and callbacks can make room for a request that found none: operations are under
  // way, or were given up and their answers, or the ends of their connections, are still to come.
  // Finished ones that nobody took keep their places.
  bool may_make_room() const { return unfinished_ != 0 || !called_.empty() || !waiting_.empty(); }
  // The user's, queued or on the wire, without those that were given up.
  std::size_t unfinished() const { return unfinished_; }
  std::vector<NodeConnection> Connections() const;
  // Who this is to the nodes: the two halves of the id.
  std::pair<std::uint64_t, std::uint64_t> identity() const {
    return {context_.client_high, context_.client_low};
  }
  std::uint64_t ClockNs();
  std::uint64_t DeadlineNs(absl::Duration deadline);
  Connection* ConnectionOf(NodeId node) const;
  // Where the operation goes, if nobody coordinates that shard in the view known here.
  std::optional<cluster::Place> VacantPlace(const Operation& op) const;

 private:
  ClientCore(const ClientOptions& options, const Clock* clock, Random* random)
      : options_(options), clock_(clock), random_(random) {}
  absl::Status OpenDevice();
  absl::Status Initialize();
  absl::Status Bootstrap();
  absl::Status AskSeed(const std::string& seed, std::uint64_t until_ns);
  void NewIdentity();
  std::uint64_t RandomBits();

  // client_core.cc
  absl::Status Check(const Request& request) const;
  absl::Status BuildFrame(const Request& request, Operation* op);
  void ApplyFlags(const Request& request, Operation* op);
  absl::Status AttachLarge(Operation* op, std::size_t size);
  Operation* TakeOperation();
  // One of the client's own, without key and value, that is not the user's.
  Operation* TakeInternal(protocol::Operation operation, Sink sink);
  bool TimeMoved();
  void GiveBack(Operation* op);  // one that is done, also the client's own
  void Recycle(Operation* op);
  void PlaceOrQueue(Operation* op);
  bool Place(Operation* op, Connection* connection);
  Connection* Route(int slot) const;
  void Pump();
  void PollDevice(bool* progress);

  // client_core_answer.cc
  void Harvest(bool* progress);
  void OnAnswer(Operation* op, const protocol::ReplyHeader& reply, Connection* connection);
  void TakeValue(Operation* op, const protocol::ReplyHeader& reply, Connection* connection);
  void OnWrongOwner(Operation* op, const protocol::ReplyHeader& reply);
  void OnDamaged(Operation* op, OpOutcome outcome);
  void OnReplyTooLarge(Operation* op, const protocol::ReplyHeader& reply);
  void Refuse(Operation* op, OpOutcome outcome);
  void Requeue(Operation* op, std::uint64_t not_before_ns);
  void Settle(Operation* op, OpOutcome outcome);
  void Finish(Operation* op, OpOutcome outcome);

  // client_core_time.cc
  void OnTick();
  void CheckDeadline(Operation* op);
  void Expire(Operation* op);
  void CheckConnection(Connection* connection);
  void MarkRetried(Operation* op);
  void ResetConnection(Connection* connection, bool graceful);
  std::uint64_t NextTimerNs() const;
  void Sleep(std::uint64_t until_ns);

  // client_core_owner.cc
  void SeekOwner(const Operation& op);
  void StepOwnerSearch();
  void AskWhoOwns(const OwnerSearch::Round& round);
  void OnOwnerAnswer(Operation* op, OpOutcome outcome);
  bool TakeOwner(std::size_t shard, NodeId node, std::uint32_t epoch);
  void LeaveFormerOwners();

  // client_core_view.cc
  void WantView() { view_wanted_ = true; }
  void ForgetCluster(std::uint64_t former);
  bool EndIfOfFormer(Operation* op);
  // For what is noticed again and again: at most one request every kViewPaceNs.
  void WantViewAtPace();
  void StartViewRequest();
  Connection* PickViewSource();
  void ApproachSeed();
  void OnViewAnswer(Operation* op, OpOutcome outcome);
  bool AdoptView(cluster::View view);
  template <class F>
  void ForEachConnection(F f) const;

  const ClientOptions options_;
  const Clock* const clock_;
  Random* const random_;  // null: the system's
  bool ends_ = false;     // since Shutdown
  bool started_ = false;  // by Start: nobody waits in Bootstrap
  int processor_count_ = ProcessorCount();
  std::vector<std::string> seeds_;
  std::string host_;
  std::uint64_t timeout_default_ns_ = 0;
  std::uint64_t spin_max_ns_ = 0;
  std::uint64_t spin_ns_ = 0;
  std::size_t value_size_max_ = 0;

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> send_cq_;
  std::unique_ptr<rdma::CompletionQueue> recv_cq_;
  std::unique_ptr<ClientBuffers> pool_;
  std::byte* frames_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> frames_region_;
  ConnectionContext context_;
  std::vector<Operation> ops_;
  std::vector<std::uint16_t> free_;      // a stack: the last used is the warmest
  std::vector<std::uint16_t> queue_;     // kQueued, oldest first
  std::vector<std::uint16_t> waiting_;   // on_wire
  std::vector<std::uint16_t> finished_;  // a ring of pipeline operations
  std::size_t finished_head_ = 0;
  std::size_t finished_count_ = 0;
  std::vector<std::uint16_t> taken_;
  std::vector<std::uint16_t> called_;  // finished operations with a callback
  std::size_t in_use_ = 0;
  std::size_t unfinished_ = 0;
  std::size_t unfinished_writes_ = 0;
  bool pump_needed_ = false;
  bool held_up_ = false;  // a connection has no room for what it is to send

  cluster::View view_;
  std::unique_ptr<cluster::Routing> routing_;
  std::vector<Connection*> coordinators_;                 // by group * s + shard
  std::vector<std::uint32_t> owner_epochs_;               // of the views they are from, the same
  std::vector<SequenceWindow> windows_;                   // the same
  std::vector<Version> known_versions_;                   // highest that was answered, the same
  std::vector<std::unique_ptr<Connection>> connections_;  // by node id; null: not in the view
  std::unique_ptr<Connection> seed_connection_;
  std::size_t seed_index_ = 0;
  std::uint64_t seed_attempt_ns_ = 0;

  OwnerSearch owners_;
  bool owners_moved_ = false;  // what was asked of former ones is to be looked through
  bool seed_wanted_ = false;   // the view of a seed, whoever else could be asked
  std::size_t kept_back_ = 0;  // operations that are not the user's to take

  bool owes_acknowledgement_ = false;  // of a large value that was taken
  bool view_wanted_ = false;
  Operation* view_op_ = nullptr;
  std::uint64_t view_refreshes_ = 0;
  std::size_t view_cursor_ = 0;
  std::uint64_t view_retry_ns_ = 0;
  // Of the buffer for the next one: what a node says of it is kept within bounds, the upper one far
  // above what a catalogue of all ids comes to.
  static constexpr std::size_t kViewSizeMin = std::size_t{64} << 10;
  static constexpr std::size_t kViewSizeMax = std::size_t{16} << 20;
  std::size_t view_size_ = kViewSizeMin;
  std::uint64_t view_pace_ns_ = 0;
  absl::Status view_error_;

  std::uint64_t now_ns_ = 0;
  std::uint32_t step_count_ = 0;
  std::uint32_t look_period_ = 1;
  std::uint64_t tick_ns_ = 0;  // the kernel's, at the last step
  std::uint64_t last_tick_ns_ = 0;
  std::uint64_t last_write_ns_ = 0;
};

template <class F>
void ClientCore::ForEachConnection(F f) const {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection != nullptr) f(connection.get());
  }
  if (seed_connection_ != nullptr) f(seed_connection_.get());
}

}  // namespace ring::api

#endif  // RING_API_CLIENT_CORE_H_
