// The incoherent way: this thread takes an operation from step to step. It never blocks.
#include "absl/strings/str_cat.h"
#include "ec_offload/inec/primitives.h"

namespace ring::ec_offload {

void InecPrimitives::StartIncoherent(std::uint64_t sequence) {
  Operation& operation = at(sequence);
  PostChannels(sequence, /*after_calculation=*/false, /*behind_calc=*/false);
  operation.stage = Stage::kReceiving;
  for (const Operation::Receive& receive : operation.receives) ledger_.Release(receive.claim);
  if (!operation.receives.empty()) return;
  if (operation.calculator == nullptr) {
    SendOutputs(sequence);
  } else if (MayCalculate()) {
    Calculate(sequence);
  }
}

bool InecPrimitives::MayCalculate() const {
  return !device_calculates_ || (loop_->ready() && !calc_broken_);
}

// Operations calculate in order: one that waits for its receives holds up those behind it.
bool InecPrimitives::Advance() {
  bool any = false;
  bool held_up = false;
  bool calculating = false;  // and sends afterwards: who does not calculate may not overtake it
  for (std::uint64_t i = begin_; i < next_held_; ++i) {
    Operation& operation = at(i);
    if (operation.way != InecWay::kIncoherent) continue;
    calculating |= operation.stage == Stage::kCalculating;
    if (operation.stage == Stage::kReceiving) {
      held_up = held_up || !MayCalculate() || !ReceivesComplete(operation) ||
                (operation.calculator == nullptr && calculating);
      if (held_up) continue;
      ++counters_.continuations;
      Calculate(i);
      calculating |= operation.stage == Stage::kCalculating;
      any = true;
    } else if (operation.stage == Stage::kCalculated) {
      ++counters_.continuations;
      SendOutputs(i);
      any = true;
    }
  }
  return any;
}

void InecPrimitives::Calculate(std::uint64_t sequence) {
  Operation& operation = at(sequence);
  if (operation.calculator == nullptr) {
    SendOutputs(sequence);
    return;
  }
  if (!device_calculates_) {
    if (CalculateHere(operation)) {
      SendOutputs(sequence);
    } else {
      operation.stage = Stage::kSending;
    }
    return;
  }
  operation.stage =
      PostCalc(sequence, /*behind_receives=*/false) ? Stage::kCalculating : Stage::kSending;
}

bool InecPrimitives::CalculateHere(Operation& operation) {
  input_pointers_.clear();
  output_pointers_.clear();
  for (const rdma::Sge& sge : operation.inputs) input_pointers_.push_back(sge.address);
  for (const rdma::Sge& sge : operation.outputs) output_pointers_.push_back(sge.address);
  crcs_.resize(operation.outputs.size());
  if (!operation.calculator->Run(input_pointers_.data(), output_pointers_.data(),
                                 operation.inputs[0].length,
                                 operation.sums ? crcs_.data() : nullptr)) {
    Fail(operation, InecStep::kCalculation,
         absl::FailedPreconditionError("the calculator refused"));
    return false;
  }
  for (std::size_t i = 0; operation.sums && i < crcs_.size(); ++i) {
    if (operation.crc_out[i] != nullptr) *operation.crc_out[i] = crcs_[i];
  }
  return true;
}

void InecPrimitives::SendOutputs(std::uint64_t sequence) {
  PostChannels(sequence, /*after_calculation=*/true, /*behind_calc=*/false);
  at(sequence).stage = Stage::kSending;
}

}  // namespace ring::ec_offload
