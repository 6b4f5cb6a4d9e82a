#include "api/client_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/clock.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kConnectTimeoutNs = 1000 * kMillisecondNs;
constexpr std::uint64_t kBackoffMinNs = 2 * kMillisecondNs;
constexpr std::uint64_t kBackoffMaxNs = 250 * kMillisecondNs;

}  // namespace

Connection::Connection(const ConnectionContext* context, std::vector<std::string> addresses)
    : context_(context), addresses_(std::move(addresses)) {
  for (std::size_t i = 0; i < kChainMax; ++i) {
    chain_[i].opcode = rdma::Opcode::kWrite;
    chain_[i].unacknowledged = true;  // the answer tells
    chain_[i].sges = absl::MakeConstSpan(&sges_[i], 1);
    chain_[i].next = i + 1 < kChainMax ? &chain_[i + 1] : nullptr;
    sges_[i].lkey = context_->frame_lkey;
  }
}

Connection::~Connection() {
  qp_.reset();
  replies_.region.reset();
}

absl::string_view Connection::transport() const {
  return ready() ? qp_->transport() : absl::string_view();
}

void Connection::Connect(std::uint64_t now_ns) {
  switch (state_) {
    case State::kReady:
      return;
    case State::kConnecting:
      if (now_ns - attempt_ns_ > kConnectTimeoutNs) {
        Fail(absl::DeadlineExceededError(absl::StrCat(
                 address_, " did not answer after_ms=", kConnectTimeoutNs / kMillisecondNs)),
             now_ns);
      }
      return;
    case State::kBackingOff:
      if (now_ns < retry_ns_) return;
      address_index_ = 0;
      StartAttempt(now_ns);
      return;
    case State::kIdle:
      StartAttempt(now_ns);
      return;
  }
}

void Connection::StartAttempt(std::uint64_t now_ns) {
  if (addresses_.empty()) {
    address_index_ = 0;
    return Fail(absl::UnavailableError("the node has no address of the client's transport"),
                now_ns);
  }
  attempt_ns_ = now_ns;
  address_ = addresses_[address_index_];
  if (!replies_) {
    absl::StatusOr<ClientBuffer> replies =
        context_->pool->Acquire(context_->op_count * protocol::kReplySlotSize);
    if (!replies.ok()) return Fail(std::move(replies).status(), now_ns);
    replies_ = *std::move(replies);
    if (!replies_.zeroed) ClearStaleStamps();
  }
  protocol::ClientHello hello;
  hello.client_high = context_->client_high;
  hello.client_low = context_->client_low;
  hello.reply_slot_count = static_cast<std::uint32_t>(context_->op_count);
  const rdma::RemoteBuffer remote = replies_.region->remote();
  hello.replies = {remote.address, remote.length, remote.rkey, 0};
  rdma::QueuePairOptions options;
  options.send_cq = context_->send_cq;
  options.recv_cq = context_->recv_cq;
  options.send_depth = kSendDepth;
  options.recv_depth = kRecvDepth;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      context_->device->Connect(address_, options, protocol::EncodeHello(hello));
  if (!qp.ok()) return Fail(std::move(qp).status(), now_ns);
  qp_ = *std::move(qp);
  qp_->set_context(this);
  state_ = State::kConnecting;
}

// Goes on to the next address; behind the last one, waits before it begins again.
void Connection::Fail(absl::Status status, std::uint64_t now_ns) {
  last_error_ = std::move(status);
  qp_.reset();
  if (++address_index_ < addresses_.size()) {
    state_ = State::kIdle;
    return StartAttempt(now_ns);
  }
  backoff_ns_ = std::min(std::max(backoff_ns_ * 2, kBackoffMinNs), kBackoffMaxNs);
  retry_ns_ = now_ns + backoff_ns_;
  state_ = State::kBackingOff;
}

void Connection::OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns) {
  switch (event.kind) {
    case rdma::ConnectionEvent::Kind::kEstablished:
      return Establish(event, now_ns);
    case rdma::ConnectionEvent::Kind::kRejected:
      return Fail(absl::UnavailableError(absl::StrCat(address_, " refused the connection",
                                                      event.private_data.empty() ? "" : ": ",
                                                      event.private_data)),
                  now_ns);
    case rdma::ConnectionEvent::Kind::kDisconnected:
      last_error_ = absl::UnavailableError(absl::StrCat(address_, " disconnected"));
      broken_ = true;
      return;
    case rdma::ConnectionEvent::Kind::kConnectRequest:
      return;
  }
}

// What the node has under a key, or takes for a memgest, is nothing to who means another cluster.
absl::Status Connection::CheckCluster(const protocol::ClientAccept& accept) const {
  if (context_->cluster != 0 && accept.cluster != context_->cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat(address_, " is a node of another cluster: give seeds of one cluster"));
  }
  if (accept.founding != 0 && accept.founding < context_->founding) {
    return absl::UnavailableError(absl::StrCat(
        address_, " has its part in a cluster that was founded anew since: restart that node"));
  }
  return absl::OkStatus();
}

void Connection::Establish(const rdma::ConnectionEvent& event, std::uint64_t now_ns) {
  absl::StatusOr<protocol::ClientAccept> accept =
      protocol::DecodeHello<protocol::ClientAccept>(event.private_data);
  if (!accept.ok()) {
    return Fail(absl::Status(accept.status().code(),
                             absl::StrCat(address_, ": ", accept.status().message())),
                now_ns);
  }
  if (absl::Status same = CheckCluster(*accept); !same.ok()) return Fail(std::move(same), now_ns);
  accept_ = *accept;
  for (std::uint32_t i = 0; i < kRecvDepth; ++i) {
    // Only doorbells arrive, and they carry nothing.
    if (absl::Status status = qp_->PostRecv(i, {}); !status.ok()) return Fail(status, now_ns);
  }
  for (rdma::WorkRequest& request : chain_) request.rkey = accept_.requests.rkey;
  ring_ = RequestRing();
  chain_length_ = 0;
  held_up_ns_ = 0;
  posted_ = completed_ = 0;
  waiting_count_ = 0;
  last_answer_ns_ = now_ns;
  state_ = State::kReady;
}

void Connection::OnSendCompletion(const rdma::WorkCompletion& completion) {
  if (completion.status != rdma::WcStatus::kSuccess) {
    last_error_ =
        absl::UnavailableError(absl::StrCat(address_, ": ", rdma::WcStatusName(completion.status)));
    broken_ = true;
    return;
  }
  completed_ = completion.wr_id;
}

void Connection::OnReceive(const rdma::WorkCompletion& completion) {
  if (completion.status != rdma::WcStatus::kSuccess || !qp_->PostRecv(0, {}).ok()) broken_ = true;
}

void Connection::AddWrite(const std::byte* source, std::size_t size, std::uint64_t cell,
                          std::size_t offset) {
  // The device only reads it.
  sges_[chain_length_].address = const_cast<std::byte*>(source);
  sges_[chain_length_].length = static_cast<std::uint32_t>(size);
  chain_[chain_length_].remote_address = accept_.requests.address + cell * protocol::kCell + offset;
  ++chain_length_;
}

bool Connection::Enqueue(Operation* op, std::uint64_t first_incomplete) {
  constexpr std::size_t kWritesMax = 5;
  if (chain_length_ + kWritesMax > kChainMax && !held_up()) PostChain();
  if (chain_length_ + kWritesMax > kChainMax || broken_) return false;
  RequestRing::Place place;
  if (!ring_.Reserve(op->cells, &place)) return false;
  protocol::RequestHeader* header = op->header();
  std::byte* behind = op->frame + op->cells * protocol::kCell;
  std::memset(behind, 0, sizeof(std::uint64_t));
  if (place.pad) {
    protocol::RequestWord pad;
    pad.stamp = place.pad_stamp;
    pad.operation = protocol::Operation::kPad;
    std::memcpy(behind + sizeof(std::uint64_t), &pad, sizeof(pad));
    AddWrite(behind, sizeof(std::uint64_t), 0, 0);
    AddWrite(behind + sizeof(std::uint64_t), sizeof(pad), place.pad_cell, 0);
  }
  header->word.stamp = place.stamp;
  header->reply_slot = op->index;
  if (header->seq != 0) {
    header->incomplete_delta = static_cast<std::uint32_t>(header->seq - first_incomplete);
  }
  // What follows the header, with the zeroed word behind the request; then the header, its first
  // word last. The node polls that word: were the rest of its cache line written earlier, the line
  // would go to the node and come back in between.
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  AddWrite(op->frame + protocol::kCell, (op->cells - 1) * protocol::kCell + kWord, place.cell,
           protocol::kCell);
  AddWrite(op->frame + kWord, protocol::kCell - kWord, place.cell, kWord);
  AddWrite(op->frame, kWord, place.cell, 0);
  op->stamp = place.stamp;
  op->ring_end = place.end;
  op->connection = this;
  op->on_wire = true;
  return true;
}

void Connection::Flush(std::uint64_t now_ns) {
  if (broken_) return;
  if (chain_length_ == 0) {
    if (owes_bell_) RingBell();
    return;
  }
  if (held_up() && now_ns - held_up_ns_ >= protocol::kSilencePeriodNs) {
    last_error_ = absl::UnavailableError(absl::StrCat(address_, ": takes no requests"));
    broken_ = true;
  } else if (!PostChain() && !held_up()) {
    held_up_ns_ = now_ns;
  }
}

// False: no room, or broken; the chain stays for the next flush.
bool Connection::PostChain() {
  if (posted_ + chain_length_ + 1 - completed_ > kSendDepth) return false;  // completions first
  rdma::WorkRequest& last = chain_[chain_length_ - 1];
  const rdma::WorkRequest* const next = std::exchange(last.next, nullptr);
  last.signaled = true;
  last.wr_id = posted_ + chain_length_;
  const absl::Status status = qp_->PostSend(chain_[0]);
  last.next = next;
  last.signaled = false;
  if (!status.ok()) {
    if (absl::IsResourceExhausted(status)) return false;
    last_error_ = status;
    broken_ = true;
    return false;
  }
  posted_ += chain_length_;
  chain_length_ = 0;
  held_up_ns_ = 0;
  RingBell();
  return true;
}

void Connection::RingBell() {
  const std::uint32_t sleep = qp_->PeerSleep();
  owes_bell_ = sleep != 0 && sleep != rung_sleep_;
  if (!owes_bell_ || posted_ + 1 - completed_ > kSendDepth) return;
  rdma::WorkRequest doorbell;
  doorbell.opcode = rdma::Opcode::kSend;
  doorbell.signaled = true;
  doorbell.wr_id = posted_ + 1;
  if (!qp_->PostSend(doorbell).ok()) return;
  ++posted_;
  rung_sleep_ = sleep;
  owes_bell_ = false;
}

void Connection::ClearStaleStamps() {
  for (std::size_t i = 0; i < context_->op_count; ++i) {
    std::memset(replies_.address + i * protocol::kReplySlotSize, 0, sizeof(std::uint64_t));
  }
}

void Connection::Reset(std::uint64_t now_ns, bool graceful) {
  if (qp_ != nullptr) {
    last_qp_number_ = qp_->number();
    qp_->Reset();
  }
  qp_.reset();
  // A node that was stopped in the middle of an answer may still finish it; one that was never
  // asked has nothing to answer.
  if (state_ == State::kReady) {
    context_->pool->Retire(std::exchange(replies_, {}), last_qp_number_);
  } else {
    context_->pool->Release(std::exchange(replies_, {}));
  }
  broken_ = false;
  chain_length_ = 0;
  held_up_ns_ = 0;
  rung_sleep_ = 0;
  owes_bell_ = false;
  waiting_count_ = 0;
  address_index_ = 0;
  if (state_ == State::kReady) backoff_ns_ = 0;
  if (graceful) {
    state_ = State::kIdle;
    return;
  }
  backoff_ns_ = std::min(std::max(backoff_ns_ * 2, kBackoffMinNs), kBackoffMaxNs);
  retry_ns_ = now_ns + backoff_ns_;
  state_ = State::kBackingOff;
}

}  // namespace ring::api
