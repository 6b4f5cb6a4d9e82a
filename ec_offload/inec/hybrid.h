// ec_offload/inec/hybrid.h — which way an operation of a chunk size goes.
//
// What:      InecWay; InecThresholds, rows for each primitive; ChooseWay.
// Shape:     rows ascend; the first whose chunk_size_max is not below the chunk size decides, and
//            coherent is what no row decides.
// Units:     bytes.
// Ownership: values.
// Threads:   pure.
// Errors:    CheckThresholds: kInvalidArgument naming the row that does not ascend.
// Source:    INEC (SC'20), discussion: coherent where latency dominates, incoherent where its
//            states cost more than they save.
#ifndef RING_EC_OFFLOAD_INEC_HYBRID_H_
#define RING_EC_OFFLOAD_INEC_HYBRID_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ring::ec_offload {

enum class InecPrimitive : std::uint8_t { kEcSend = 0, kRecvEcSend = 1, kRecvEc = 2 };
inline constexpr std::size_t kInecPrimitiveCount = 3;

inline absl::string_view InecPrimitiveName(InecPrimitive primitive) {
  constexpr absl::string_view kNames[] = {"ec-send", "recv-ec-send", "recv-ec"};
  return kNames[static_cast<std::size_t>(primitive)];
}

enum class InecWay : std::uint8_t {
  kCoherent = 0,    // everything is posted at once; the device goes from step to step
  kIncoherent = 1,  // this thread polls for each step, and posts the next one
};

struct InecThreshold {
  std::uint64_t chunk_size_max = 0;
  InecWay way = InecWay::kCoherent;
};
struct InecThresholds {
  std::array<std::vector<InecThreshold>, kInecPrimitiveCount> rows;  // by InecPrimitive

  // One way for all sizes and primitives.
  static InecThresholds Always(InecWay way) {
    InecThresholds thresholds;
    for (auto& rows : thresholds.rows) rows = {{~std::uint64_t{0}, way}};
    return thresholds;
  }
};

// What was measured on the software NIC (docs/EC_OFFLOAD.md, with the command): coherent is ahead
// up to a MiB and on a par above, for each primitive. So no row is needed; a NIC whose WAITs are
// dear gets rows of its own.
inline InecThresholds MeasuredThresholds() { return {}; }

inline InecWay ChooseWay(const InecThresholds& thresholds, InecPrimitive primitive,
                         std::uint64_t chunk_size) {
  for (const InecThreshold& row : thresholds.rows[static_cast<std::size_t>(primitive)]) {
    if (chunk_size <= row.chunk_size_max) return row.way;
  }
  return InecWay::kCoherent;
}

inline absl::Status CheckThresholds(const InecThresholds& thresholds) {
  for (std::size_t i = 0; i < kInecPrimitiveCount; ++i) {
    const std::vector<InecThreshold>& rows = thresholds.rows[i];
    for (std::size_t j = 1; j < rows.size(); ++j) {
      if (rows[j].chunk_size_max > rows[j - 1].chunk_size_max) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(InecPrimitiveName(static_cast<InecPrimitive>(i)), " threshold row ", j,
                       " chunk_size_max=", rows[j].chunk_size_max, ": rows must ascend"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_HYBRID_H_
