// ec_offload/delta_calculator.h — the calculator of a put under an erasure code: m parity deltas in
// one pass.
//
// What:      delta_j = g_j * (old xor new) for the parities j, and, where asked, slot = new
//            afterwards, in place; the CRC-32C of each output in the same pass. One calculator
//            serves one column of a generator matrix.
// Shape:     inputs {old bytes of the slot, new bytes}; outputs {delta_0 .. delta_{m-1}} or {..,
//            slot}. The slot output is the buffer of the old bytes itself (rule S11: it changes
//            only behind the read of it).
// Units:     bytes; any length, any alignment.
// Ownership: borrows everything for the call. Immutable: any number of calls may share one.
// Threads:   immutable after construction.
// Errors:    none after construction: Run gives true.
// Cost:      1 KiB, hot, m = 2, with CRCs of both deltas and the slot written: 40 ns on Zen 4
//            (GFNI), 55 ns with the CRC of the slot, too; 62 and 78 ns with AVX2.
// Source:    Ring section 5.3 (parity update); docs/PROTOCOL.md rules S3, S8, S9, S11.
#ifndef RING_EC_OFFLOAD_DELTA_CALCULATOR_H_
#define RING_EC_OFFLOAD_DELTA_CALCULATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "ec_offload/kernels.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

class DeltaCalculator final : public rdma::Calculator {
 public:
  enum class Slot : std::uint8_t {
    kUntouched,        // m outputs
    kWritten,          // m + 1 outputs; the CRC of the slot is that of the new bytes
    kWrittenUnsummed,  // m + 1 outputs; Run leaves crcs[m] as it is: the value's CRC is known
  };

  // REQUIRES: 1 <= coefficients.size() <= kDeltaCountMax.
  DeltaCalculator(absl::Span<const gf256::Element> coefficients, Slot slot);

  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override {
    return delta_count_ + (slot_ == Slot::kUntouched ? 0 : 1);
  }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override;

  std::size_t delta_count() const { return delta_count_; }
  gf256::Element coefficient(std::size_t parity) const { return factors_[parity].value; }

 private:
  std::size_t delta_count_;
  Slot slot_;
  DeltaKernel plain_;
  DeltaKernel summing_;
  std::array<gf256::Factor, kDeltaCountMax> factors_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_DELTA_CALCULATOR_H_
