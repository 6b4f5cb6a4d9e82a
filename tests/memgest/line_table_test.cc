#include "memgest/line_table.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "memgest/size_class.h"
#include "ring/base/random.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(LineTable, AGranuleTellsTheSlotOfEachOfItsLines) {
  TwinDevice device;
  LineTable lines(&device, 1024);
  ASSERT_OK_AND_ASSIGN(const std::uint32_t granule, lines.AddGranule(MemgestId(4), 3, 640));
  EXPECT_EQ(lines.granule(granule * 64 + 9).base_cells, 640u);
  EXPECT_EQ(lines.granule(granule * 64 + 9).size_class, 3);
  EXPECT_EQ(lines.granule(granule * 64 + 9).memgest, 4);
  // The member learns the same from an entry.
  LineTable member(&device, 1024);
  ASSERT_OK(member.EnsureLine(granule * 64 + 9, MemgestId(4), 3, 640 + 9 * 3));
  EXPECT_EQ(member.granule(granule * 64).base_cells, 640u);
}

TEST(LineTable, E5KeepsAReserveWithItsMemory) {
  TwinDevice device;
  LineTable lines(&device, 4 * 64);
  for (int i = 0; i < 3; ++i) ASSERT_OK(lines.AddGranule(MemgestId(1), 0, 0, 1).status());
  EXPECT_THAT(lines.AddGranule(MemgestId(1), 0, 0, 1), StatusIs(kExhausted));
  EXPECT_EQ(lines.granules_left(), 1u);
  device.fail_from = 0;
  EXPECT_OK(lines.AddGranule(MemgestId(1), 0, 0).status());
  EXPECT_THAT(lines.AddGranule(MemgestId(1), 0, 0), StatusIs(kExhausted));
}

TEST(LineTable, AMemberRefusesALineOfAnotherMemgestOrPastTheLimit) {
  TwinDevice device;
  LineTable lines(&device, 128);
  ASSERT_OK(lines.EnsureLine(1, MemgestId(1), 2, 2));
  lines.TakeLine(1);
  EXPECT_THAT(lines.EnsureLine(2, MemgestId(2), 2, 4), StatusIs(kInvalid));
  EXPECT_THAT(lines.EnsureLine(128, MemgestId(1), 2, 0), StatusIs(kInvalid));
  EXPECT_THAT(lines.EnsureLine(kNoLine, MemgestId(1), 2, 0), StatusIs(kInvalid));
  EXPECT_THAT(lines.EnsureLine(3, MemgestId(1), 105, 0), StatusIs(kInvalid));
  EXPECT_THAT(lines.EnsureLine(64 + 9, MemgestId(1), 2, 17), StatusIs(kInvalid));
}

TEST(LineTable, G2AGranuleIsReassignedOnlyWithoutTakenLines) {
  TwinDevice device;
  LineTable lines(&device, 128);
  ASSERT_OK(lines.EnsureLine(1, MemgestId(1), 2, 2));
  lines.TakeLine(1);
  EXPECT_THAT(lines.EnsureLine(3, MemgestId(1), 4, 100), StatusIs(kInvalid));
  EXPECT_FALSE(lines.DropLine(1));
  EXPECT_OK(lines.EnsureLine(3, MemgestId(1), 4, 100));
  EXPECT_EQ(lines.granule(3).base_cells, 100u - 12);
}

// G10: members remember the granules of a memgest that was deleted, a coordinator that took over
// does not.
TEST(LineTable, G10AMemberLetsAnEmptyGranuleGoToAnotherMemgest) {
  TwinDevice device;
  LineTable lines(&device, 128);
  ASSERT_OK(lines.EnsureLine(1, MemgestId(8), 16, 16));
  lines.TakeLine(1);
  EXPECT_THAT(lines.EnsureLine(3, MemgestId(7), 14, 1000), StatusIs(kInvalid));
  lines.DropLine(1);
  EXPECT_OK(lines.EnsureLine(3, MemgestId(7), 14, 1000));
  EXPECT_EQ(lines.granule(3).memgest, 7);
}

TEST(LineTable, G10GranulesOfADeletedMemgestAreAnybodys) {
  TwinDevice device;
  LineTable lines(&device, 64 * 4);
  for (const MemgestId memgest : {MemgestId(1), MemgestId(2), MemgestId(1), MemgestId(1)})
    ASSERT_OK(lines.AddGranule(memgest, 3, 640).status());
  lines.line(70).version = 7;
  const std::uint64_t bytes = lines.resident_bytes();
  lines.FreeGranules(MemgestId(1));
  EXPECT_EQ(lines.granules_left(), 3u);
  EXPECT_EQ(lines.resident_bytes(), bytes - 3 * 4096);
  EXPECT_FALSE(lines.Has(0));
  EXPECT_TRUE(lines.Has(64));
  EXPECT_EQ(lines.line(70).version, 7u);
  std::vector<std::uint32_t> added;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::uint32_t granule, lines.AddGranule(MemgestId(2), 0, 0));
    added.push_back(granule);
  }
  EXPECT_THAT(added, ::testing::ElementsAre(0, 2, 3));
  EXPECT_EQ(lines.granule(0).memgest, 2);
  EXPECT_THAT(lines.AddGranule(MemgestId(2), 0, 0), StatusIs(kExhausted));
}

TEST(LineTable, G10AHugePageGoesBackWhenNoneOfItsGranulesIsUsed) {
  constexpr std::uint32_t kPageLines = 1u << 15;
  TwinDevice device;
  LineTable lines(&device, 4 * kPageLines);
  for (std::uint32_t line = 0; line < 2 * kPageLines; line += 64) {
    const MemgestId memgest(line == kPageLines + 640 ? 2 : 1);
    ASSERT_OK(lines.EnsureLine(line, memgest, 0, 0));
  }
  lines.line(5).prev = 7;
  lines.line(kPageLines + 5).prev = 7;
  lines.FreeGranules(MemgestId(1));
  EXPECT_EQ(device.discarded, std::size_t{2} << 20);
  EXPECT_EQ(lines.line(5).prev, 0u);
  EXPECT_EQ(lines.line(kPageLines + 5).prev, 7u);
  lines.FreeGranules(MemgestId(2));
  EXPECT_EQ(device.discarded, std::size_t{4} << 20);
  device.fail_from = 0;  // E5: the memory stays the table's
  EXPECT_OK(lines.AddGranule(MemgestId(3), 0, 0, 2 * kPageLines / 64 - 1).status());
}

TEST(LineTable, SkipsGranulesThatAMemberLearntWhenItAddsItsOwn) {
  TwinDevice device;
  LineTable lines(&device, 64 * 8);
  ASSERT_OK(lines.EnsureLine(64 * 1, MemgestId(1), 2, 0));
  ASSERT_OK(lines.EnsureLine(64 * 3, MemgestId(1), 2, 900));
  std::vector<std::uint32_t> added;
  for (int i = 0; i < 6; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::uint32_t granule, lines.AddGranule(MemgestId(1), 0, 0));
    added.push_back(granule);
  }
  EXPECT_THAT(added, ::testing::ElementsAre(0, 2, 4, 5, 6, 7));
  EXPECT_THAT(lines.AddGranule(MemgestId(1), 0, 0), StatusIs(kExhausted));
}

TEST(LineTable, V8LongKeysCompareInFull) {
  TwinDevice device;
  LineTable lines(&device, 128);
  ASSERT_OK(lines.EnsureLine(0, MemgestId(1), 0, 0));
  for (const std::size_t size : {0, 1, 23, 24, 25, 64, 65, 1023, 1024}) {
    std::string key(size, 'k');
    lines.SetKey(0, key);
    EXPECT_EQ(lines.Key(0), key);
    EXPECT_TRUE(lines.KeyEquals(0, key));
    EXPECT_FALSE(lines.KeyEquals(0, key + "k"));
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      if (size == 0) break;
      std::string other = key;
      other[at] = '\0';
      EXPECT_FALSE(lines.KeyEquals(0, other)) << size << " " << at;
    }
  }
  lines.Clear(0);
  EXPECT_EQ(lines.Key(0), "");
  EXPECT_EQ(lines.line(0).prev, kNoLine);
}

TEST(LineTable, KeysAndRangesLiveAsLongAsTheirLine) {
  SeededRandom random(ring::testing::SeedFor("keys"));
  TwinDevice device;
  LineTable lines(&device, 256);
  for (std::uint32_t line = 0; line < 256; ++line) {
    ASSERT_OK(lines.EnsureLine(line, MemgestId(1), 0, 0));
  }
  std::map<std::uint32_t, std::pair<std::string, std::vector<Range>>> model;
  std::uint64_t bytes_early = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto line = static_cast<std::uint32_t>(random.Below(256));
    if (model.count(line) > 0) {
      const auto& [key, ranges] = model[line];
      ASSERT_TRUE(lines.KeyEquals(line, key));
      ASSERT_EQ(lines.Ranges(line).size(), ranges.size());
      lines.Clear(line);
      ASSERT_TRUE(lines.Ranges(line).empty());
      model.erase(line);
    } else {
      std::string key(1 + random.Below(1024), 'x');
      for (char& c : key) c = static_cast<char>(random.Next64());
      std::vector<Range> ranges(random.Below(3));
      lines.line(line).flags = kLive;
      lines.SetKey(line, key);
      if (!ranges.empty()) lines.SetRanges(line, ranges);
      model[line] = {key, ranges};
    }
    if (step == 10000) bytes_early = lines.resident_bytes();
  }
  EXPECT_LE(lines.resident_bytes(), bytes_early + bytes_early / 2) << "free lists do not reuse";
}

TEST(LineTable, AFailedAllocationHasNoEffect) {
  TwinDevice device;
  LineTable lines(&device, 1u << 17);
  device.fail_from = 0;
  EXPECT_THAT(lines.AddGranule(MemgestId(1), 1, 0), StatusIs(kExhausted));
  EXPECT_THAT(lines.EnsureLine(40000, MemgestId(1), 1, 5000), StatusIs(kExhausted));
  EXPECT_EQ(lines.granule_count(), 0u);
  EXPECT_FALSE(lines.Has(40000));
  device.fail_from = ~std::size_t{0};
  EXPECT_OK(lines.EnsureLine(40000, MemgestId(1), 1, 5000));
  EXPECT_EQ(device.huge_count, 1u);
  EXPECT_EQ(lines.line(40000).version, 0u);
}

}  // namespace
}  // namespace ring::memgest
