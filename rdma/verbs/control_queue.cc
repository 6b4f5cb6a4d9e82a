#include "rdma/verbs/control_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "ring/base/status.h"

namespace ring::rdma::verbs {
namespace {
constexpr std::size_t kPageSize = 4096;
}  // namespace

absl::StatusOr<std::unique_ptr<ControlQueue>> ControlQueue::Make(Nic* nic, std::uint32_t serial) {
  std::unique_ptr<ControlQueue> queue(new ControlQueue(nic, serial));
  queue->page_ = new (std::aligned_alloc(kPageSize, kPageSize)) Page{};
  queue->mr_ = ibv_reg_mr(nic->pd(), queue->page_, kPageSize, AccessFlagsOf(kRemoteWrite));
  if (queue->mr_ == nullptr) return RegistrationError(nic->name(), kPageSize, errno);
  ++nic->counters().card_registrations;
  CardQueue::Sizes sizes;
  sizes.send_depth = kSendDepth;
  sizes.recv_depth = kReceives;
  RING_ASSIGN_OR_RETURN(queue->card_, CardQueue::Make(nic, sizes));
  return queue;
}

ControlQueue::~ControlQueue() {
  card_.reset();
  if (mr_ != nullptr) ibv_dereg_mr(mr_);
  std::free(page_);
}

RemoteWord ControlQueue::word() const {
  return {reinterpret_cast<std::uint64_t>(&page_->peer_sleeps), mr_->rkey};
}

ibv_sge ControlQueue::Piece(void* address, std::size_t size) const {
  return {reinterpret_cast<std::uint64_t>(address), static_cast<std::uint32_t>(size), mr_->lkey};
}

bool ControlQueue::Repost(std::uint32_t buffer) {
  ibv_sge piece = Piece(&page_->receives[buffer], sizeof(ControlMessage));
  ibv_recv_wr wr{};
  wr.wr_id = PackWrId({serial_, WrKind::kControlReceive, buffer});
  wr.sg_list = &piece;
  wr.num_sge = 1;
  ++nic_->counters().card_receives;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(card_->get(), &wr, &bad) == 0;
}

bool ControlQueue::PostReceives() {
  bool posted = true;
  for (std::uint32_t i = 0; i < kReceives; ++i) posted = posted && Repost(i);
  return posted;
}

absl::Span<const std::byte> ControlQueue::Received(std::uint32_t buffer, std::uint32_t size) const {
  return {reinterpret_cast<const std::byte*>(&page_->receives[buffer % kReceives]),
          std::min<std::size_t>(size, sizeof(ControlMessage))};
}

bool ControlQueue::Post(ibv_send_wr* wr, WrKind kind) {
  if (outstanding_ == kSendDepth) return false;  // a peer that makes us wake it without end
  ++outstanding_;
  wr->wr_id = PackWrId({serial_, kind, 0});
  wr->send_flags |= IBV_SEND_SIGNALED;
  ++nic_->counters().card_requests;
  ++nic_->counters().card_doorbells;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(card_->get(), wr, &bad) == 0;
}

bool ControlQueue::Send(const ControlMessage& message) {
  if (sent_ == kMessages) return false;
  page_->sends[sent_] = message;
  ibv_sge piece = Piece(&page_->sends[sent_++], sizeof(message));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  return Post(&wr, WrKind::kControl);
}

bool ControlQueue::SendWake() {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  return Post(&wr, WrKind::kControl);
}

bool ControlQueue::ReadEntry(const RemoteWord& entry) {
  ibv_sge piece = Piece(&page_->entry, sizeof(page_->entry));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_READ;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = entry.address;
  wr.wr.rdma.rkey = entry.rkey;
  return Post(&wr, WrKind::kKeyRead);
}

bool ControlQueue::TellSleeping(const RemoteWord& word) {
  // Not inline: a card may take none of it.
  ibv_sge piece = Piece(&page_->asleep, sizeof(page_->asleep));
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = word.address;
  wr.wr.rdma.rkey = word.rkey;
  return Post(&wr, WrKind::kSleepWord);
}

std::uint64_t ControlQueue::entry() const {
  return __atomic_load_n(&page_->entry, __ATOMIC_ACQUIRE);
}

bool ControlQueue::TakePeerSleeps() {
  if (__atomic_load_n(&page_->peer_sleeps, __ATOMIC_ACQUIRE) == 0) return false;
  return __atomic_exchange_n(&page_->peer_sleeps, 0, __ATOMIC_SEQ_CST) != 0;
}

}  // namespace ring::rdma::verbs
