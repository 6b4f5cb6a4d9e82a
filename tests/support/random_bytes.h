// tests/support/random_bytes.h — bytes that follow from a seed.
//
// What:      RandomBytes: so many.
// Threads:   the generator's.
// Errors:    none.
#ifndef RING_TESTS_SUPPORT_RANDOM_BYTES_H_
#define RING_TESTS_SUPPORT_RANDOM_BYTES_H_

#include <cstddef>
#include <vector>

#include "ring/base/random.h"

namespace ring::testing {

inline std::vector<std::byte> RandomBytes(SeededRandom& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next64());
  return bytes;
}

}  // namespace ring::testing

#endif  // RING_TESTS_SUPPORT_RANDOM_BYTES_H_
