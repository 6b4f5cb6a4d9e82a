#include "ec_offload/inec/primitives.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

using rdma::WorkCompletion;

namespace {

bool ChoosesCoherent(const InecThresholds& thresholds) {
  for (const std::vector<InecThreshold>& rows : thresholds.rows) {
    if (rows.empty() || rows.back().chunk_size_max != ~std::uint64_t{0}) return true;
    for (const InecThreshold& row : rows) {
      if (row.way == InecWay::kCoherent) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InecPrimitives>> InecPrimitives::Create(Options options) {
  RING_RETURN_IF_ERROR(CheckThresholds(options.thresholds));
  if (options.depth == 0) return absl::InvalidArgumentError("depth=0: give at least 1");
  const bool calculates = options.device->caps().calc;
  const bool coherent = ChoosesCoherent(options.thresholds);
  if (coherent && !calculates) {
    return absl::FailedPreconditionError(
        "thresholds choose coherent operations, and this device has no CALC: give "
        "InecThresholds::Always(InecWay::kIncoherent)");
  }
  std::unique_ptr<InecPrimitives> primitives(new InecPrimitives(std::move(options)));
  Options& own = primitives->options_;
  primitives->device_calculates_ = calculates && !own.calculate_on_host;
  RING_ASSIGN_OR_RETURN(primitives->send_cq_, own.device->CreateCompletionQueue(own.send_cq_depth));
  if (primitives->device_calculates_ || coherent) {
    const auto depth = static_cast<std::uint32_t>(own.depth * (kInecReceiveQueueCountMax + 1));
    RING_ASSIGN_OR_RETURN(primitives->loop_, CalcLoop::Create(own.device, own.address, depth));
  }
  return primitives;
}

InecPrimitives::InecPrimitives(Options options)
    : options_(std::move(options)), operations_(options_.depth) {}

absl::Status InecPrimitives::EcSend(std::uint64_t id, const InecCalc& calc,
                                    const InecMemory& memory, const InecStripe& stripe,
                                    std::uint64_t deadline_ns) {
  RING_RETURN_IF_ERROR(CheckInecStripe(stripe));
  return Submit(id, InecPrimitive::kEcSend, {}, calc, memory, stripe, deadline_ns);
}

absl::Status InecPrimitives::RecvEcSend(std::uint64_t id, const InecWait& wait,
                                        const InecCalc& calc, const InecMemory& memory,
                                        const InecStripe& stripe, std::uint64_t deadline_ns) {
  RING_RETURN_IF_ERROR(CheckInecWait(wait));
  RING_RETURN_IF_ERROR(CheckInecStripe(stripe));
  return Submit(id, InecPrimitive::kRecvEcSend, wait, calc, memory, stripe, deadline_ns);
}

absl::Status InecPrimitives::RecvEc(std::uint64_t id, const InecWait& wait, const InecCalc& calc,
                                    const InecMemory& memory, std::uint64_t deadline_ns) {
  RING_RETURN_IF_ERROR(CheckInecWait(wait));
  return Submit(id, InecPrimitive::kRecvEc, wait, calc, memory, {}, deadline_ns);
}

absl::Status InecPrimitives::Submit(std::uint64_t id, InecPrimitive primitive, const InecWait& wait,
                                    const InecCalc& calc, const InecMemory& memory,
                                    const InecStripe& stripe, std::uint64_t deadline_ns) {
  RING_RETURN_IF_ERROR(CheckInecMemory(calc, memory));
  if (calc.crc_out != nullptr && loop_ != nullptr && !options_.device->caps().calc_crc)
    return absl::InvalidArgumentError("crc_out on a device whose CALC gives no CRCs");
  if (under_way() == operations_.size()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("operations under way=", under_way(), ", depth=", operations_.size()));
  }
  const std::uint64_t sequence = end_++;
  Operation& operation = at(sequence);
  operation.Copy(wait, calc, memory, stripe);
  operation.id = id;
  operation.primitive = primitive;
  operation.way = ChooseWay(options_.thresholds, primitive, memory.inputs[0].length);
  operation.deadline_ns = deadline_ns;
  operation.stage = Stage::kHeld;
  for (std::size_t i = 0; i < operation.channels.size(); ++i) {
    const Operation::Channel& channel = operation.channels[i];
    for (std::size_t j = channel.request_begin; j < channel.request_end; ++j)
      operation.requests[j].wr_id = sequence << kInecChannelBits | i;
  }
  earliest_deadline_ns_ = std::min(earliest_deadline_ns_, deadline_ns);
  ++counters_.submits;
  if (next_held_ == sequence && MayStart(operation)) {
    Start(sequence);
  } else {
    ++counters_.held;
  }
  return absl::OkStatus();
}

bool InecPrimitives::MayStart(const Operation& operation) {
  if (operation.way == InecWay::kCoherent && (!loop_->ready() || calc_broken_)) return false;
  for (const Operation::Receive& receive : operation.receives) {
    if (!ledger_.Settled(receive.cq)) return false;
  }
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    if (at(i).stage != Stage::kTold && at(i).way != operation.way) return false;
  }
  return true;
}

void InecPrimitives::Start(std::uint64_t sequence) {
  next_held_ = sequence + 1;
  Operation& operation = at(sequence);
  Claim(operation);
  if (operation.way == InecWay::kCoherent) {
    StartCoherent(sequence);
  } else {
    StartIncoherent(sequence);
  }
}

void InecPrimitives::Claim(Operation& operation) {
  operation.claimed = true;
  for (Operation::Receive& receive : operation.receives)
    receive.claim = ledger_.Add(receive.cq, receive.count);
}

void InecPrimitives::StartHeld() {
  while (next_held_ < end_) {
    Operation& operation = at(next_held_);
    if (operation.stage == Stage::kTold) {  // at its deadline: what it would have got is nobody's
      Claim(operation);
      for (const Operation::Receive& receive : operation.receives) ledger_.GiveUp(receive.claim);
      ++next_held_;
      continue;
    }
    if (!MayStart(operation)) return;
    ++counters_.continuations;
    Start(next_held_);
  }
}

bool InecPrimitives::ReceivesComplete(const Operation& operation) {
  return std::all_of(operation.receives.begin(), operation.receives.end(),
                     [this](const auto& receive) { return ledger_.Complete(receive.claim); });
}

bool InecPrimitives::Progress(std::uint64_t now_ns) {
  if (loop_ != nullptr) loop_->Progress(now_ns);
  if (begin_ == end_ && (loop_ == nullptr || !loop_->lost())) {
    TakeReceives();  // debts
    return false;
  }
  bool any = PollCalc();
  if (calc_broken_ || (loop_ != nullptr && loop_->lost())) BreakCalc();
  any |= PollSends();
  any |= TakeReceives();
  any |= Advance();
  any |= EndOperations();
  if (now_ns >= earliest_deadline_ns_) any |= ExpireDeadlines(now_ns);
  StartHeld();
  any |= EndOperations();  // what could not be posted
  return any;
}

bool InecPrimitives::Take(InecOutcome* outcome) {
  if (outcomes_.empty()) return false;
  *outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return true;
}

void InecPrimitives::ForgetReceives(rdma::CompletionQueue* cq) {
  for (std::uint64_t i = begin_; i < end_; ++i) {
    for (const Operation::Receive& receive : at(i).receives) {
      RING_CHECK(receive.cq != cq || at(i).stage == Stage::kTold)
          << "operation id=" << at(i).id << " is under way on the queue";
    }
  }
  std::array<WorkCompletion, 16> completions;
  while (cq->Poll(absl::MakeSpan(completions)) != 0) {
  }
  ledger_.Forget(cq);
}

void InecPrimitives::Arm() {
  send_cq_->Arm();
  ledger_.ArmDue();
  if (loop_ == nullptr) return;
  // Coherent operations that are still to send end with that: their calculations wake nobody.
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    const Operation& operation = at(i);
    if (operation.stage != Stage::kCalculating) continue;
    if (operation.way == InecWay::kCoherent && operation.channels_open != 0) continue;
    loop_->cq()->Arm();
    return;
  }
}

bool InecPrimitives::IsUnderWay(std::uint64_t sequence) const {
  return sequence >= begin_ && sequence < next_held_;
}

}  // namespace ring::ec_offload
