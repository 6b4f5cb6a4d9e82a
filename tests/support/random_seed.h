// tests/support/random_seed.h — the seed of a randomized test, printed and replayable.
//
// What:      TestSeed(): RING_TEST_SEED when it is set, else a fresh seed for the process; prints
//            the line that replays the run, once. SeedFor(label) splits it, so that two generators
//            of a test do not run in step.
// Threads:   any.
// Errors:    a RING_TEST_SEED that is not a decimal number ends the process.
#ifndef RING_TESTS_SUPPORT_RANDOM_SEED_H_
#define RING_TESTS_SUPPORT_RANDOM_SEED_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "ring/base/check.h"

namespace ring::testing {

inline std::uint64_t ChooseTestSeed() {
  std::uint64_t seed = 0;
  if (const char* text = std::getenv("RING_TEST_SEED"); text != nullptr) {
    RING_CHECK(absl::SimpleAtoi(text, &seed)) << "RING_TEST_SEED=" << text << ": give a number";
  } else {
    std::random_device device;
    seed = (std::uint64_t{device()} << 32) | device();
  }
  std::fprintf(stderr, "replay with RING_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

inline std::uint64_t TestSeed() {
  static const std::uint64_t seed = ChooseTestSeed();
  return seed;
}

// The seed of one generator: the test's seed mixed with FNV-1a of the label.
inline std::uint64_t SeedFor(absl::string_view label) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : label) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return TestSeed() ^ hash;
}

}  // namespace ring::testing

#endif  // RING_TESTS_SUPPORT_RANDOM_SEED_H_
