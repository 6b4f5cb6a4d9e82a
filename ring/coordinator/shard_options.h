// ring/coordinator/shard_options.h — what the coordinator of a shard is told when it begins, and
// what it counts.
//
// What:      ShardOptions, ShardCounters.
// Ownership: values; what they point to outlives the coordinator.
// Threads:   thread-compatible.
// Errors:    none.
#ifndef RING_COORDINATOR_SHARD_OPTIONS_H_
#define RING_COORDINATOR_SHARD_OPTIONS_H_

#include <cstdint>

#include "memgest/metadata_line.h"
#include "ring/base/id.h"
#include "ring/base/limits.h"
#include "ring/base/pace.h"
#include "ring/protocol/limits.h"

namespace ring::coordinator {

class BlockDecoder;
class CatalogueReader;

struct ShardOptions {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  int s = 0;
  int d = 0;
  std::uint32_t line_count_max = memgest::kLineCountMax;
  std::uint64_t value_size_max = kValueSizeMax;
  std::uint64_t hash_seed = 0;
  // The epoch in which the role came here from another coordinator; none: nobody had it before.
  Epoch took_over_in;
  CatalogueReader* catalogue = nullptr;  // null: what is known here is all there is
  Pace* pace = nullptr;                  // of what new parities are sent; null: as fast as it goes
  BlockDecoder* decoder = nullptr;       // null: degraded reads are refused
};

// Counters of what was served; plain, summed by whoever asks.
struct ShardCounters {
  std::uint64_t gets = 0;
  std::uint64_t puts = 0;
  std::uint64_t deletes = 0;
  std::uint64_t moves = 0;
  std::uint64_t refusals = 0;
  std::uint64_t degraded_gets = 0;  // of the gets, answered with decoded bytes
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_SHARD_OPTIONS_H_
