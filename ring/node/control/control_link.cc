#include "ring/node/control/control_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kSendTag = std::uint64_t{1} << 32;
constexpr std::uint64_t kWriteTag = std::uint64_t{2} << 32;
}  // namespace

absl::Status ControlLink::Begin(std::unique_ptr<rdma::QueuePair> qp) {
  retired_->Reclaim();
  RING_ASSIGN_OR_RETURN(memory_, pool_->Take(rdma::kLocalOnly));
  // Much goes through it when a node is lost.
  pool_->Populate(memory_);
  qp_ = std::move(qp);
  qp_->set_context(this);
  ++generation_;
  for (std::uint32_t i = 0; i < kReceiveCount; ++i) PostReceive(i);
  return failure_;
}

void ControlLink::Establish() {
  established_ = true;
  backoff_ns = 0;
  last_error.clear();
}

void ControlLink::Drop() {
  if (qp_ != nullptr) {
    const std::uint32_t qp_number = qp_->number();
    qp_.reset();
    // L5: its peer may be in the middle of a SEND, and goes on with it when it is woken.
    retired_->Add(qp_number, std::exchange(memory_, {}));
  }
  established_ = false;
  failure_ = absl::OkStatus();
  outgoing_.clear();
  outgoing_bytes_ = 0;
  writing_.clear();
  posted_ = buffers_in_use_ = next_buffer_ = 0;
  sent_ = peer_consumed_ = consumed_ = told_ = 0;
  probes_ = 0;
  assembler_ = ControlAssembler();
}

void ControlLink::Fail(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
}

void ControlLink::PostReceive(std::uint32_t index) {
  const rdma::Sge sge = {memory_.address + index * kControlBufferSize,
                         static_cast<std::uint32_t>(kControlBufferSize), memory_.lkey};
  const absl::Status status = qp_->PostRecv(index, absl::MakeConstSpan(&sge, 1));
  if (!status.ok()) Fail(status);
}

absl::Status ControlLink::CheckRoom(std::size_t body_size) const {
  if (outgoing_.size() < kOutgoingCountMax && outgoing_bytes_ + body_size <= kOutgoingBytesMax)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "too many control messages wait for node ", peer_.value(),
      ": queued_count=", outgoing_.size(), " queued_bytes=", outgoing_bytes_, " size=", body_size));
}

absl::Status ControlLink::Send(const ControlHeader& header, std::string body) {
  RING_RETURN_IF_ERROR(CheckRoom(body.size()));
  outgoing_bytes_ += body.size();
  Outgoing item;
  item.header = header;
  item.header.total = static_cast<std::uint32_t>(body.size());
  item.body = std::move(body);
  outgoing_.push_back(std::move(item));
  return absl::OkStatus();
}

absl::Status ControlLink::Write(const rdma::Sge& from, std::uint64_t to, std::uint32_t rkey,
                                absl::AnyInvocable<void()> done) {
  RING_RETURN_IF_ERROR(CheckRoom(0));
  Outgoing item;
  item.is_write = true;
  item.from = from;
  item.to = to;
  item.rkey = rkey;
  item.done = std::move(done);
  outgoing_.push_back(std::move(item));
  return absl::OkStatus();
}

bool ControlLink::PostChunk(ControlHeader header, absl::string_view body, bool more) {
  header.consumed = consumed_;
  std::byte* const at = memory_.address + (kReceiveCount + next_buffer_) * kControlBufferSize;
  std::memcpy(at, &header, sizeof(header));
  if (!body.empty()) std::memcpy(at + sizeof(header), body.data(), body.size());
  const rdma::Sge sge = {at, static_cast<std::uint32_t>(sizeof(header) + body.size()),
                         memory_.lkey};
  rdma::WorkRequest request;
  request.wr_id = kSendTag;
  request.opcode = rdma::Opcode::kSend;
  request.signaled = true;
  request.more = more;
  request.sges = absl::MakeConstSpan(&sge, 1);
  const absl::Status status = qp_->PostSend(request);
  if (!status.ok()) {
    if (status.code() != absl::StatusCode::kResourceExhausted) Fail(status);
    return false;
  }
  next_buffer_ = (next_buffer_ + 1) % kWindow;
  ++buffers_in_use_;
  ++posted_;
  told_ = consumed_;
  return true;
}

bool ControlLink::HasWindow(std::uint32_t chunks) const {
  return buffers_in_use_ + chunks <= kWindow && sent_ - peer_consumed_ + chunks <= kWindow;
}

bool ControlLink::PumpOne(Outgoing& item) {
  if (item.is_write) {
    rdma::WorkRequest request;
    request.wr_id = kWriteTag;
    request.opcode = rdma::Opcode::kWrite;
    request.signaled = true;
    request.sges = absl::MakeConstSpan(&item.from, 1);
    request.remote_address = item.to;
    request.rkey = item.rkey;
    const absl::Status status = qp_->PostSend(request);
    if (!status.ok()) {
      if (status.code() != absl::StatusCode::kResourceExhausted) Fail(status);
      return false;
    }
    ++posted_;
    writing_.push_back(std::move(item.done));
    return true;
  }
  do {
    if (!HasWindow(1)) return false;
    const std::size_t size = std::min(item.body.size() - item.sent, kControlChunkSize);
    item.header.offset = static_cast<std::uint32_t>(item.sent);
    // The chunks of a message leave together: what was posted first would go alone otherwise.
    const bool more = item.sent + size < item.body.size() && HasWindow(2);
    if (!PostChunk(item.header, absl::string_view(item.body).substr(item.sent, size), more))
      return false;
    ++sent_;
    item.sent += size;
  } while (item.sent < item.body.size());
  return true;
}

void ControlLink::PumpCredit() {
  if (consumed_ - told_ < kWindow / 2 || buffers_in_use_ == kWindow) return;
  PostChunk(ControlHeader(), "", /*more=*/false);
}

// As a credit: there is room for some that the peer has not consumed.
void ControlLink::Probe() {
  if (!up() || probes_ == kProbesMax || buffers_in_use_ == kWindow) return;
  if (PostChunk(ControlHeader(), "", /*more=*/false)) ++probes_;
}

void ControlLink::Pump() {
  if (!up()) return;
  while (!outgoing_.empty() && posted_ < kSendDepth && failure_.ok()) {
    if (!PumpOne(outgoing_.front())) break;
    outgoing_bytes_ -= outgoing_.front().body.size();
    outgoing_.pop_front();
  }
  if (failure_.ok()) PumpCredit();
}

bool ControlLink::OnCompletion(const rdma::WorkCompletion& completion) {
  if (completion.status != rdma::WcStatus::kSuccess) {
    Fail(absl::UnavailableError(absl::StrCat("control connection to node ", peer_.value(), ": ",
                                             rdma::WcStatusName(completion.status))));
    return false;
  }
  if (completion.opcode == rdma::Opcode::kRecvWithImm) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("control message of node ", peer_.value(), " with immediate data")));
    return false;
  }
  if (completion.opcode != rdma::Opcode::kRecv) {
    --posted_;
    if (completion.wr_id == kSendTag) {
      --buffers_in_use_;
      return false;
    }
    absl::AnyInvocable<void()> done = std::move(writing_.front());
    writing_.pop_front();
    done();
    return false;
  }
  probes_ = 0;
  const auto index = static_cast<std::uint32_t>(completion.wr_id);
  const std::byte* const at = memory_.address + index * kControlBufferSize;
  const absl::StatusOr<ControlChunk> chunk =
      DecodeControlChunk(absl::string_view(reinterpret_cast<const char*>(at), completion.byte_len));
  if (!chunk.ok()) {
    Fail(chunk.status());
    return false;
  }
  if (sent_ - chunk->header.consumed > kWindow) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("control message consumed=", chunk->header.consumed, " sent=", sent_)));
    return false;
  }
  peer_consumed_ = chunk->header.consumed;
  if (chunk->header.type == ControlType::kCredit) {
    PostReceive(index);
    return false;
  }
  ++consumed_;
  const absl::StatusOr<bool> whole = assembler_.Add(*chunk);
  PostReceive(index);
  if (!whole.ok()) Fail(whole.status());
  return whole.ok() && *whole;
}

}  // namespace ring::node
