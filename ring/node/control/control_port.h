// ring/node/control/control_port.h — requests and answers between nodes, off the log.
//
// What:      One control connection per pair of nodes (the lower id connects), spares too; Call
//            asks another node, or this one; Handle says who answers a type. Everything
//            cluster-wide goes through here, so that nodes of one process and nodes of many are the
//            same. Nodes that are added to the cluster get their link when a view names them.
// Shape:     calls are numbered; each has a deadline, later than its caller wants where a slow peer
//            is asked for bulk (answer_times.h). Callbacks run on the node's thread, in Progress,
//            never inside Call.
// Ownership: owns the links. Callbacks of calls that are under way when the port dies are dropped.
// Threads:   one, the node's.
// Errors:    a call ends with what the other node's handler said, kUnavailable (not connected, or
//            the connection was lost: the outcome is unknown), kDeadlineExceeded (unknown too),
//            kResourceExhausted (too much is queued: nothing was sent). Each names the node. A peer
//            that asks, but does not take the answers, loses its connection. One that comes back
//            with another incarnation lost its memory and is refused (L8).
//            An attempt to connect that is not answered for 3 s ends, and is made again.
// Cost:      idle: one poll of a completion queue a turn, and one more for each 16 nodes added.
// Source:    docs/ARCHITECTURE.md "The control plane"; rule L8.
#ifndef RING_NODE_CONTROL_CONTROL_PORT_H_
#define RING_NODE_CONTROL_CONTROL_PORT_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "ring/node/control/answer_times.h"
#include "ring/node/control/control_link.h"
#include "ring/node/control/refusal_log.h"
#include "ring/node/retired_rings.h"
#include "ring/protocol/hello.h"

namespace ring::node {

using ControlReply = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;

// Whether a call ends when its time is over, or is given as long as its peer may need.
enum class CallWait : std::uint8_t { kAsSaid, kForTheSlow };
// Of several that have the same nobody is waited for.
inline CallWait WaitForOneOf(std::size_t sources) {
  return sources == 1 ? CallWait::kForTheSlow : CallWait::kAsSaid;
}

class ControlPort {
 public:
  struct Options {
    rdma::Device* device = nullptr;
    NodeId node;
    Incarnation incarnation;
    std::uint64_t cluster = 0;   // ClusterHash
    std::uint32_t fence = 0;     // ControlConfig::FenceTerms; other nodes have the same (L1)
    std::size_t node_count = 0;  // to begin with
  };
  // reply is called once, now or later, on the node's thread. The body is good for the call only.
  using Handler = absl::AnyInvocable<void(NodeId from, absl::string_view body, ControlReply reply)>;

  static absl::StatusOr<std::unique_ptr<ControlPort>> Create(const Options& options);
  ~ControlPort();

  // By node id; from then on connects to every node with a higher one. More than before: nodes were
  // added. "": the node was removed. awaited: ready() is not without a connection to them.
  // fallbacks: every other attempt goes there, for a start of the node that is not the registered
  // one; empty, or "" of a node: there is none.
  void SetAddresses(std::vector<std::string> addresses, std::vector<bool> awaited,
                    std::vector<std::string> fallbacks = {});
  void OnConnectRequest(std::uint64_t request, absl::string_view private_data);
  // Whether the event was for one of these connections.
  bool OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns);

  void Handle(ControlType type, Handler handler);
  // kForTheSlow: bulk, of a node that nobody can stand in for (answer_times.h). Gives whether the
  // node may get it: else nobody was asked, and `done` is told so soon.
  bool Call(NodeId node, ControlType type, std::string body, std::uint64_t timeout_ns,
            ControlReply done, CallWait wait = CallWait::kAsSaid);
  // One-way: not answered, and dropped when the peer is not connected or too much waits for it.
  // REQUIRES: node is not this one.
  void Send(NodeId node, ControlType type, std::string body);
  // WRITEs into a peer's memory, before whatever is sent to it later. kUnavailable: not connected.
  // done: the bytes are there; never called when the connection ends first.
  // REQUIRES: node is not this one.
  absl::Status Write(NodeId node, const rdma::Sge& from, std::uint64_t to, std::uint32_t rkey,
                     absl::AnyInvocable<void()> done);

  // Faults on purpose. Until then, messages to and from the node are lost; its connection ends.
  void DropUntil(NodeId node, std::uint64_t until_ns);
  void Break(NodeId node);

  // Polls, connects, ends what is overdue. Gives whether anything happened. What the handlers of
  // messages do grows with the bytes that these bring or take away, and requests that come
  // meanwhile wait: after kTurnBytes the rest is the next turn's.
  bool Progress(std::uint64_t now_ns);
  static constexpr std::size_t kTurnBytes = 64 * 1024;
  // For work whose bytes no message carries and no Write posts.
  void Spend(std::size_t bytes) { spent_ += bytes; }
  bool turn_spent() const { return spent_ >= kTurnBytes; }
  void Arm();
  bool HasWork() const { return !local_.empty() || turn_spent(); }

  bool ready() const;
  // "control to node 4: refused", for what is missing.
  std::string Missing() const;
  // What this node has a part in: nobody who has one in another is spoken to from now on.
  void SetFounding(std::uint64_t founding);
  // The cluster agreed that this is the node's present start: another one's connection ends. away:
  // that it failed, or was removed: then any other one takes its place.
  void OnRegistered(NodeId node, Incarnation incarnation, bool away = false);
  // Attempts to connect are so far apart at most.
  static constexpr std::uint64_t kAttemptsApartMaxNs = 1'000'000'000;
  // Ever since this start.
  bool WasConnected(NodeId node) const {
    return node.value() < links_.size() && links_[node.value()]->was_up;
  }
  bool connected(NodeId node) const {
    return node == options_.node || (node.value() < links_.size() && links_[node.value()]->up());
  }
  // Whether the start that is connected, or was last, is the one that the cluster knows, as far as
  // it knows any: a later one lost what that had.
  bool IsRegisteredStart(NodeId node) const {
    if (node == options_.node || node.value() >= registered_.size()) return true;
    const std::uint64_t registered = registered_[node.value()];
    return registered == 0 || incarnations_[node.value()] == registered;
  }
  // Which connection to another node this is, counted from 1.
  std::uint32_t generation(NodeId node) const { return links_[node.value()]->generation(); }
  // "local", "shm", "tcp", "rdma"; "" for itself, "down" if there is no connection.
  std::string TransportTo(NodeId node) const;
  // Where this node connects to it; empty: it has no such node.
  std::string AddressOf(NodeId node) const {
    return node.value() < addresses_.size() ? addresses_[node.value()] : "";
  }
  NodeId node() const { return options_.node; }
  std::size_t node_count() const { return links_.size(); }
  std::uint64_t now_ns() const { return now_ns_; }
  static constexpr std::size_t kLinksPerQueue = 16;  // of nodes that were added

 private:
  struct PendingCall {
    NodeId node;
    std::uint64_t begun_ns = 0;
    std::uint64_t deadline_ns = 0;
    ControlType type = ControlType::kPing;
    CallWait wait = CallWait::kAsSaid;
    ControlReply done;  // null: its caller was told that none came
  };

  struct LocalCall {
    absl::AnyInvocable<void()> run;
    std::size_t size = 0;  // of what it brings
  };

  explicit ControlPort(const Options& options);
  absl::Status Grow(std::size_t node_count);
  rdma::CompletionQueue* QueueOf(NodeId peer) const;
  bool Awaited(const ControlLink& link) const;
  absl::Status TryAccept(std::uint64_t request, absl::string_view private_data);
  absl::Status CheckFounding(std::uint64_t founding) const;
  absl::Status CheckIncarnation(std::uint32_t node, std::uint64_t incarnation);
  absl::Status CheckFallback(const ControlLink& link, std::uint64_t incarnation) const;
  void TakeIncarnation(std::uint32_t node, std::uint64_t incarnation);
  void ConfirmIncarnation(std::uint32_t node);
  void MarkOver(std::uint32_t node, std::uint64_t incarnation);
  std::string FallbackOf(NodeId node) const {
    return node.value() < fallbacks_.size() ? fallbacks_[node.value()] : "";
  }
  bool FallsBack(const ControlLink& link) const {
    const std::string fallback = FallbackOf(link.peer());
    return !fallback.empty() && link.address == fallback && fallback != AddressOf(link.peer());
  }
  // When the last attempt began.
  static std::uint64_t AttemptedNs(const ControlLink& link);
  void Connect(ControlLink& link);
  void Establish(ControlLink& link);
  void Lose(ControlLink& link, absl::string_view why);
  bool Dropped(NodeId node) const {
    return node.value() < dropped_until_ns_.size() && dropped_until_ns_[node.value()] > now_ns_;
  }
  bool PollCompletions();
  void OnMessage(ControlLink& link);
  void Answer(ControlLink& link, const ControlHeader& header, std::string body);
  void Dispatch(ControlType type, NodeId from, absl::string_view body, ControlReply reply);
  void Later(ControlReply done, absl::StatusOr<std::string> result);
  // The start that is connected is the one that the cluster does without.
  bool IsAway(const ControlLink& link) const {
    const std::uint32_t peer = link.peer().value();
    return away_[peer] && incarnations_[peer] == registered_[peer];
  }
  void ConnectAll();
  void EndOverdue();
  bool RunLocal();

  Options options_;
  std::vector<std::unique_ptr<rdma::CompletionQueue>> cqs_;  // of the first nodes, of those added
  BufferPool memory_;
  RetiredRings retired_;                             // of that memory
  std::vector<std::unique_ptr<ControlLink>> links_;  // by node; this one's is never up
  std::vector<std::uint64_t> incarnations_;          // the present ones; 0: not heard of
  std::vector<std::uint64_t> former_;                // the last ones that spoke; 0: those above
  std::vector<std::vector<std::uint64_t>> over_;     // starts that a later one replaced
  std::vector<std::uint64_t> registered_;            // as the last view says; 0: not heard of
  std::vector<bool> away_;                           // those; as the last view says
  RefusalLog refuses_;                               // whom this node refuses
  RefusalLog refused_;                               // by whom it is refused
  std::uint64_t founding_ = 0;                       // of the cluster; 0: in none yet
  std::vector<std::uint64_t> dropped_until_ns_;      // by node; empty: nobody ever
  std::vector<std::string> addresses_;
  std::vector<std::string> fallbacks_;
  std::vector<bool> awaited_;
  std::array<Handler, kControlTypeCount> handlers_;
  absl::flat_hash_map<std::uint64_t, PendingCall> calls_;
  std::vector<AnswerTimes> answer_times_;  // by node
  std::deque<LocalCall> local_;
  std::size_t spent_ = 0;        // bytes, in this turn
  std::size_t first_cq_ = 0;     // to be polled
  std::uint64_t next_call_ = 1;  // 0 stands in one-way messages
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_step_ns_ = 0;  // look at connections and deadlines then
};

// Between an answer's status and its header and body.
std::string ControlErrorText(const absl::Status& status);

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CONTROL_PORT_H_
