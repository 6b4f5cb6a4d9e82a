// ring/base/histogram.h — a log-linear histogram of 64-bit values.
//
// What:      Counts values in buckets whose width grows with the value: exact below 256, then 128
//            buckets per power of two. A quantile is at most 1/128 (0.8 %) above the true value and
//            never below it. Histograms merge exactly, so each thread keeps its own.
// Shape:     7,424 buckets of 8 bytes, allocated once.
// Units:     the caller's; latencies are in nanoseconds.
// Threads:   thread-compatible.
// Errors:    none: every 64-bit value has a bucket.
// Cost:      Record is a bit scan, a shift and an addition, with no allocation; Percentile walks
//            the buckets.
// Source:    HdrHistogram (Gil Tene), the log-linear bucket scheme.
#ifndef RING_BASE_HISTOGRAM_H_
#define RING_BASE_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ring {

class Histogram {
 public:
  static constexpr int kExactBits = 8;
  static constexpr std::uint64_t kPerOctave = std::uint64_t{1} << (kExactBits - 1);
  static constexpr std::size_t kBucketCount = (64 - kExactBits) * kPerOctave + 2 * kPerOctave;

  Histogram() : counts_(kBucketCount) {}

  void Record(std::uint64_t value) { RecordMany(value, 1); }
  void RecordMany(std::uint64_t value, std::uint64_t count) {
    if (count == 0) return;
    counts_[BucketOf(value)] += count;
    count_ += count;
    sum_ += static_cast<double>(value) * static_cast<double>(count);
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  // Adds every record of other, as if it had been recorded here.
  void Merge(const Histogram& other);
  // Forgets all records; keeps the buckets.
  void Reset();

  std::uint64_t count() const { return count_; }
  // The least and the greatest value recorded, exact; 0 when there is none.
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double Mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

  // The smallest bucket bound that at least `percent` of the records do not exceed, clamped to
  // [min, max]; 0 when there is no record. REQUIRES: 0 <= percent <= 100.
  std::uint64_t Percentile(double percent) const;

  static constexpr std::size_t BucketOf(std::uint64_t value) {
    // The cast: libstdc++ 12 gives the type of value, later ones int.
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kExactBits);
    return static_cast<std::size_t>(static_cast<std::uint64_t>(shift) * kPerOctave +
                                    (value >> shift));
  }
  // The greatest value that falls into the bucket.
  static constexpr std::uint64_t BucketMax(std::size_t index) {
    if (index < 2 * kPerOctave) return index;
    const std::uint64_t shift = index / kPerOctave - 1;
    const std::uint64_t top = index - shift * kPerOctave;
    return (top << shift) + ((std::uint64_t{1} << shift) - 1);
  }

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

static_assert(Histogram::BucketOf(std::numeric_limits<std::uint64_t>::max()) ==
              Histogram::kBucketCount - 1);

}  // namespace ring

#endif  // RING_BASE_HISTOGRAM_H_
