// ring/coordinator/key_hash.h — the hash of the volatile key table.
//
// What:      KeyHash(key, seed): 64 bits, seeded by the node at random, so that nobody can aim
//            collisions at it.
// Units:     bytes; any length.
// Threads:   pure.
// Errors:    none.
// Cost:      about 1 ns for 16 bytes: two loads and a 64x64 multiply; one multiply for each further
//            16 bytes.
// Source:    wyhash's mixing step (Wang Yi), as absl::Hash uses it.
#ifndef RING_COORDINATOR_KEY_HASH_H_
#define RING_COORDINATOR_KEY_HASH_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "ring/base/mutant.h"

namespace ring::coordinator {

inline std::uint64_t MixHash(std::uint64_t a, std::uint64_t b) {
  __extension__ using Uint128 = unsigned __int128;
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t KeyHash(absl::string_view key, std::uint64_t seed) {
  constexpr std::uint64_t kSecretA = 0xa0761d6478bd642f;
  constexpr std::uint64_t kSecretB = 0xe7037ed1a0b428db;
  const char* p = key.data();
  std::size_t left = key.size();
  std::uint64_t state = seed ^ kSecretA;
  while (left > 16) {
    std::uint64_t a;
    std::uint64_t b;
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + 8, 8);
    state = MixHash(a ^ kSecretB, b ^ state);
    p += 16;
    left -= 16;
  }
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (left >= 8) {
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + left - 8, 8);
  } else if (left >= 4) {
    std::uint32_t low;
    std::uint32_t high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + left - 4, 4);
    a = low;
    b = high;
  } else if (left > 0) {
    a = (std::uint64_t{static_cast<unsigned char>(p[0])} << 16) |
        (std::uint64_t{static_cast<unsigned char>(p[left / 2])} << 8) |
        static_cast<unsigned char>(p[left - 1]);
  }
  const std::uint64_t hash = MixHash(kSecretB ^ key.size(), MixHash(a ^ kSecretB, b ^ state));
  return Mutant("V8") || Mutant("weak-hash") ? hash & 3 : hash;
}

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_KEY_HASH_H_
