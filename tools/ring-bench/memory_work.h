// tools/ring-bench/memory_work.h — the memory traffic that an operation cannot avoid, on one core.
//
// What:      MeasureMemoryWork: index, metadata line, value, and for REP3 and SRS32 the logs and
//            the folding at both members, over key_count keys at random and with nothing else: no
//            client, no requests, one operation at a time. What a store of this design is made of.
// Units:     nanoseconds an operation; sizes in bytes.
// Ownership: allocates about (1 + copies) x key_count x (value_size + 64) bytes for the call.
// Threads:   the caller's.
// Errors:    none.
// Source:    the layouts of the store; docs/BENCHMARKS.md, "Floors".
#ifndef RING_TOOLS_RING_BENCH_MEMORY_WORK_H_
#define RING_TOOLS_RING_BENCH_MEMORY_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace ring::bench {

enum class MemoryWork : std::uint8_t { kGet, kRep1Put, kRep3Put, kSrs32Put };

// The work of a put into the memgest of this name; empty for others than REP1, REP3, SRS32.
std::optional<MemoryWork> MemoryWorkOf(absl::string_view memgest);

struct MemoryWorkOptions {
  std::uint64_t key_count = 100'000;
  std::size_t value_size = 1024;
};

// The median of windows of 1,000 operations.
double MeasureMemoryWork(MemoryWork work, const MemoryWorkOptions& options);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_MEMORY_WORK_H_
