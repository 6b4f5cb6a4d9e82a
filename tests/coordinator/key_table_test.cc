#include "ring/coordinator/key_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "ring/cluster/routing.h"
#include "ring/coordinator/key_hash.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::coordinator {
namespace {

class KeyTableTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLines = 1u << 17;

  std::uint32_t NewLine(absl::string_view key) {
    std::uint32_t line;
    if (free_.empty()) {
      if (next_ % memgest::kLinesPerGranule == 0) {
        EXPECT_OK(lines_.AddGranule(MemgestId(0), 0, 0).status());
      }
      line = next_++;
    } else {
      line = free_.back();
      free_.pop_back();
    }
    lines_.SetKey(line, key);
    return line;
  }
  std::uint32_t Insert(std::uint64_t hash, absl::string_view key) {
    const std::uint32_t line = NewLine(key);
    EXPECT_OK(table_.Reserve());
    table_.Insert(hash, line);
    return line;
  }
  void Erase(std::uint64_t hash, absl::string_view key) {
    std::uint32_t* const entry = table_.Find(hash, key);
    ASSERT_NE(entry, nullptr);
    const std::uint32_t line = *entry;
    table_.Erase(entry);
    lines_.Clear(line);
    free_.push_back(line);
  }

  memgest::TwinDevice device_;
  memgest::LineTable lines_{&device_, kLines};
  KeyTable table_{&device_, &lines_};
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> free_;
};

TEST_F(KeyTableTest, AnEmptyTableKnowsNothing) {
  EXPECT_EQ(table_.Find(KeyHash("k", 1), "k"), nullptr);
  EXPECT_EQ(table_.PeekLine(1), memgest::kNoLine);
  EXPECT_EQ(device_.reserved, 0u);
  table_.PrefetchBucket(1);
}

// F11: nor does a table that grows keep the address space of what it grew out of.
TEST_F(KeyTableTest, F11WhatItGrewOutOfIsGivenBack) {
  memgest::TwinDevice device;
  KeyTable table(&device, &lines_);
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ASSERT_OK(table.Reserve());
    table.Insert(KeyHash(std::to_string(i), 1), NewLine(std::to_string(i)));
  }
  // Tables double: the last one, and the one that it may be moving from.
  EXPECT_LT(device.reserved, (device.reserved + device.freed) * 4 / 5);
  table.DropAll();
  EXPECT_EQ(device.reserved, 0u);
}

// V8: hash equality is not key equality.
TEST_F(KeyTableTest, V8KeysOfOneHashAreDifferentKeys) {
  constexpr std::uint64_t kHash = 0x1234567812345678;
  std::map<std::string, std::uint32_t> lines;
  for (int i = 0; i < 100; ++i) {  // far more than a bucket holds
    const std::string key = "same-hash-" + std::to_string(i);
    EXPECT_EQ(table_.Find(kHash, key), nullptr);
    lines[key] = Insert(kHash, key);
  }
  for (const auto& [key, line] : lines) {
    ASSERT_NE(table_.Find(kHash, key), nullptr);
    EXPECT_EQ(*table_.Find(kHash, key), line);
  }
  EXPECT_EQ(table_.Find(kHash, "same-hash-100"), nullptr);
  // Deletions in the middle of the run hide nothing behind them.
  for (int i = 0; i < 100; i += 2) Erase(kHash, "same-hash-" + std::to_string(i));
  for (int i = 0; i < 100; ++i) {
    const std::string key = "same-hash-" + std::to_string(i);
    EXPECT_EQ(table_.Find(kHash, key) != nullptr, i % 2 == 1) << key;
  }
}

// Tags 0 and 1 have a meaning of their own: hashes that give them must work all the same.
TEST_F(KeyTableTest, HashesWhoseLowHalfIsZeroOrOne) {
  for (const std::uint64_t hash :
       {0ull, 1ull, 2ull, 3ull, 0xffffffff00000000ull, 0xffffffff00000001ull}) {
    const std::string key = "h" + std::to_string(hash);
    const std::uint32_t line = Insert(hash, key);
    ASSERT_NE(table_.Find(hash, key), nullptr);
    EXPECT_EQ(*table_.Find(hash, key), line);
  }
  EXPECT_EQ(table_.size(), 6u);
}

TEST_F(KeyTableTest, FindsEveryKeyAtEveryStepOfGrowth) {
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) {
    keys.push_back("key-" + std::to_string(i));
    Insert(KeyHash(keys.back(), 1), keys.back());
    if (i % 7 != 0) continue;
    for (const std::string& key : keys) {
      ASSERT_NE(table_.Find(KeyHash(key, 1), key), nullptr) << key << " after " << i;
    }
  }
  EXPECT_EQ(table_.size(), 3000u);
}

TEST_F(KeyTableTest, ErasesFromATableThatGrows) {
  std::map<std::string, bool> keys;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "key-" + std::to_string(i);
    Insert(KeyHash(key, 1), key);
    keys[key] = true;
    if (i % 3 == 0) {
      const std::string gone = "key-" + std::to_string(i / 2);
      if (keys[gone]) Erase(KeyHash(gone, 1), gone);
      keys[gone] = false;
    }
  }
  std::uint64_t live = 0;
  for (const auto& [key, is_there] : keys) {
    EXPECT_EQ(table_.Find(KeyHash(key, 1), key) != nullptr, is_there) << key;
    live += is_there ? 1 : 0;
  }
  EXPECT_EQ(table_.size(), live);
  std::uint64_t visited = 0;
  table_.ForEach([&](std::uint32_t) { ++visited; });
  EXPECT_EQ(visited, live);
}

// F11: no memory for a larger table. What is there stays and is found; room comes back with
// deletions or memory.
TEST_F(KeyTableTest, ReserveFailsWithoutMemoryAndLosesNothing) {
  std::vector<std::string> keys;
  device_.limit = device_.reserved + (4u << 20);  // the first table and the lines' memory
  absl::Status status;
  for (int i = 0; i < 100000; ++i) {
    if (i == 1000) device_.limit = device_.reserved;
    status = table_.Reserve();
    if (!status.ok()) break;
    keys.push_back("key-" + std::to_string(i));
    table_.Insert(KeyHash(keys.back(), 1), NewLine(keys.back()));
  }
  ASSERT_THAT(status, ring::testing::StatusIs(absl::StatusCode::kResourceExhausted));
  for (int repeat = 0; repeat < 100; ++repeat) EXPECT_FALSE(table_.Reserve().ok());
  for (const std::string& key : keys) ASSERT_NE(table_.Find(KeyHash(key, 1), key), nullptr);
  device_.limit = ~std::size_t{0} / 2;
  Insert(KeyHash("one more", 1), "one more");
  EXPECT_EQ(table_.size(), keys.size() + 1);
}

// A table whose keys come and go must not ask for more for ever.
TEST_F(KeyTableTest, KeysThatComeAndGoNeedNoMoreMemory) {
  constexpr int kLive = 180;
  for (int i = 0; i < kLive; ++i) Insert(KeyHash(std::to_string(i), 1), std::to_string(i));
  auto churn = [&, i = kLive](int count) mutable {
    for (const int end = i + count; i < end; ++i) {
      const std::string gone = std::to_string(i - kLive);
      Erase(KeyHash(gone, 1), gone);
      Insert(KeyHash(std::to_string(i), 1), std::to_string(i));
    }
  };
  churn(20000);
  const std::size_t calls = device_.calls;
  churn(100000);
  EXPECT_EQ(device_.calls, calls);
}

// Whoever writes knows the slot of a key (CRC16), and can make as many of one as he likes. The
// table's seed he does not know: they are as far from each other as any.
TEST_F(KeyTableTest, ThousandsOfKeysOfOneSlotCostNoMoreThanOthers) {
  constexpr int kKeys = 8192;
  SeededRandom random(ring::testing::SeedFor("key_table_flood"));
  for (const char* const form : {"{flood}", "flood:"}) {
    const std::uint64_t seed = random.Next64();
    KeyTable table(&device_, &lines_);
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) keys.push_back(form + std::to_string(i));
    for (const std::string& key : keys) {
      if (form[0] == '{') {
        ASSERT_EQ(cluster::KeySlot(key), cluster::KeySlot(keys[0]));
      }
      ASSERT_OK(table.Reserve());
      table.Insert(KeyHash(key, seed), NewLine(key));
    }
    std::uint64_t read = 0;
    std::uint64_t longest = 0;
    for (const std::string& key : keys) {
      const std::uint64_t probes = table.ProbeLength(KeyHash(key, seed));
      read += probes;
      longest = std::max(longest, probes);
      ASSERT_NE(table.Find(KeyHash(key, seed), key), nullptr);
    }
    EXPECT_LE(read, 3u * kKeys) << form;
    EXPECT_LE(longest, 50u) << form;
    // A pair is 8 bytes, and the table never less than a quarter full, with its former one.
    EXPECT_LE(table.resident_bytes(), 8u * kKeys * 4 * 3 / 2) << form;
  }
}

// Who knew the seed could make keys of one hash. They cost each other one bucket for eight of them,
// and no more memory than other keys.
TEST_F(KeyTableTest, V8ThousandsOfKeysOfOneHashCostOnlyEachOther) {
  constexpr std::uint64_t kHash = 0x1234567812345678;
  constexpr int kKeys = 4096;
  const auto key = [](int i) { return "same-hash-" + std::to_string(i); };
  for (int i = 0; i < kKeys; ++i) {
    Insert(kHash, key(i));
    // Eight to a bucket, in both tables while it grows.
    ASSERT_LE(table_.ProbeLength(kHash), 2 * (static_cast<std::uint64_t>(i) / 8 + 4)) << i;
  }
  for (const int i : {0, kKeys / 2, kKeys - 1}) {
    ASSERT_NE(table_.Find(kHash, key(i)), nullptr);
    EXPECT_TRUE(lines_.KeyEquals(*table_.Find(kHash, key(i)), key(i)));
  }
  EXPECT_EQ(table_.Find(kHash, key(kKeys)), nullptr);
  const std::uint64_t resident = table_.resident_bytes();
  EXPECT_LE(resident, 8u * kKeys * 4 * 3 / 2);
  // A key on the other side of the table notices nothing.
  // Grown to its end.
  for (std::uint64_t i = 0; i < resident / 64; ++i) ASSERT_OK(table_.Reserve());
  EXPECT_LE(table_.ProbeLength(kHash ^ (table_.resident_bytes() / 64 / 2)), 2u);
  // What deletions leave is swept away by the next growth, at the latest.
  for (int i = 0; i < kKeys; ++i) Erase(kHash, key(i));
  for (int i = 0; i < kKeys; ++i) Insert(KeyHash(key(i), 7), key(i));
  for (std::uint64_t i = 0; i < resident / 64; ++i) ASSERT_OK(table_.Reserve());
  EXPECT_LE(table_.ProbeLength(kHash), 20u);
}

TEST_F(KeyTableTest, AgreesWithAMap) {
  SeededRandom random(ring::testing::SeedFor("key_table"));
  std::map<std::string, std::uint32_t> model;
  for (int i = 0; i < 60000; ++i) {
    // Narrow hashes make long runs; the share of inserts swings, so that the table grows and
    // empties.
    const std::string key = "k" + std::to_string(random.Below(3000));
    const std::uint64_t hash = KeyHash(key, 5) & 0xff0f00ff;
    std::uint32_t* const entry = table_.Find(hash, key);
    const auto found = model.find(key);
    ASSERT_EQ(entry != nullptr, found != model.end()) << key;
    if (entry != nullptr) {
      ASSERT_EQ(*entry, found->second);
      if (random.Below(2) == 0) {
        Erase(hash, key);
        model.erase(found);
      }
    } else if (random.Below(10) < (i / 10000 % 2 == 0 ? 9u : 2u)) {
      model[key] = Insert(hash, key);
    } else {
      EXPECT_OK(table_.Reserve());  // a put that was refused after its reservation
    }
    ASSERT_EQ(table_.size(), model.size());
  }
}

TEST_F(KeyTableTest, WhatIsReservedForAtOnceNeedsNoGrowth) {
  constexpr std::uint32_t kCount = 5000;
  EXPECT_OK(table_.ReserveFor(0));
  EXPECT_EQ(table_.resident_bytes(), 0u);
  EXPECT_OK(table_.ReserveFor(kCount));
  const std::uint64_t bytes = table_.resident_bytes();
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::string key = "key" + std::to_string(i);
    table_.Insert(KeyHash(key, 1), NewLine(key));
  }
  EXPECT_EQ(table_.resident_bytes(), bytes);
  EXPECT_EQ(table_.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::string key = "key" + std::to_string(i);
    std::uint32_t* const entry = table_.Find(KeyHash(key, 1), key);
    ASSERT_NE(entry, nullptr) << key;
    EXPECT_TRUE(lines_.KeyEquals(*entry, key));
  }
  Insert(KeyHash("one more", 1), "one more");
}

}  // namespace
}  // namespace ring::coordinator
