#include "ring/cluster/routing.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::cluster {
namespace {

// Bit by bit, as the definition of the CRC says it.
std::uint16_t SlowCrc16(absl::string_view bytes) {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return static_cast<std::uint16_t>(crc);
}

TEST(Crc16, IsXmodemAsRedisClusterUsesIt) {
  EXPECT_EQ(Crc16("123456789"), 0x31C3);
  EXPECT_EQ(Crc16(""), 0);
  EXPECT_EQ(KeySlot("foo"), 12182);
  EXPECT_EQ(KeySlot("bar"), 5061);
  EXPECT_EQ(KeySlot("hello"), 866);
  EXPECT_EQ(KeySlot("somekey"), 11058);
}

TEST(Crc16, AgreesWithTheBitwiseDefinitionAtEveryLength) {
  SeededRandom random(testing::SeedFor("crc16"));
  std::string bytes;
  for (int size = 0; size < 300; ++size) {
    EXPECT_EQ(Crc16(bytes), SlowCrc16(bytes)) << "size=" << size;
    bytes.push_back(static_cast<char>(random.Next64()));
  }
}

TEST(HashTag, IsWhatStandsBetweenTheFirstBraceAndTheNextClosingOne) {
  EXPECT_EQ(HashedPart("{user1000}.following"), "user1000");
  EXPECT_EQ(HashedPart("foo{bar}{zap}"), "bar");
  EXPECT_EQ(HashedPart("foo{{bar}}zap"), "{bar");
  EXPECT_EQ(HashedPart("}a{b}"), "b");
  EXPECT_EQ(KeySlot("{user1000}.following"), KeySlot("{user1000}.followers"));
  EXPECT_EQ(KeySlot("{user1000}.following"), KeySlot("user1000"));
}

TEST(HashTag, IsTheWholeKeyWhenThereIsNothingToTake) {
  for (const absl::string_view key : {"foo{}{bar}", "foo{bar", "foo}bar{", "", "{}", "plain"}) {
    EXPECT_EQ(HashedPart(key), key);
  }
}

TEST(HashTag, IsBinarySafe) {
  const std::string key("\0\xff{\0x}\xfe", 7);
  EXPECT_EQ(HashedPart(key), absl::string_view("\0x", 2));
}

// 16,384 slots over 15 shards.
TEST(Routing, GivesEachShardOfThreeAndTwo1092Or1093Slots) {
  const Routing routing(3, 2);
  std::map<std::pair<int, int>, int> slots;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    const Place place = routing.OfSlot(slot);
    ++slots[{place.group.value(), place.shard.value()}];
  }
  EXPECT_EQ(slots.size(), 15u);
  for (const auto& [place, count] : slots) {
    EXPECT_GE(count, 1092) << place.first << "," << place.second;
    EXPECT_LE(count, 1093) << place.first << "," << place.second;
  }
}

TEST(Routing, IsTheQuotientAndTheRemainderForEverySlotAndShape) {
  for (int s = 1; s <= 16; ++s) {
    for (int d = 0; d <= 4; ++d) {
      const Routing routing(s, d);
      for (int slot = 0; slot < kSlotCount; ++slot) {
        const Place place = routing.OfSlot(slot);
        ASSERT_EQ(place.group.value(), slot % (s + d)) << "s=" << s << " d=" << d;
        ASSERT_EQ(place.shard.value(), slot / (s + d) % s) << "s=" << s << " d=" << d;
      }
    }
  }
}

TEST(Routing, SpreadsPlainKeysEvenly) {
  const Routing routing(3, 2);
  std::map<std::pair<int, int>, int> keys;
  for (int i = 0; i < 15000; ++i) {
    const Place place = routing.OfKey(absl::StrCat("user:", i));
    ++keys[{place.group.value(), place.shard.value()}];
  }
  ASSERT_EQ(keys.size(), 15u);
  for (const auto& [place, count] : keys) {
    EXPECT_GT(count, 700) << place.first << "," << place.second;
    EXPECT_LT(count, 1300) << place.first << "," << place.second;
  }
}

}  // namespace
}  // namespace ring::cluster
