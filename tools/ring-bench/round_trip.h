// tools/ring-bench/round_trip.h — the floor of any request between two threads.
//
// What:      MeasureRoundTrip: one thread writes a request into shared lines, stamp last; the other
//            copies it out and answers the same way. What no store on these cores can be below.
// Units:     sizes in bytes (each is rounded up to a cache line with the stamp); nanoseconds.
// Threads:   starts one and joins it. With a single core both yield, and the figure is that of the
//            scheduler.
// Errors:    none.
// Cost:      about `rounds` microseconds; on busy processors two seconds, and fewer rounds.
#ifndef RING_TOOLS_RING_BENCH_ROUND_TRIP_H_
#define RING_TOOLS_RING_BENCH_ROUND_TRIP_H_

#include <cstddef>
#include <cstdint>

#include "ring/base/histogram.h"

namespace ring::bench {

struct RoundTripOptions {
  std::size_t request_size = 0;  // besides the line of the stamp
  std::size_t reply_size = 0;
  std::uint64_t rounds = 100'000;
};

Histogram MeasureRoundTrip(const RoundTripOptions& options);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_ROUND_TRIP_H_
