// ring/node/control/control_link.h — the control connection to one other node.
//
// What:      Sends messages in chunks within what the peer has posted, receives chunks, WRITEs into
//            the peer's memory in order with the messages.
// Shape:     kWindow chunks under way at most; the peer tells what it consumed in every header, and
//            by a chunk of its own when it has nothing else to say. So a SEND never finds the peer
//            without a posted receive.
// Ownership: owns queue pair and buffers; these are retired when their connection ends (L5). The
//            source of a WRITE is read until its `done` is gone.
// Threads:   one, the node's.
// Errors:    what goes wrong ends the connection: failed() says why. What waits to be sent is
//            bounded in number and in bytes; over that Send and Write refuse, and queue nothing.
// Cost:      two copies of each message.
#ifndef RING_NODE_CONTROL_CONTROL_LINK_H_
#define RING_NODE_CONTROL_CONTROL_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/control/control_message.h"
#include "ring/node/retired_rings.h"

namespace ring::node {

class ControlLink {
 public:
  static constexpr std::uint32_t kWindow = 12;
  static constexpr std::uint32_t kReceiveCount = 24;  // window, and room for credits
  static constexpr std::uint32_t kSendDepth = 64;
  static constexpr std::size_t kMemorySize = (kWindow + kReceiveCount) * kControlBufferSize;
  static constexpr std::size_t kOutgoingCountMax = 1024;
  static constexpr std::size_t kOutgoingBytesMax = std::size_t{16} << 20;

  // pool: buffers of kMemorySize. retired: those of them that peers may still write to.
  ControlLink(NodeId peer, BufferPool* pool, RetiredRings* retired)
      : peer_(peer), pool_(pool), retired_(retired) {}
  ~ControlLink() { Drop(); }
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  // A queue pair on its way, then up. REQUIRES: none is there.
  absl::Status Begin(std::unique_ptr<rdma::QueuePair> qp);
  void Establish();
  // Forgets queue pair and everything queued. The next connection has another generation.
  void Drop();

  bool up() const { return established_ && failure_.ok(); }
  bool established() const { return established_; }
  const absl::Status& failed() const { return failure_; }
  // Ends the connection: nothing more is sent, and whoever drives the link drops it. The first
  // reason stays.
  void Fail(const absl::Status& status);
  rdma::QueuePair* qp() const { return qp_.get(); }
  NodeId peer() const { return peer_; }
  std::uint32_t generation() const { return generation_; }

  absl::Status Send(const ControlHeader& header, std::string body);
  // done: the bytes are in the peer's memory. Never called when the connection ends first: then it
  // goes behind the queue pair.
  absl::Status Write(const rdma::Sge& from, std::uint64_t to, std::uint32_t rkey,
                     absl::AnyInvocable<void()> done);
  // Gives true when message() is whole.
  bool OnCompletion(const rdma::WorkCompletion& completion);
  ControlAssembler& message() { return assembler_; }
  // Posts what fits.
  void Pump();
  // Says something that asks for nothing: if the peer is gone, that fails. So often at most, while
  // nothing comes: it takes room of the peer's for credits.
  static constexpr std::uint32_t kProbesMax = 4;
  void Probe();
  bool probed_in_vain() const { return probes_ == kProbesMax; }

  std::uint64_t heard_ns = 0;  // the port's, as what follows: when something came, or was missed
  std::uint64_t retry_ns = 0;
  std::uint64_t backoff_ns = 0;
  bool was_up = false;         // some time
  bool moved = false;          // the peer is to be reached by another transport than before
  std::uint64_t moved_ns = 0;  // when that was heard of
  std::string address;         // the last one that this node connected to
  std::string last_error;
  std::uint64_t founding = 0;  // that the peer had a part in when it connected

 private:
  struct Outgoing {
    ControlHeader header;
    std::string body;
    std::size_t sent = 0;
    bool is_write = false;
    rdma::Sge from;
    std::uint64_t to = 0;
    std::uint32_t rkey = 0;
    absl::AnyInvocable<void()> done;
  };

  void PostReceive(std::uint32_t index);
  // Whether so many chunks more may be under way.
  bool HasWindow(std::uint32_t chunks) const;
  // more: another chunk follows at once.
  bool PostChunk(ControlHeader header, absl::string_view body, bool more);
  bool PumpOne(Outgoing& item);
  void PumpCredit();
  absl::Status CheckRoom(std::size_t body_size) const;

  NodeId peer_;
  BufferPool* pool_;
  RetiredRings* retired_;
  BufferPool::Buffer memory_;  // of the queue pair: receive buffers, then send buffers
  std::unique_ptr<rdma::QueuePair> qp_;
  bool established_ = false;
  absl::Status failure_;
  std::uint32_t generation_ = 0;
  std::deque<Outgoing> outgoing_;
  std::size_t outgoing_bytes_ = 0;
  std::deque<absl::AnyInvocable<void()>> writing_;  // of WRITEs that are posted, in their order
  std::uint32_t posted_ = 0;                        // requests without completion
  std::uint32_t buffers_in_use_ = 0;
  std::uint32_t next_buffer_ = 0;
  std::uint32_t sent_ = 0;  // chunks that count, mod 2^32
  std::uint32_t peer_consumed_ = 0;
  std::uint32_t consumed_ = 0;
  std::uint32_t told_ = 0;
  std::uint32_t probes_ = 0;  // since something came
  ControlAssembler assembler_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CONTROL_LINK_H_
