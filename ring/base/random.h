// ring/base/random.h — the port of randomness, and its reproducible generator.
//
// What:      Random: 64 random bits. SeededRandom: xoshiro256**, the same sequence for a seed on
//            every machine and version (absl::BitGen promises none), so that a seed replays a
//            cluster.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2018).
#ifndef RING_BASE_RANDOM_H_
#define RING_BASE_RANDOM_H_

#include <array>
#include <cstdint>

namespace ring {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t Next64() = 0;
  // A uniform number in [0, bound). REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound);
};

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed);
  std::uint64_t Next64() override;

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace ring

#endif  // RING_BASE_RANDOM_H_
