// Answers: what each outcome means for its operation.
#include <algorithm>
#include <bit>

#include "api/client_core.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"

namespace ring::api {
namespace {

constexpr int kDamagedMax = 3;
constexpr std::uint64_t kBackoffMinNs = 500'000;
constexpr std::uint64_t kBackoffMaxNs = 100'000'000;

bool HasValue(protocol::Operation operation) {
  return operation == protocol::Operation::kGet || operation == protocol::Operation::kGetView;
}

}  // namespace

void ClientCore::Harvest(bool* progress) {
  for (std::size_t i = 0; i < waiting_.size();) {
    Operation* op = &ops_[waiting_[i]];
    const protocol::ReplyHeader* reply = op->connection->FindReply(*op);
    if (reply == nullptr) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    *progress = true;
    const protocol::ReplyHeader header = *reply;
    Connection* connection = op->connection;
    connection->OnAnswer(*op, now_ns_);
    op->on_wire = false;
    if (!queue_.empty()) pump_needed_ = true;
    if (op->state == OpState::kAbandoned) {
      Recycle(op);
    } else if (op->state == OpState::kWaiting) {
      // The view of another cluster takes those out of waiting_ that its former nodes were asked.
      OnAnswer(op, header, connection);
    }
    if (header.view_epoch > view_.epoch) WantView();  // unless this answer brought it
  }
}

void ClientCore::OnAnswer(Operation* op, const protocol::ReplyHeader& reply,
                          Connection* connection) {
  op->result.memgest = MemgestId(reply.word.memgest);
  op->result.version = Version(reply.version);
  op->result.value_size = reply.value_length;
  op->result.owner = NodeId(reply.owner);
  op->result.view_epoch = reply.view_epoch;
  op->result.value = nullptr;
  if (!protocol::IsOutcome(static_cast<std::uint8_t>(reply.word.outcome))) {
    return Finish(op, op->mutates() ? OpOutcome::kUnknown : OpOutcome::kUnavailable);
  }
  const auto outcome = static_cast<OpOutcome>(reply.word.outcome);
  if (op->sink == Sink::kOwner) return Finish(op, outcome);
  if (op->sink != Sink::kView) {
    Version& known = known_versions_[op->window];
    known = std::max(known, Version(reply.version));
  }
  switch (reply.word.outcome) {
    case protocol::Outcome::kOk:
      if (HasValue(op->header()->word.operation)) return TakeValue(op, reply, connection);
      return Finish(op, OpOutcome::kOk);
    case protocol::Outcome::kReplyTooLarge:
      return OnReplyTooLarge(op, reply);
    case protocol::Outcome::kBadChecksum:
      return OnDamaged(op, OpOutcome::kBadChecksum);
    case protocol::Outcome::kWrongOwner:
      return OnWrongOwner(op, reply);
    case protocol::Outcome::kUnavailable:
      return Refuse(op, outcome);
    case protocol::Outcome::kUnknown:
      return Finish(op, op->mutates() ? OpOutcome::kUnknown : OpOutcome::kUnavailable);
    default:
      return Settle(op, outcome);
  }
}

// X3: a node whose view is newer names the owner. One that knows no newer view than this client
// has yet to hear of its role, or has lost it: who serves the shard is asked of all.
void ClientCore::OnWrongOwner(Operation* op, const protocol::ReplyHeader& reply) {
  WantView();
  if (reply.view_epoch > view_.epoch &&
      TakeOwner(op->window, NodeId(reply.owner), reply.view_epoch)) {
    op->last_refusal = OpOutcome::kWrongOwner;
    return Requeue(op, now_ns_);
  }
  SeekOwner(*op);
  op->view_refreshes_needed = view_refreshes_ + 1;
  Refuse(op, OpOutcome::kWrongOwner);
}

// X5: a refusal is certain for this attempt. If an earlier one was lost with its connection, only
// what the owner decided from the key's state counts for both.
void ClientCore::Settle(Operation* op, OpOutcome outcome) {
  const bool decided = outcome == OpOutcome::kNotFound || outcome == OpOutcome::kVersionMismatch ||
                       outcome == OpOutcome::kDataLost;
  const bool unsure = op->mutates() && op->unanswered && !decided && !Mutant("X5-refused");
  Finish(op, unsure ? OpOutcome::kUnknown : outcome);
}

void ClientCore::TakeValue(Operation* op, const protocol::ReplyHeader& reply,
                           Connection* connection) {
  const bool in_buffer = (reply.word.flags & protocol::kValueInBuffer) != 0;
  owes_acknowledgement_ |= in_buffer;
  const std::size_t room = in_buffer ? op->large.size : protocol::kInlineValueSizeMax;
  if (reply.value_length > room) return OnDamaged(op, OpOutcome::kDataLost);
  const std::byte* value = in_buffer ? op->large.address : connection->ReplyValue(*op);
  std::uint32_t crc = 0;
  if (op->destination != nullptr) {
    if (reply.value_length > op->destination_size) return Finish(op, OpOutcome::kReplyTooLarge);
    crc = Crc32cCopy(op->destination, value, reply.value_length);
  } else {
    crc = Crc32c(value, reply.value_length);
    op->result.value = value;
  }
  if (crc != reply.value_crc && !Mutant("S12-get")) return OnDamaged(op, OpOutcome::kDataLost);
  Finish(op, OpOutcome::kOk);
}

// A check sum was wrong on one side: what the node has may well be whole, so it is tried again.
void ClientCore::OnDamaged(Operation* op, OpOutcome outcome) {
  op->result.value = nullptr;
  if (++op->damaged_count >= kDamagedMax) return Settle(op, outcome);
  Requeue(op, now_ns_);
}

void ClientCore::OnReplyTooLarge(Operation* op, const protocol::ReplyHeader& reply) {
  const std::size_t size = reply.value_length;
  if (op->sink == Sink::kView) {
    view_size_ = std::clamp(std::bit_ceil(size), kViewSizeMin, kViewSizeMax);
    return Finish(op, OpOutcome::kReplyTooLarge);  // and is asked again
  }
  // Only a get has a value to be answered with; a node that says so of others is wrong.
  const bool is_get = op->header()->word.operation == protocol::Operation::kGet;
  const bool caller_has_no_room = op->destination != nullptr && size > op->destination_size;
  if (!is_get || caller_has_no_room || size > value_size_max_ || size <= op->large.size) {
    return Finish(op, OpOutcome::kReplyTooLarge);
  }
  if (op->large) pool_->Release(std::exchange(op->large, {}));
  if (!AttachLarge(op, size).ok()) return Finish(op, OpOutcome::kResourceExhausted);
  Requeue(op, now_ns_);
}

// The node certainly did not execute the request: it is sent again a little later.
void ClientCore::Refuse(Operation* op, OpOutcome outcome) {
  // Anybody can be asked for the view, and somebody else is.
  if (op->sink == Sink::kView) return Finish(op, outcome);
  op->last_refusal = outcome;
  Requeue(op, now_ns_ + op->backoff_ns);
  op->backoff_ns = std::min(std::max(op->backoff_ns * 2, kBackoffMinNs), kBackoffMaxNs);
}

void ClientCore::Requeue(Operation* op, std::uint64_t not_before_ns) {
  op->state = OpState::kQueued;
  op->not_before_ns = not_before_ns;
  queue_.push_back(op->index);
  pump_needed_ = true;
}

void ClientCore::Finish(Operation* op, OpOutcome outcome) {
  RING_CHECK(op->state == OpState::kWaiting || op->state == OpState::kQueued)
      << "state=" << static_cast<int>(op->state);
  op->state = OpState::kDone;
  op->result.outcome = outcome;
  if (!op->internal()) --unfinished_;
  if (op->mutates()) {
    // Whatever became of it, it is never sent again: nodes may drop what still comes (X3).
    windows_[op->window].Complete(op->seq);
    --unfinished_writes_;
    last_write_ns_ = now_ns_;
  }
  switch (op->sink) {
    case Sink::kCaller:
      return;
    case Sink::kPipeline:
      finished_[(finished_head_ + finished_count_++) % finished_.size()] = op->index;
      return;
    case Sink::kCallback:
      called_.push_back(op->index);
      return;
    case Sink::kView:
      return OnViewAnswer(op, outcome);
    case Sink::kOwner:
      return OnOwnerAnswer(op, outcome);
  }
}

}  // namespace ring::api
