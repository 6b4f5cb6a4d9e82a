// rdma/soft/receive_queue.h — posted receives of one queue pair, and its mailbox for a mapped peer.
//
// What:      keeps posted receives privately (what completions are made of) and mirrors them into
//            the mailbox, where the peer's soft NIC scatters into them and stamps arrivals.
// Shape:     a ring of `depth` receives; the n-th arrival consumes the n-th receive.
// Ownership: receive buffers belong to the device until their completion.
// Threads:   the owner's; the mailbox is shared with one peer.
// Errors:    none; what the peer wrote is bounded by what was posted.
#ifndef RING_RDMA_SOFT_RECEIVE_QUEUE_H_
#define RING_RDMA_SOFT_RECEIVE_QUEUE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"

namespace ring::rdma::soft {

// How a peer finds a queue pair's mailbox; travels in the handshake.
struct MailboxName {
  std::uint32_t index = 0;
  std::uint32_t key = 0;
  std::uint32_t depth = 0;
  std::uint32_t cq_cell = 0;
};

struct PostedReceive {
  std::uint64_t wr_id = 0;
  std::uint64_t length = 0;
  std::uint32_t sge_count = 0;
  std::array<Sge, kRecvSgeMax> sges;
};

struct Arrival {
  WcStatus status = WcStatus::kSuccess;
  Opcode opcode = Opcode::kRecv;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::uint32_t byte_len = 0;
};

class ReceiveQueue {
 public:
  // mailbox: null for a queue pair whose peer is not mapped.
  ReceiveQueue(const Mapping& mapping, std::byte* mailbox, const MailboxName& name);

  bool Full() const { return posted_ - taken_ == ring_.size(); }
  bool Empty() const { return posted_ == taken_; }
  std::uint64_t count() const { return posted_ - taken_; }
  void Post(std::uint64_t wr_id, absl::Span<const Sge> sges);
  // The oldest posted receive. REQUIRES: !Empty().
  const PostedReceive& Front() const { return ring_[taken_ % ring_.size()]; }
  // The n-th behind it. REQUIRES: n < count().
  const PostedReceive& At(std::uint64_t n) const { return ring_[(taken_ + n) % ring_.size()]; }
  void PopFront() { ++taken_; }
  // Looks for the next arrival from a mapped peer, for the receive at Front().
  bool PeekArrival(Arrival* arrival) const;
  // The peer's requests fail from now on.
  void CloseMailbox();

 private:
  SharedReceive* SharedSlot(std::uint64_t n) const;
  const SharedArrival* ArrivalSlot(std::uint64_t n) const;

  const Mapping& mapping_;
  std::byte* mailbox_;
  MailboxName name_;
  std::vector<PostedReceive> ring_;
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_RECEIVE_QUEUE_H_
