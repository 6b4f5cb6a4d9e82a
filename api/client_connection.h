// api/client_connection.h — the client's connection to one node.
//
// What:      Connection: tries a node's addresses until one answers, then WRITEs requests into the
//            node's ring and finds the answers in its reply slots.
// Shape:     one queue pair, one RequestRing, reply slots for every operation; a chain of requests
//            goes out with one post, and a doorbell only when the node sleeps.
// Ownership: borrows device, queues, pool and the operations' frames.
// Threads:   the client's.
// Errors:    a failed post or completion, or a refused handshake, makes broken() true; the owner
//            then calls Reset and puts the operations elsewhere.
// Cost:      Enqueue allocates nothing; three work requests per operation, five with a PAD.
#ifndef RING_API_CLIENT_CONNECTION_H_
#define RING_API_CLIENT_CONNECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/client_memory.h"
#include "api/client_operation.h"
#include "api/client_ring.h"
#include "rdma/fabric.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring::api {

// What connections share.
struct ConnectionContext {
  rdma::Device* device = nullptr;
  rdma::CompletionQueue* send_cq = nullptr;
  rdma::CompletionQueue* recv_cq = nullptr;
  ClientBuffers* pool = nullptr;
  std::size_t op_count = 0;
  std::uint32_t frame_lkey = 0;
  std::uint64_t client_high = 0;
  std::uint64_t client_low = 0;
  // Of the view: which cluster, and which founding of it. 0: there is none yet.
  std::uint64_t cluster = 0;
  std::uint64_t founding = 0;
};

// The frame of an operation, with the zero word behind it and the PAD word that may go before it.
inline constexpr std::size_t kFrameStride =
    protocol::kRequestSizeMax + protocol::kCell + protocol::kCell;

class Connection {
 public:
  enum class State : std::uint8_t { kIdle, kConnecting, kReady, kBackingOff };

  Connection(const ConnectionContext* context, std::vector<std::string> addresses);
  ~Connection();

  State state() const { return state_; }
  bool ready() const { return state_ == State::kReady; }
  bool broken() const { return broken_; }
  // The node has its part in a later founding of the cluster than the view is of: it is asked for
  // its view, and for nothing else.
  bool ahead() const { return ready() && accept_.founding > context_->founding; }
  // ... of an earlier one: nothing is asked of it, and it is refused when it comes again.
  bool behind() const { return ready() && accept_.founding < context_->founding; }
  // Requests go there.
  bool serves() const { return ready() && !broken_ && accept_.founding == context_->founding; }
  const absl::Status& last_error() const { return last_error_; }
  // Of the node's handshake. REQUIRES: it was ready once.
  const protocol::ClientAccept& accept() const { return accept_; }
  absl::string_view transport() const;
  // The address that was tried last or is in use.
  const std::string& address() const { return address_; }
  void set_addresses(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

  // Moves on towards kReady; cheap when nothing is due.
  void Connect(std::uint64_t now_ns);
  // Of the queue pair that Reset ended.
  std::uint32_t last_qp_number() const { return last_qp_number_; }
  bool Owns(const rdma::QueuePair* qp) const { return qp != nullptr && qp == qp_.get(); }
  void OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns);
  void OnSendCompletion(const rdma::WorkCompletion& completion);
  void OnReceive(const rdma::WorkCompletion& completion);

  // Places the operation's frame and adds it to the chain. False: no room now.
  bool Enqueue(Operation* op, std::uint64_t first_incomplete);
  // Posts the chain, and rings the doorbell when the node sleeps, once a sleep. A chain that finds
  // no room for the silence period breaks the connection: what it resends would be too old (X4), at
  // most by as much again.
  void Flush(std::uint64_t now_ns);
  // Something is in the chain that found no room.
  bool held_up() const { return held_up_ns_ != 0; }
  bool wants_flush() const { return chain_length_ != 0 || owes_bell_; }

  // The answer to op, once it is there; null before.
  const protocol::ReplyHeader* FindReply(const Operation& op) const {
    const std::byte* slot = replies_.address + op.index * protocol::kReplySlotSize;
    const std::uint32_t stamp =
        __atomic_load_n(reinterpret_cast<const std::uint32_t*>(slot), __ATOMIC_ACQUIRE);
    return stamp == op.stamp ? reinterpret_cast<const protocol::ReplyHeader*>(slot) : nullptr;
  }
  // The inline value behind that answer.
  const std::byte* ReplyValue(const Operation& op) const {
    return replies_.address + op.index * protocol::kReplySlotSize + protocol::kCell;
  }
  void OnAnswer(const Operation& op, std::uint64_t now_ns) {
    ring_.Answered(op.ring_end);
    --waiting_count_;
    last_answer_ns_ = now_ns;
  }
  void OnAsked() {
    if (waiting_count_++ == 0) last_answer_ns_ = 0;
  }
  // How long it has owed an answer, as seen by successive calls; or has been connecting.
  std::uint64_t SilentNs(std::uint64_t now_ns) {
    if (state_ == State::kConnecting) return now_ns - attempt_ns_;
    if (last_answer_ns_ == 0) last_answer_ns_ = now_ns;
    return waiting_count_ == 0 ? 0 : now_ns - last_answer_ns_;
  }

  // Ends the queue pair; late answers can no longer land in memory that is used again. The next
  // Connect waits for the back-off, unless `graceful`.
  void Reset(std::uint64_t now_ns, bool graceful);

 private:
  static constexpr std::size_t kChainMax = 64;
  static constexpr std::uint32_t kSendDepth = 256;
  static constexpr std::uint32_t kRecvDepth = 16;

  void StartAttempt(std::uint64_t now_ns);
  void Fail(absl::Status status, std::uint64_t now_ns);
  absl::Status CheckCluster(const protocol::ClientAccept& accept) const;
  void Establish(const rdma::ConnectionEvent& event, std::uint64_t now_ns);
  bool PostChain();
  void AddWrite(const std::byte* source, std::size_t size, std::uint64_t cell, std::size_t offset);
  void RingBell();
  void ClearStaleStamps();

  const ConnectionContext* context_;
  std::vector<std::string> addresses_;
  std::size_t address_index_ = 0;
  std::string address_;
  State state_ = State::kIdle;
  bool broken_ = false;
  absl::Status last_error_;
  std::unique_ptr<rdma::QueuePair> qp_;
  ClientBuffer replies_;
  protocol::ClientAccept accept_;
  RequestRing ring_;
  std::uint64_t attempt_ns_ = 0;
  std::uint64_t retry_ns_ = 0;
  std::uint64_t backoff_ns_ = 0;
  std::uint64_t last_answer_ns_ = 0;
  std::size_t waiting_count_ = 0;

  std::array<rdma::WorkRequest, kChainMax> chain_;
  std::array<rdma::Sge, kChainMax> sges_;
  std::size_t chain_length_ = 0;
  std::uint64_t held_up_ns_ = 0;  // since when the chain finds no room
  std::uint64_t posted_ = 0;      // work requests, for the send queue's depth
  std::uint64_t completed_ = 0;
  std::uint32_t last_qp_number_ = 0;
  std::uint32_t rung_sleep_ = 0;  // of the node, that it was rung in last
  bool owes_bell_ = false;        // a request went out without one
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_CONNECTION_H_
