// What became of operations: completions, errors, deadlines, outcomes.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/inec/primitives.h"

namespace ring::ec_offload {

using rdma::Opcode;
using rdma::WcStatus;
using rdma::WorkCompletion;

namespace {

static_assert(kInecChannelCountMax <= 64);  // InecOutcome::unfinished

std::string StepName(InecStep step, std::size_t channel) {
  switch (step) {
    case InecStep::kNone:
      break;
    case InecStep::kTurn:
      return "waiting for its turn";
    case InecStep::kReceive:
      return "receive";
    case InecStep::kCalculation:
      return "calculation";
    case InecStep::kSend:
      return absl::StrCat("send to target ", channel);
  }
  return "";
}

absl::Status StatusOf(const WorkCompletion& completion) {
  const std::string text =
      absl::StrCat("completion status=", rdma::WcStatusName(completion.status));
  return completion.status == WcStatus::kCalcFailed ? absl::FailedPreconditionError(text)
                                                    : absl::UnavailableError(text);
}

}  // namespace

bool InecPrimitives::PollCalc() {
  if (loop_ == nullptr) return false;
  bool any = false;
  std::size_t count = 0;
  do {
    count = loop_->cq()->Poll(absl::MakeSpan(completions_));
    if (count == 0) break;
    ++counters_.polls;
    counters_.completions += count;
    any = true;
    for (std::size_t i = 0; i < count; ++i) OnCalc(completions_[i]);
  } while (count == completions_.size());
  return any;
}

void InecPrimitives::OnCalc(const WorkCompletion& completion) {
  Operation& operation = at(completion.wr_id);
  const bool calculating = IsUnderWay(completion.wr_id) && operation.stage == Stage::kCalculating;
  if (completion.status == WcStatus::kSuccess) {
    ++calcs_polled_;
    if (!calculating) return;
    const bool sends = operation.way == InecWay::kIncoherent &&
                       std::any_of(operation.channels.begin(), operation.channels.end(),
                                   [](const auto& channel) { return channel.after_calculation; });
    operation.stage = sends ? Stage::kCalculated : Stage::kSending;
    return;
  }
  // The first one is the cause; the rest was flushed.
  if (std::exchange(calc_broken_, true) || !calculating) return;
  operation.calc_failed = true;
  if (completion.opcode == Opcode::kWait) {
    for (const Operation::Receive& receive : operation.receives) ledger_.Release(receive.claim);
    TakeReceives();  // tells which
    Fail(operation, InecStep::kReceive,
         absl::UnavailableError("a receive of an operation of this queue failed"));
  } else {
    Fail(operation, InecStep::kCalculation, StatusOf(completion));
  }
}

// Ends what is on the calc queue, and has another one made. Coherent operations on it fail; those
// that this thread leads post their calculation again.
void InecPrimitives::BreakCalc() {
  calc_broken_ = true;
  loop_->Reset();
  PollCalc();
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    Operation& operation = at(i);
    if (operation.stage != Stage::kCalculating) continue;
    if (operation.way == InecWay::kIncoherent && !operation.calc_failed) {
      operation.stage = Stage::kReceiving;
      continue;
    }
    Fail(operation, InecStep::kCalculation,
         absl::AbortedError("flushed: an operation before it, or its deadline, broke the queue"));
    operation.stage = Stage::kSending;
  }
  loop_->Break();
  calcs_posted_ = calcs_polled_ = 0;
  calc_broken_ = false;
  ++counters_.calc_breaks;
  ledger_.GiveUpAll();
}

bool InecPrimitives::PollSends() {
  bool any = false;
  std::size_t count = 0;
  do {
    count = send_cq_->Poll(absl::MakeSpan(completions_));
    if (count == 0) break;
    ++counters_.polls;
    counters_.completions += count;
    any = true;
    for (std::size_t i = 0; i < count; ++i) OnSend(completions_[i]);
  } while (count == completions_.size());
  return any;
}

void InecPrimitives::OnSend(const WorkCompletion& completion) {
  const std::uint64_t sequence = completion.wr_id >> kInecChannelBits;
  if (!IsUnderWay(sequence)) return;
  Operation& operation = at(sequence);
  const std::size_t index = completion.wr_id & ((1U << kInecChannelBits) - 1);
  if (index >= operation.channels.size() || !operation.channels[index].open) return;
  operation.channels[index].open = false;
  --operation.channels_open;
  if (completion.status == WcStatus::kSuccess) return;
  // A WAIT fails because of what it waits for, and that is told as the first error.
  if (completion.opcode == Opcode::kWait && operation.stage == Stage::kCalculating) {
    operation.wait_failed = completion;
    operation.wait_failed_channel = index;
    return;
  }
  Fail(operation, InecStep::kSend, StatusOf(completion), index);
}

bool InecPrimitives::TakeReceives() {
  const std::size_t count =
      ledger_.Take([this](rdma::CompletionQueue* cq, std::uint64_t number,
                          const WorkCompletion& completion) { OnReceive(cq, number, completion); });
  counters_.polls += count > 0 ? 1 : 0;
  counters_.completions += count;
  return count > 0;
}

void InecPrimitives::OnReceive(const rdma::CompletionQueue* cq, std::uint64_t number,
                               const WorkCompletion& completion) {
  if (completion.status == WcStatus::kSuccess) return;
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    Operation& operation = at(i);
    for (const Operation::Receive& receive : operation.receives) {
      const bool its = receive.cq == cq && number >= receive.claim.from &&
                       number < receive.claim.to && operation.stage != Stage::kTold;
      if (!its) continue;
      Fail(operation, InecStep::kReceive, StatusOf(completion));
      if (operation.stage == Stage::kReceiving) operation.stage = Stage::kSending;
      return;
    }
  }
}

bool InecPrimitives::EndOperations() {
  bool any = false;
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    Operation& operation = at(i);
    if (operation.stage != Stage::kSending || operation.channels_open != 0) continue;
    if (operation.wait_failed.status != WcStatus::kSuccess) {
      Fail(operation, InecStep::kSend, StatusOf(operation.wait_failed),
           operation.wait_failed_channel);
    }
    if (operation.error.ok() && !ReceivesComplete(operation)) {
      for (const Operation::Receive& receive : operation.receives) ledger_.Release(receive.claim);
      any |= TakeReceives();
      if (!ReceivesComplete(operation)) continue;
    }
    Tell(operation);
    any = true;
  }
  while (begin_ < next_held_ && at(begin_).stage == Stage::kTold) at(begin_++).stage = Stage::kFree;
  return any;
}

bool InecPrimitives::ExpireDeadlines(std::uint64_t now_ns) {
  bool any = false;
  for (std::uint64_t i = begin_; i < end_; ++i) {
    if (at(i).stage == Stage::kTold || at(i).deadline_ns > now_ns) continue;
    Expire(i);
    any = true;
  }
  earliest_deadline_ns_ = kNoDeadline;
  for (std::uint64_t i = begin_; i < end_; ++i) {
    if (at(i).stage != Stage::kTold)
      earliest_deadline_ns_ = std::min(earliest_deadline_ns_, at(i).deadline_ns);
  }
  return any;
}

void InecPrimitives::Expire(std::uint64_t sequence) {
  Operation& operation = at(sequence);
  InecStep step = InecStep::kSend;
  std::size_t open = 0;
  switch (operation.stage) {
    case Stage::kHeld:
      step = InecStep::kTurn;
      break;
    case Stage::kReceiving:
    case Stage::kCalculating:
      for (const Operation::Receive& receive : operation.receives) ledger_.Release(receive.claim);
      TakeReceives();
      step = ReceivesComplete(operation) ? InecStep::kCalculation : InecStep::kReceive;
      break;
    default:
      while (open < operation.channels.size() && !operation.channels[open].open) ++open;
      if (open == operation.channels.size()) step = InecStep::kReceive;
  }
  Fail(operation, step, absl::DeadlineExceededError("deadline exceeded"), open);
  if (operation.stage == Stage::kCalculating) {
    operation.calc_failed = true;
    BreakCalc();
    PollSends();
  }
  Tell(operation);
}

void InecPrimitives::Tell(Operation& operation) {
  if (operation.claimed) {
    for (const Operation::Receive& receive : operation.receives) {
      if (operation.error.ok()) {
        ledger_.Release(receive.claim);
      } else {
        ledger_.GiveUp(receive.claim);
      }
    }
  }
  InecOutcome outcome;
  outcome.id = operation.id;
  outcome.primitive = operation.primitive;
  outcome.way = operation.way;
  outcome.step = operation.failed_step;
  outcome.channel = operation.failed_channel;
  for (std::size_t i = 0; i < operation.channels.size(); ++i)
    outcome.unfinished |= operation.channels[i].open ? std::uint64_t{1} << i : 0;
  outcome.status = std::move(operation.error);
  ++counters_.outcomes;
  counters_.errors += outcome.status.ok() ? 0 : 1;
  outcomes_.push_back(std::move(outcome));
  operation.stage = Stage::kTold;
}

void InecPrimitives::Fail(Operation& operation, InecStep step, absl::Status status,
                          std::size_t channel) {
  if (!operation.error.ok()) return;
  operation.failed_step = step;
  operation.failed_channel = channel;
  operation.error = absl::Status(
      status.code(), absl::StrCat(InecPrimitiveName(operation.primitive), " id=", operation.id,
                                  ": ", StepName(step, channel), ": ", status.message()));
}

}  // namespace ring::ec_offload
