// ec_offload/kernel_engines.h — the engines behind kernels.h; private to this folder.
//
// What:      One constant per instruction set, each in its own file; the enumeration of delta
//            forms.
// Threads:   pure.
// Errors:    none; calling an engine that the processor lacks is an illegal instruction.
#ifndef RING_EC_OFFLOAD_KERNEL_ENGINES_H_
#define RING_EC_OFFLOAD_KERNEL_ENGINES_H_

#include <array>
#include <cstddef>

#include "ec_offload/kernels.h"
#include "ring/base/check.h"

namespace ring::ec_offload {

extern const KernelEngine kScalarEngine;
extern const KernelEngine kAvx2Engine;
extern const KernelEngine kWideEngine;
bool WideEngineSupported();

// The forms a delta kernel is compiled in, per count: what else it does besides the deltas.
enum class DeltaMode { kPlain, kSlot, kCrc, kSlotCrcOfDeltas, kSlotCrcOfAll };
inline constexpr std::size_t kDeltaModeCount = 5;
constexpr bool WritesSlot(DeltaMode mode) {
  return mode != DeltaMode::kPlain && mode != DeltaMode::kCrc;
}
constexpr bool Sums(DeltaMode mode) {
  return mode != DeltaMode::kPlain && mode != DeltaMode::kSlot;
}
constexpr bool SumsSlot(DeltaMode mode) { return mode == DeltaMode::kSlotCrcOfAll; }

constexpr DeltaMode ModeOf(const DeltaForm& form) {
  if (!form.crc) return form.slot ? DeltaMode::kSlot : DeltaMode::kPlain;
  if (!form.slot) return DeltaMode::kCrc;
  return form.slot_crc ? DeltaMode::kSlotCrcOfAll : DeltaMode::kSlotCrcOfDeltas;
}

// Selects Kernel<count, mode>::Run from all instances.
template <template <std::size_t, DeltaMode> class Kernel>
DeltaKernel SelectDelta(const DeltaForm& form) {
  RING_CHECK(form.count >= 1 && form.count <= kDeltaCountMax) << "count=" << form.count;
  static constexpr auto kOfCount = []<std::size_t count>() {
    return std::array<DeltaKernel, kDeltaModeCount>{
        Kernel<count, DeltaMode::kPlain>::Run, Kernel<count, DeltaMode::kSlot>::Run,
        Kernel<count, DeltaMode::kCrc>::Run, Kernel<count, DeltaMode::kSlotCrcOfDeltas>::Run,
        Kernel<count, DeltaMode::kSlotCrcOfAll>::Run};
  };
  static constexpr std::array<std::array<DeltaKernel, kDeltaModeCount>, kDeltaCountMax> kAll = {
      kOfCount.template operator()<1>(), kOfCount.template operator()<2>(),
      kOfCount.template operator()<3>(), kOfCount.template operator()<4>()};
  return kAll[form.count - 1][static_cast<std::size_t>(ModeOf(form))];
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_KERNEL_ENGINES_H_
