// tools/ring-bench/workload.h — which keys, how often, with which values.
//
// What:      KeyName: the 16 bytes of key number i of a key space. KeyChooser: uniform, or zipfian
//            with theta 0.99 and its popular keys scattered, as YCSB does. DegradedArrivals:
//            which reads are degraded ones. FillValue and CheckValue: a value names its key, so
//            that a reader notices a wrong one.
// Units:     sizes in bytes.
// Threads:   pure; KeyChooser is thread-compatible.
// Errors:    none.
// Source:    Gray et al., "Quickly generating billion-record synthetic databases" (1994); YCSB;
//            INEC (SC'20), section IV-B (degraded reads by a Weibull distribution).
#ifndef RING_TOOLS_RING_BENCH_WORKLOAD_H_
#define RING_TOOLS_RING_BENCH_WORKLOAD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/base/random.h"

namespace ring::bench {

inline constexpr std::size_t kKeySize = 16;

class KeyName {
 public:
  // space: keeps the keys of one measurement apart from another's.
  KeyName(std::uint16_t space, std::uint64_t index);
  absl::string_view view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, kKeySize> bytes_;
};

enum class Distribution : std::uint8_t { kUniform, kZipfian };

class KeyChooser {
 public:
  // REQUIRES: key_count > 0. Zipfian: O(key_count) once.
  KeyChooser(Distribution distribution, std::uint64_t key_count, std::uint64_t seed);
  std::uint64_t Next();
  // A number in [0, 1).
  double NextUnit() { return static_cast<double>(random_.Next64() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t NextRank();

  Distribution distribution_;
  std::uint64_t key_count_;
  SeededRandom random_;
  double zeta_ = 0;
  double eta_ = 0;
  double alpha_ = 0;
};

struct DegradedOptions {
  double share = 0;     // of the reads
  double shape = 0.75;  // of the Weibull distribution of the reads between two of them
  double scale = 0;     // ... reads; 0: so that the share comes out
};

// The distribution's scale. REQUIRES: share > 0.
double WeibullScale(const DegradedOptions& options);

// Degraded reads arrive as failures do: the time between two has a Weibull distribution, counted in
// reads. With a shape below 1 they come in bursts: arrivals that fall together make reads that
// follow each other degraded.
class DegradedArrivals {
 public:
  DegradedArrivals(const DegradedOptions& options, std::uint64_t seed);
  // Whether the next read is one.
  bool Next();

 private:
  double Gap();

  DegradedOptions options_;
  double scale_ = 0;
  SeededRandom random_;
  double clock_ = 0;  // reads
  double next_ = 0;
  std::uint64_t waiting_ = 0;  // arrived, and no read was theirs yet
};

// Writes the key's number into the value's first bytes, as many as fit.
void FillValue(std::uint64_t index, absl::Span<char> value);
bool CheckValue(std::uint64_t index, std::size_t size_expected, absl::string_view value);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_WORKLOAD_H_
