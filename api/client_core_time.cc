// Time: deadlines, silent nodes, lost connections, waiting.
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <limits>

#include "api/client_core.h"
#include "ring/base/boot_clock.h"
#include "ring/base/clock.h"
#include "ring/base/mutant.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kSilenceNs = 200 * kMillisecondNs;       // then all are asked who owns (X3)
constexpr std::uint64_t kSilenceMaxNs = 2'000 * kMillisecondNs;  // then the connection is made anew
// ... or then, when what was given up there leaves no place for operations at other nodes.
constexpr std::uint64_t kCrowdedNs = 20 * kMillisecondNs;
constexpr std::uint64_t kSleepMaxNs = 100 * kMillisecondNs;
constexpr std::uint64_t kSpinMinNs = 1'000;

}  // namespace

std::uint64_t ClientCore::ClockNs() {
  return clock_ != nullptr ? clock_->NowNs() : BootClock().NowNs();
}

std::uint64_t ClientCore::DeadlineNs(absl::Duration deadline) {
  const std::uint64_t timeout = deadline > absl::ZeroDuration()
                                    ? static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(deadline))
                                    : timeout_default_ns_;
  now_ns_ = ClockNs();
  return timeout > std::numeric_limits<std::uint64_t>::max() - now_ns_
             ? std::numeric_limits<std::uint64_t>::max()
             : now_ns_ + timeout;
}

void ClientCore::OnTick() {
  last_tick_ns_ = now_ns_;
  if (!queue_.empty()) pump_needed_ = true;
  for (std::size_t i = 0; i < waiting_.size(); ++i) CheckDeadline(&ops_[waiting_[i]]);
  for (std::size_t i = 0; i < queue_.size(); ++i) CheckDeadline(&ops_[queue_[i]]);
  ForEachConnection([this](Connection* connection) { CheckConnection(connection); });
  StepOwnerSearch();
  if (seed_connection_ != nullptr && !view_wanted_ && !seed_wanted_ && view_op_ == nullptr) {
    ResetConnection(seed_connection_.get(), /*graceful=*/true);
    seed_connection_.reset();
    view_wanted_ = false;  // that reset was no loss
  }
}

void ClientCore::CheckDeadline(Operation* op) {
  if (op->state != OpState::kQueued && op->state != OpState::kWaiting) return;
  // Deadlines start with the first tick, not with a clock read per request.
  if (op->deadline_ns == 0) {
    op->deadline_ns =
        now_ns_ + std::min(op->timeout_ns, std::numeric_limits<std::uint64_t>::max() - now_ns_);
  }
  const bool too_old =
      op->state == OpState::kQueued && op->mutates() && op->first_attempt_ns != 0 &&
      now_ns_ - op->first_attempt_ns >= protocol::kSilencePeriodNs && !Mutant("X4-resend");
  if (now_ns_ >= op->deadline_ns || too_old) Expire(op);
}

void ClientCore::Expire(Operation* op) {
  const bool sent = op->on_wire || op->unanswered;
  if (op->mutates() && sent && !Mutant("X5")) return Finish(op, OpOutcome::kUnknown);
  // To be told that the node did not own the key helps nobody: the owner could not be found.
  const bool lost_owner =
      op->last_refusal == OpOutcome::kWrongOwner || VacantPlace(*op).has_value();
  Finish(op, lost_owner ? OpOutcome::kUnavailable : op->last_refusal);
}

void ClientCore::CheckConnection(Connection* connection) {
  if (connection->state() == Connection::State::kConnecting) connection->Connect(now_ns_);
  const std::uint64_t silent_ns = connection->SilentNs(now_ns_);
  const bool crowded = free_.size() <= kept_back_;
  if (silent_ns < (crowded ? kCrowdedNs : kSilenceNs)) return;
  const auto waits = [this, connection](std::uint16_t index) {
    return ops_[index].connection == connection && ops_[index].state == OpState::kWaiting;
  };
  // Callers whose deadlines are short wait for nothing there any more.
  const bool in_vain =
      silent_ns >= kSilenceMaxNs || std::none_of(waiting_.begin(), waiting_.end(), waits);
  if (connection->ready() && in_vain) return ResetConnection(connection, /*graceful=*/false);
  if (silent_ns < kSilenceNs) return;
  WantViewAtPace();
  for (const std::uint16_t index : waiting_)
    if (waits(index)) SeekOwner(ops_[index]);
  if (connection->ready()) return;
  for (const std::uint16_t index : queue_) {
    const Operation& op = ops_[index];
    if (op.state == OpState::kQueued && Route(op.slot) == connection) SeekOwner(op);
  }
}

// X7: who coordinates the shard by then may be another one, which has no record of what this
// attempt did.
void ClientCore::MarkRetried(Operation* op) {
  protocol::RequestHeader* const header = op->header();
  header->word.flags |= protocol::kRetried;
  if ((header->word.flags & protocol::kIfVersion) == 0)
    header->if_version = op->known_version.bits();
}

// What is sent again is judged by the time (X4), which may have stood still with the program.
void ClientCore::ResetConnection(Connection* connection, bool graceful) {
  now_ns_ = ClockNs();
  connection->Reset(now_ns_, graceful);
  if (Mutant("X3")) ++context_.client_low;  // what is sent again is somebody else's request
  WantView();
  pump_needed_ = true;
  // Values that were answered there and that nobody has done with yet.
  for (Operation& op : ops_) {
    if (op.state == OpState::kDone && op.result.value != nullptr && !op.result.held)
      op.result.held = pool_->Hold(op.result.value);
  }
  for (std::size_t i = 0; i < waiting_.size();) {
    Operation* op = &ops_[waiting_[i]];
    if (op->connection != connection) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    op->on_wire = false;
    op->connection = nullptr;
    // A get's buffer may still be written by the node that was left; a put's is only read.
    if (op->large && !op->mutates()) {
      const std::size_t size = op->large.size;
      pool_->Retire(std::exchange(op->large, {}), connection->last_qp_number());
      if (op->state == OpState::kWaiting && !AttachLarge(op, size).ok()) {
        Finish(op, OpOutcome::kResourceExhausted);
        continue;
      }
    }
    if (op->state == OpState::kAbandoned) {
      Recycle(op);
    } else if (op->state == OpState::kWaiting) {
      op->unanswered = true;
      if (op->mutates()) MarkRetried(op);
      if (op->internal()) {
        Finish(op, OpOutcome::kUnavailable);
      } else {
        SeekOwner(*op);
        Requeue(op, now_ns_);
      }
    }
  }
}

std::uint64_t ClientCore::NextTimerNs() const {
  std::uint64_t next = now_ns_ + kSleepMaxNs;
  for (const std::uint16_t index : waiting_) {
    const Operation& op = ops_[index];
    if (op.state != OpState::kWaiting) continue;
    next = std::min(next, op.deadline_ns != 0 ? op.deadline_ns : now_ns_ + kMillisecondNs);
  }
  // What a queued operation waits for has a moment of its own: look again soon.
  if (!queue_.empty()) next = std::min(next, now_ns_ + kMillisecondNs);
  if (view_wanted_ || view_op_ != nullptr || owners_.active())
    next = std::min(next, now_ns_ + kMillisecondNs);
  ForEachConnection([&](Connection* connection) {
    if (connection->state() == Connection::State::kConnecting)
      next = std::min(next, now_ns_ + 10 * kMillisecondNs);
  });
  return next;
}

void ClientCore::WaitStep(std::uint64_t until_ns) {
  if (Step()) return;
  const std::uint64_t start_ns = now_ns_ = ClockNs();
  while (spin_max_ns_ != 0 && now_ns_ - start_ns < spin_ns_ && now_ns_ < until_ns) {
    for (int i = 0; i < 8; ++i) {
      if (!Step()) continue;
      spin_ns_ = std::min(spin_ns_ * 2, spin_max_ns_);
      return;
    }
    now_ns_ = ClockNs();
  }
  // Polling in vain takes the core from whoever should answer.
  spin_ns_ = std::max(spin_ns_ / 2, std::min(kSpinMinNs, spin_max_ns_));
  Sleep(until_ns);
}

std::uint64_t ClientCore::PrepareSleep(std::uint64_t until_ns) {
  device_->SetSleeping(true);
  send_cq_->Arm();
  recv_cq_->Arm();
  // What came before the nodes could know of the sleep.
  if (Step()) return 0;
  const std::uint64_t wake_ns = std::min(until_ns, NextTimerNs());
  return wake_ns > now_ns_ ? wake_ns : 0;
}

void ClientCore::WakeUp() {
  device_->SetSleeping(false);
  now_ns_ = ClockNs();
  Step();
}

void ClientCore::Sleep(std::uint64_t until_ns) {
  if (const std::uint64_t wake_ns = PrepareSleep(until_ns); wake_ns != 0) {
    const std::uint64_t sleep_ns = wake_ns - now_ns_;
    const timespec timeout{static_cast<time_t>(sleep_ns / 1'000'000'000),
                           static_cast<long>(sleep_ns % 1'000'000'000)};
    pollfd descriptor{device_->event_fd(), POLLIN, 0};
    ppoll(&descriptor, 1, &timeout, nullptr);
  }
  WakeUp();
}

}  // namespace ring::api
