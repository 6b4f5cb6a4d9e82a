#include "rdma/soft/receive_queue.h"

#include <algorithm>

#include "rdma/soft/shared_copy.h"
#include "ring/base/check.h"

namespace ring::rdma::soft {

ReceiveQueue::ReceiveQueue(const Mapping& mapping, std::byte* mailbox, const MailboxName& name)
    : mapping_(mapping), mailbox_(mailbox), name_(name), ring_(name.depth) {
  if (mailbox_ == nullptr) return;
  auto* header = reinterpret_cast<MailboxHeader*>(mailbox_);
  header->posted.store(0, std::memory_order_relaxed);
  // Stamps of an earlier connection do not count (another key), but they are cleared all the same:
  // a stamp is looked at before the key.
  for (std::uint32_t i = 0; i < name_.depth; ++i) {
    auto* arrivals = reinterpret_cast<SharedArrival*>(mailbox_ + ArrivalsOffset(name_.depth));
    arrivals[i].stamp.store(0, std::memory_order_relaxed);
  }
  header->open_key.store(name_.key, std::memory_order_seq_cst);
}

SharedReceive* ReceiveQueue::SharedSlot(std::uint64_t n) const {
  return reinterpret_cast<SharedReceive*>(mailbox_ + ReceivesOffset()) + n % name_.depth;
}

const SharedArrival* ReceiveQueue::ArrivalSlot(std::uint64_t n) const {
  return reinterpret_cast<const SharedArrival*>(mailbox_ + ArrivalsOffset(name_.depth)) +
         n % name_.depth;
}

void ReceiveQueue::Post(std::uint64_t wr_id, absl::Span<const Sge> sges) {
  RING_CHECK(!Full() && sges.size() <= kRecvSgeMax) << "receive posted without room";
  PostedReceive& receive = ring_[posted_ % ring_.size()];
  receive.wr_id = wr_id;
  receive.length = 0;
  receive.sge_count = static_cast<std::uint32_t>(sges.size());
  for (std::size_t i = 0; i < sges.size(); ++i) {
    receive.sges[i] = sges[i];
    receive.length += sges[i].length;
  }
  if (mailbox_ != nullptr) {
    SharedReceive* slot = SharedSlot(posted_);
    for (std::size_t i = 0; i < sges.size(); ++i) {
      slot->segments[i].offset.store(
          reinterpret_cast<std::uint64_t>(sges[i].address) - mapping_.owner_arena_address(),
          std::memory_order_relaxed);
      slot->segments[i].length.store(sges[i].length, std::memory_order_relaxed);
    }
    slot->segment_count.store(receive.sge_count, std::memory_order_relaxed);
    reinterpret_cast<MailboxHeader*>(mailbox_)->posted.store(posted_ + 1,
                                                             std::memory_order_release);
  }
  ++posted_;
}

bool ReceiveQueue::PeekArrival(Arrival* arrival) const {
  if (mailbox_ == nullptr || Empty()) return false;
  const SharedArrival* slot = ArrivalSlot(taken_);
  if (slot->stamp.load(std::memory_order_acquire) != static_cast<std::uint32_t>(taken_ + 1))
    return false;
  if (slot->key.load(std::memory_order_relaxed) != name_.key) return false;
  arrival->imm = slot->imm.load(std::memory_order_relaxed);
  arrival->has_imm = slot->has_imm.load(std::memory_order_relaxed) != 0;
  arrival->opcode = arrival->has_imm ? Opcode::kRecvWithImm : Opcode::kRecv;
  arrival->byte_len = slot->byte_len.load(std::memory_order_relaxed);
  // Without immediate data it says that it is a SEND, whatever else it says.
  const bool written = arrival->has_imm && slot->opcode.load(std::memory_order_relaxed) ==
                                               static_cast<std::uint8_t>(Opcode::kWriteWithImm);
  // The length of a SEND is the peer's word; no more than was posted can have arrived.
  if (!written) {
    arrival->byte_len =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(arrival->byte_len, Front().length));
  }
  arrival->status = slot->status.load(std::memory_order_relaxed) == 0 ? WcStatus::kSuccess
                                                                      : WcStatus::kLocalLength;
  return true;
}

void ReceiveQueue::CloseMailbox() {
  if (mailbox_ == nullptr) return;
  reinterpret_cast<MailboxHeader*>(mailbox_)->open_key.store(0, std::memory_order_seq_cst);
  FullFence();
}

}  // namespace ring::rdma::soft
