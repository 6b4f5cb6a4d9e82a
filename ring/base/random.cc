#include "ring/base/random.h"

#include <bit>

#include "ring/base/check.h"

namespace ring {
namespace {
__extension__ using Uint128 = unsigned __int128;
}  // namespace

std::uint64_t Random::Below(std::uint64_t bound) {
  RING_CHECK(bound > 0);
  // Lemire's multiply-shift; the bias of at most bound/2^64 is far below what any test can see.
  return static_cast<std::uint64_t>((static_cast<Uint128>(Next64()) * bound) >> 64);
}

SeededRandom::SeededRandom(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {  // splitmix64, as the authors advise for seeding
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

std::uint64_t SeededRandom::Next64() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

}  // namespace ring
