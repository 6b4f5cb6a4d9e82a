// tools/ring-bench/load.h — puts every key of a key space before a measurement.
//
// What:      Load: keys 0 .. key_count-1, with values that tell which key they are of, pipelined;
//            puts that the cluster refuses for a moment (back pressure) are repeated. ReadBack:
//            gets all of them and compares.
// Threads:   the client's.
// Errors:    Load: the first outcome that is neither OK nor passing; kDeadlineExceeded without
//            progress. ReadBack: kDataLoss names a key with a wrong value.
#ifndef RING_TOOLS_RING_BENCH_LOAD_H_
#define RING_TOOLS_RING_BENCH_LOAD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/client.h"

namespace ring::bench {

struct LoadOptions {
  MemgestId memgest;
  std::uint16_t key_space = 0;
  std::uint64_t key_count = 0;
  std::size_t value_size = 1024;
  std::size_t pipeline = 32;
  bool progress = true;
};

absl::Status Load(Client* client, absl::string_view label, const LoadOptions& options);

struct ReadBackResult {
  std::uint64_t right = 0;
  std::uint64_t unread = 0;  // no value within the patience
};
// patience: with a shard that does not serve, of all keys together.
absl::StatusOr<ReadBackResult> ReadBack(Client* client, const LoadOptions& options,
                                        absl::Duration patience);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_LOAD_H_
