#include "rdma/verbs/data_queue.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma/soft/send_slot.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {

absl::StatusOr<std::unique_ptr<DataQueue>> DataQueue::Make(Nic* nic, std::uint32_t serial,
                                                           std::uint32_t send_depth,
                                                           std::uint32_t recv_depth) {
  const auto depth_max = static_cast<std::uint32_t>(nic->attributes().max_qp_wr);
  send_depth = std::min(send_depth, depth_max);
  std::unique_ptr<DataQueue> queue(new DataQueue(nic, serial, send_depth));
  CardQueue::Sizes sizes;
  sizes.send_depth = send_depth;
  sizes.recv_depth = recv_depth;
  sizes.send_sges = kSgesMax;
  sizes.recv_sges = soft::kRecvSgeMax;
  sizes.inline_size = soft::kInlineSizeMax;
  RING_ASSIGN_OR_RETURN(queue->card_, CardQueue::Make(nic, sizes));
  RING_RETURN_IF_ERROR(queue->MakeBounce());
  return queue;
}

DataQueue::~DataQueue() {
  card_.reset();  // first: afterwards the card touches nothing
  if (bounce_mr_ != nullptr) ibv_dereg_mr(bounce_mr_);
  if (atomic_mr_ != nullptr) ibv_dereg_mr(atomic_mr_);
}

absl::Status DataQueue::MakeBounce() {
  atomic_mr_ =
      ibv_reg_mr(nic_->pd(), &atomic_result_, sizeof(atomic_result_), IBV_ACCESS_LOCAL_WRITE);
  if (atomic_mr_ == nullptr) return RegistrationError(nic_->name(), sizeof(atomic_result_), errno);
  ++nic_->counters().card_registrations;
  if (card_->inline_size() >= soft::kInlineSizeMax) return absl::OkStatus();
  bounce_.resize(std::size_t{send_depth_} * soft::kInlineSizeMax);
  bounce_mr_ = ibv_reg_mr(nic_->pd(), bounce_.data(), bounce_.size(), 0);
  if (bounce_mr_ == nullptr) return RegistrationError(nic_->name(), bounce_.size(), errno);
  ++nic_->counters().card_registrations;
  return absl::OkStatus();
}

std::uint64_t DataQueue::PartsOf(const WorkRequest& wr) const {
  const std::uint64_t length = soft::GatherLength(wr);
  const std::uint64_t most = nic_->message_size_max();
  return length <= most ? 1 : (length + most - 1) / most;
}

// A place of the bounce buffer is free again once its request is done: there are as many.
void DataQueue::FillInline(const WorkRequest& wr, ibv_send_wr* out) {
  const std::uint32_t length = soft::GatherLength(wr);
  out->num_sge = length == 0 ? 0 : 1;
  if (length == 0) return;
  RING_CHECK(wr.sges.size() == 1) << "inline data was gathered at its post";
  out->sg_list[0].addr = reinterpret_cast<std::uint64_t>(wr.sges[0].address);
  out->sg_list[0].length = length;
  if (length <= card_->inline_size()) {
    out->send_flags |= IBV_SEND_INLINE;
    return;
  }
  std::byte* const place = bounce_.data() + issued_ % send_depth_ * soft::kInlineSizeMax;
  std::memcpy(place, wr.sges[0].address, length);
  out->sg_list[0].addr = reinterpret_cast<std::uint64_t>(place);
  out->sg_list[0].lkey = bounce_mr_->lkey;
}

bool DataQueue::Reaches(const WorkRequest& wr) const {
  std::uint32_t lkey = 0;
  return std::all_of(wr.sges.begin(), wr.sges.end(), [&](const Sge& sge) {
    return sge.length == 0 || nic_->memory().LocalKey(sge, &lkey);
  });
}

// To some cards a piece without bytes is one of 2 GiB.
bool DataQueue::FillSges(const WorkRequest& wr, Cursor* cursor, ibv_send_wr* out) {
  std::uint64_t left = nic_->message_size_max();
  for (; cursor->sge < wr.sges.size() && left != 0; ++cursor->sge, cursor->offset = 0) {
    const Sge& sge = wr.sges[cursor->sge];
    const auto length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(sge.length - cursor->offset, left));
    if (length == 0) continue;
    ibv_sge& piece = out->sg_list[out->num_sge++];
    piece.addr = reinterpret_cast<std::uint64_t>(sge.address) + cursor->offset;
    piece.length = length;
    if (!nic_->memory().LocalKey(sge, &piece.lkey)) return false;
    left -= length;
    cursor->done += length;
    cursor->offset += length;
    if (cursor->offset != sge.length) break;
  }
  if (out->num_sge == 0 && IsAtomic(wr.opcode)) {
    out->num_sge = 1;
    out->sg_list[0] = {reinterpret_cast<std::uint64_t>(&atomic_result_), sizeof(atomic_result_),
                       atomic_mr_->lkey};
  }
  return true;
}

WcStatus DataQueue::IssuePart(const WorkRequest& wr, std::uint64_t sequence, std::uint32_t rkey,
                              bool last_part, Cursor* cursor) {
  if (batch_size_ == kBatch) {
    const soft::CommitResult result = Commit();
    if (result.status != WcStatus::kSuccess) return result.status;
  }
  ibv_send_wr& out = batch_[batch_size_];
  out = {};
  out.sg_list = sges_[batch_size_].data();
  // Before the bytes of its last part are there, a WRITE tells nobody.
  out.opcode = !last_part && wr.opcode != Opcode::kRead ? IBV_WR_RDMA_WRITE : OpcodeOf(wr);
  const std::uint64_t remote_address = wr.remote_address + cursor->done;
  if (wr.inline_data) {
    FillInline(wr, &out);
  } else if (!FillSges(wr, cursor, &out)) {
    return WcStatus::kLocalProtection;
  }
  out.imm_data = htonl(wr.imm);
  if (IsAtomic(wr.opcode)) {
    out.wr.atomic.remote_addr = remote_address;
    out.wr.atomic.rkey = rkey;
    out.wr.atomic.compare_add = wr.compare_or_add;
    out.wr.atomic.swap = wr.swap;
  } else if (IsOneSided(wr.opcode)) {
    out.wr.rdma.remote_addr = remote_address;
    out.wr.rdma.rkey = rkey;
  }
  if (wr.opcode != Opcode::kRead && last_read_ > completed_) out.send_flags |= IBV_SEND_FENCE;
  sequences_[batch_size_++] = sequence;
  ends_request_ = last_part;
  ++issued_;
  return WcStatus::kSuccess;
}

soft::IssueResult DataQueue::Issue(const WorkRequest& wr, std::uint64_t sequence,
                                   std::uint32_t rkey) {
  using soft::IssueState;
  if (broken_) return {IssueState::kFailed, WcStatus::kRetryExceeded};
  const std::uint64_t parts = PartsOf(wr);
  if (parts > send_depth_ || (parts > 1 && wr.opcode == Opcode::kSend))
    return {IssueState::kFailed, WcStatus::kLocalLength};
  // A part in the batch whose request ends nowhere would hide the completion of those before it.
  if (parts > 1 && !Reaches(wr)) return {IssueState::kFailed, WcStatus::kLocalProtection};
  Cursor cursor;
  for (std::uint64_t part = 1; part <= parts; ++part) {
    const WcStatus status = IssuePart(wr, sequence, rkey, part == parts, &cursor);
    if (status != WcStatus::kSuccess) return {IssueState::kFailed, status};
  }
  if (IsRead(wr.opcode)) last_read_ = sequence + 1;
  // A message wakes the peer by itself, and tells of what was written before it.
  const bool tells = wr.opcode == Opcode::kSend || wr.opcode == Opcode::kWriteWithImm;
  wrote_ = !tells && (wrote_ || wr.opcode != Opcode::kRead);
  return {IssueState::kPending, WcStatus::kSuccess};
}

soft::CommitResult DataQueue::Commit() {
  if (batch_size_ == 0) return {};
  const std::size_t last = batch_size_ - 1;
  const WrKind kind = !ends_request_ ? WrKind::kPart : wrote_ ? WrKind::kWrite : WrKind::kRead;
  for (std::size_t i = 0; i <= last; ++i) {
    batch_[i].next = i == last ? nullptr : &batch_[i + 1];
    batch_[i].wr_id = PackWrId({serial_, kind, static_cast<std::uint32_t>(sequences_[i])});
  }
  batch_[last].send_flags |= IBV_SEND_SIGNALED;
  nic_->counters().card_requests += batch_size_;
  ++nic_->counters().card_doorbells;
  batch_size_ = 0;
  if (ends_request_) wrote_ = false;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(card_->get(), &batch_[0], &bad);
  if (error == 0) {
    signals_[signals_end_++ % signals_.size()] = issued_;
    return {};
  }
  // There was room. Those before `bad` are with the card, which is closed next.
  broken_ = true;
  RING_LOG(ERROR) << "verbs device=" << nic_->name()
                  << " takes no requests: " << std::strerror(error);
  const std::size_t failed = bad == nullptr ? 0 : static_cast<std::size_t>(bad - batch_.data());
  return {WcStatus::kRetryExceeded, sequences_[std::min(failed, last)]};
}

std::uint64_t DataQueue::Complete(const WrId& id, bool success) {
  const std::uint64_t sequence = Widen(completed_, id.low);
  if (!success) return sequence;
  done_ = signals_[signals_begin_++ % signals_.size()];
  completed_ = id.kind == WrKind::kPart ? sequence : sequence + 1;
  return sequence;
}

bool DataQueue::PostReceive(const soft::PostedReceive& receive) {
  std::array<ibv_sge, soft::kRecvSgeMax> sges;
  ibv_recv_wr wr{};
  wr.wr_id = PackWrId({serial_, WrKind::kReceive, 0});
  wr.sg_list = sges.data();
  for (std::size_t i = 0; i < receive.sge_count; ++i) {
    const Sge& sge = receive.sges[i];
    if (sge.length == 0) continue;
    ibv_sge& piece = sges[static_cast<std::size_t>(wr.num_sge++)];
    piece.addr = reinterpret_cast<std::uint64_t>(sge.address);
    piece.length = sge.length;
    if (!nic_->memory().LocalKey(sge, &piece.lkey)) return false;
  }
  ++nic_->counters().card_receives;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(card_->get(), &wr, &bad) == 0;
}

void DataQueue::PostReceives(const soft::ReceiveQueue& receives) {
  while (!broken_ && receives_posted_ < receives.count()) {
    if (!PostReceive(receives.At(receives_posted_))) {
      broken_ = true;
      RING_LOG(ERROR) << "verbs device=" << nic_->name() << " takes no receives";
      return;
    }
    ++receives_posted_;
  }
}

}  // namespace ring::rdma::verbs
