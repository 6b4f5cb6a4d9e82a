#include "ring/coordinator/key_hash.h"

#include <bit>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

TEST(KeyHash, DependsOnEveryByteAndOnTheLength) {
  for (std::size_t length = 0; length <= 70; ++length) {
    const std::string key(length, 'a');
    std::set<std::uint64_t> seen = {KeyHash(key, 1)};
    for (std::size_t i = 0; i < length; ++i) {
      std::string other = key;
      other[i] = 'b';
      EXPECT_TRUE(seen.insert(KeyHash(other, 1)).second) << "length=" << length << " byte=" << i;
    }
    EXPECT_TRUE(seen.insert(KeyHash(key + 'a', 1)).second) << "length=" << length;
  }
}

TEST(KeyHash, ZeroBytesCount) {
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length <= 64; ++length) {
    EXPECT_TRUE(seen.insert(KeyHash(std::string(length, '\0'), 7)).second) << length;
  }
}

TEST(KeyHash, IsAnotherFunctionForAnotherSeed) {
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key" + std::to_string(i);
    equal += KeyHash(key, 1) == KeyHash(key, 2) ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST(KeyHash, ReadsNothingBesideTheKey) {
  SeededRandom random(ring::testing::SeedFor("key_hash"));
  for (std::size_t length = 0; length <= 64; ++length) {
    std::string around(length + 64, '\0');
    for (char& c : around) c = static_cast<char>(random.Next64());
    const std::string key = around.substr(32, length);
    const std::uint64_t hash = KeyHash(absl::string_view(around).substr(32, length), 3);
    for (std::size_t i = 0; i < around.size(); ++i) {
      if (i < 32 || i >= 32 + length) around[i] = static_cast<char>(~around[i]);
    }
    EXPECT_EQ(KeyHash(absl::string_view(around).substr(32, length), 3), hash);
    EXPECT_EQ(KeyHash(key, 3), hash);
  }
}

// The low half gives tag and bucket: similar keys must spread over it.
TEST(KeyHash, SpreadsSimilarKeysOverTheLowHalf) {
  std::set<std::uint32_t> tags;
  constexpr int kKeys = 20000;
  for (int i = 0; i < kKeys; ++i) {
    tags.insert(static_cast<std::uint32_t>(KeyHash("user" + std::to_string(i), 9)));
  }
  // About kKeys^2 / 2^33 = 0.05 pairs collide by chance.
  EXPECT_GE(tags.size(), static_cast<std::size_t>(kKeys - 3));
  int bits[32] = {};
  for (const std::uint32_t tag : tags) {
    for (int b = 0; b < 32; ++b) bits[b] += static_cast<int>(tag >> b & 1);
  }
  for (const int count : bits) EXPECT_NEAR(count, kKeys / 2, kKeys / 20);
}

}  // namespace
}  // namespace ring::coordinator
