#include "ec_offload/delta_calculator.h"

#include "ring/base/check.h"

namespace ring::ec_offload {

DeltaCalculator::DeltaCalculator(absl::Span<const gf256::Element> coefficients, Slot slot)
    : delta_count_(coefficients.size()), slot_(slot) {
  RING_CHECK(coefficients.size() >= 1 && coefficients.size() <= kDeltaCountMax)
      << "coefficients=" << coefficients.size();
  for (std::size_t j = 0; j < delta_count_; ++j) factors_[j] = FactorOf(coefficients[j]);
  DeltaForm form;
  form.count = delta_count_;
  form.slot = slot != Slot::kUntouched;
  plain_ = BestKernelEngine().select_delta(form);
  form.crc = true;
  form.slot_crc = slot == Slot::kWritten;
  summing_ = BestKernelEngine().select_delta(form);
}

bool DeltaCalculator::Run(const std::byte* const* inputs, std::byte* const* outputs,
                          std::size_t length, std::uint32_t* crcs) const {
  DeltaArguments arguments;
  arguments.old_bytes = reinterpret_cast<const std::uint8_t*>(inputs[0]);
  arguments.new_bytes = reinterpret_cast<const std::uint8_t*>(inputs[1]);
  for (std::size_t j = 0; j < delta_count_; ++j) {
    arguments.deltas[j] = reinterpret_cast<std::uint8_t*>(outputs[j]);
  }
  arguments.factors = factors_.data();
  arguments.length = length;
  if (slot_ != Slot::kUntouched)
    arguments.slot = reinterpret_cast<std::uint8_t*>(outputs[delta_count_]);
  if (crcs == nullptr) {
    plain_(arguments);
    return true;
  }
  arguments.delta_crcs = crcs;
  if (slot_ == Slot::kWritten) arguments.slot_crc = crcs + delta_count_;
  summing_(arguments);
  return true;
}

}  // namespace ring::ec_offload
