#include "ring/base/histogram.h"

#include <cmath>

#include "ring/base/check.h"

namespace ring {

void Histogram::Merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBucketCount; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::Reset() {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
  sum_ = 0;
  min_ = std::numeric_limits<std::uint64_t>::max();
  max_ = 0;
}

std::uint64_t Histogram::Percentile(double percent) const {
  RING_CHECK(percent >= 0 && percent <= 100) << "percent=" << percent;
  if (count_ == 0) return 0;
  // A share of the records that is a whole number up to rounding counts as that number: 99.9 % of
  // 1,000 is 999, not the 1,000 that a product of 999.0000000000001 would round up to.
  const double share = percent / 100 * static_cast<double>(count_);
  const double rank = std::ceil(share - share * 1e-12);
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(static_cast<std::uint64_t>(rank), 1, count_);
  std::uint64_t seen = 0;
  std::size_t index = 0;
  while ((seen += counts_[index]) < wanted) ++index;
  return std::clamp(BucketMax(index), min_, max_);
}

}  // namespace ring
