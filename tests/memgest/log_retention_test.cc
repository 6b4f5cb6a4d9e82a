#include "memgest/log_retention.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::memgest {
namespace {

EntryFields Fields(std::uint64_t index, absl::string_view key) {
  EntryFields fields;
  fields.index = index;
  fields.version = Version(Epoch(5), index);
  fields.key = key;
  fields.line = 1;
  return fields;
}

// Appends one entry; gives the bytes of its head.
std::string Keep(LogRetention& kept, std::uint64_t order, const EntryFields& fields,
                 absl::Span<const EntryPayload> payloads = {}) {
  std::byte* const at = kept.NextHead();
  const std::size_t size = BuildEntryHead(fields, Epoch(5), at);
  kept.Keep(order, size, payloads);
  return {reinterpret_cast<const char*>(at), size};
}

std::string HeadOf(const LogRetention& kept, std::uint64_t order) {
  const absl::Span<const std::byte> head = kept.Head(order);
  return {reinterpret_cast<const char*>(head.data()), head.size()};
}

TEST(LogRetention, KeepsHeadsByteForByteInAnyPatternOfReleases) {
  SeededRandom random(ring::testing::SeedFor("heads"));
  LogRetention kept;
  std::deque<std::string> model;
  std::uint64_t first = 1;
  std::uint64_t next = 1;
  std::uint64_t refused = 0;
  std::vector<Range> ranges(kRangeCountMax);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t dice = random.Next64() % 100;
    if (dice < 60 && next - first < LogRetention::kEntriesMax) {
      if (!kept.HasRoom()) {
        ++refused;
        continue;
      }
      const std::string key(1 + random.Next64() % kEntryKeySizeMax,
                            static_cast<char>('a' + i % 26));
      EntryFields fields = Fields(next, key);
      if (dice < 20) {
        fields.type = EntryType::kFinal;
        fields.ranges = absl::MakeConstSpan(ranges).first(1 + random.Next64() % kRangeCountMax);
      }
      model.push_back(Keep(kept, next++, fields));
    } else if (first < next) {
      const std::uint64_t count = 1 + random.Next64() % std::min<std::uint64_t>(next - first, 2);
      first += count;
      model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(count));
      kept.Release(first);
    }
    for (std::uint64_t order = first; order < next; order += 1 + random.Next64() % 16) {
      ASSERT_EQ(HeadOf(kept, order), model[order - first]) << "order=" << order << " step=" << i;
      ASSERT_EQ(kept.Index(order), order);
    }
  }
  EXPECT_GT(refused, 0u) << "the ring of heads was never full";
}

TEST(LogRetention, AQuietLogBuildsItsHeadsInTheSamePlace) {
  LogRetention kept;
  std::byte* const place = kept.NextHead();
  for (std::uint64_t order = 1; order <= 2000; ++order) {
    ASSERT_EQ(kept.NextHead(), place);
    Keep(kept, order, Fields(order, "k"));
    kept.Release(order + 1);
  }
}

TEST(LogRetention, EachMemberGetsItsOwnPayload) {
  LogRetention kept;
  std::byte bytes[3] = {};
  rdma::Sge sges[3];
  EntryPayload payloads[3];
  for (std::size_t i = 0; i < 3; ++i) {
    sges[i] = {&bytes[i], 1, static_cast<std::uint32_t>(i)};
    payloads[i].sges = absl::MakeConstSpan(&sges[i], 1);
    payloads[i].crc = static_cast<std::uint32_t>(10 + i);
  }
  EntryFields fields = Fields(1, "k");
  fields.payload_length = 1;
  Keep(kept, 1, fields, payloads);
  Keep(kept, 2, fields, absl::MakeConstSpan(payloads, 1));
  // S6: a BASE, withheld from all but the last.
  payloads[0] = payloads[1] = EntryPayload();
  payloads[0].withheld = payloads[1].withheld = true;
  fields.type = EntryType::kBase;
  fields.key = {};
  Keep(kept, 3, fields, payloads);
  for (std::size_t i = 0; i < 3; ++i) {
    const EntryPayload own = kept.Payload(1, i);
    ASSERT_EQ(own.sges.size(), 1u);
    EXPECT_EQ(own.sges[0].address, &bytes[i]);
    EXPECT_EQ(own.sges[0].lkey, i);
    EXPECT_EQ(own.crc, 10 + i);
    EXPECT_EQ(kept.Payload(2, i).sges[0].address, &bytes[0]);
    EXPECT_EQ(kept.Payload(3, i).sges.empty(), i != 2);
    EXPECT_EQ(kept.Payload(3, i).withheld, i != 2);
    EXPECT_EQ(kept.PayloadLength(3, i), i == 2 ? 1u : 0u);
  }
  EXPECT_EQ(kept.PayloadLength(1, 0), 1u);
  EXPECT_EQ(kept.PayloadBytes(1), 3u * 64);
  EXPECT_EQ(kept.PayloadBytes(3), 64u);
}

// What is sent again belongs to the new epoch; nothing else of it changes.
TEST(LogRetention, AHeadOfANewEpochDiffersInTheEpochAlone) {
  LogRetention kept;
  const std::string before = Keep(kept, 1, Fields(7, "key"));
  kept.Keep(2, 0, {});  // an entry that goes nowhere
  kept.SetEpoch(3, Epoch(6));
  std::string expected = before;
  const std::uint32_t epoch = 6;
  std::memcpy(expected.data() + offsetof(EntryHeader, epoch), &epoch, sizeof(epoch));
  EXPECT_EQ(HeadOf(kept, 1), expected);
  EXPECT_NE(before, expected);
}

}  // namespace
}  // namespace ring::memgest
