#include "memgest/log_entry.h"

#include <cstring>
#include <string>
#include <vector>

#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/memgest/log_link.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr std::uint64_t kPosition = 64 * 1000;
constexpr std::uint32_t kPrevCrc = 0x1234567;
const Epoch kEpoch(9);

// One entry in memory of exactly its size, so that ASan sees any read beyond.
struct Image {
  AlignedBytes bytes;
  std::size_t size = 0;
  std::size_t head_size = 0;
  absl::Span<const std::byte> span() const { return absl::MakeConstSpan(bytes.get(), size); }
  EntryHeader* header() const { return reinterpret_cast<EntryHeader*>(bytes.get()); }
  std::byte* extension() const { return bytes.get() + kEntryHeaderSize; }
  void Seal() const {
    SealEntryHead(bytes.get(), head_size, kPosition, kPrevCrc, kPosition - 640, bytes.get());
  }
};

Image Build(EntryFields fields, absl::string_view payload) {
  Image image;
  fields.payload_length = static_cast<std::uint32_t>(payload.size());
  image.size = EntrySize(fields);
  image.bytes = AllocateAligned(image.size);
  image.head_size = BuildEntryHead(fields, kEpoch, image.bytes.get());
  image.Seal();
  if (fields.type == EntryType::kPad) return image;
  std::memcpy(image.bytes.get() + image.head_size, payload.data(), payload.size());
  EntryTrailer trailer;
  trailer.position = kPosition;
  trailer.payload_crc = Crc32c(payload.data(), payload.size());
  std::memcpy(image.bytes.get() + image.size - kEntryTrailerSize, &trailer, sizeof(trailer));
  return image;
}

absl::StatusOr<EntryView> Decode(const Image& image, bool check_payload = true) {
  return DecodeEntry(image.span(), kPosition, kEpoch, kPrevCrc, check_payload);
}

// Everything that an entry can carry.
EntryFields FullFields(absl::string_view key, absl::Span<const Range> ranges,
                       absl::Span<const CollectItem> collect) {
  EntryFields fields;
  fields.type = EntryType::kFinal;
  fields.memgest = MemgestId(3);
  fields.index = 77;
  fields.version = Version(kEpoch, 123456);
  fields.key = key;
  fields.line = 42;
  fields.size_class = 6;
  fields.offset_cells = 99;
  fields.value_length = 200000;
  fields.value_crc = 0xdeadbeef;
  fields.expiry_ns = 1234567890123;
  fields.flags = kExplicitMove;
  fields.ranges = ranges;
  fields.collect = collect;
  fields.client = {0x1111, 0x2222};
  fields.seq = 31;
  fields.incomplete_delta = 5;
  fields.request_crc = 0xfeed;
  fields.result_code = 4;
  return fields;
}

void ExpectSame(const EntryFields& fields, const EntryView& view, absl::string_view payload) {
  const EntryHeader& header = view.header;
  EXPECT_EQ(header.type, fields.type);
  EXPECT_EQ(header.memgest, fields.memgest.value());
  EXPECT_EQ(header.index, fields.index);
  EXPECT_EQ(header.version, fields.version.bits());
  EXPECT_EQ(header.line, fields.line);
  EXPECT_EQ(header.size_class, fields.size_class);
  EXPECT_EQ(header.offset_cells, fields.offset_cells);
  EXPECT_EQ(header.value_length, fields.value_length);
  EXPECT_EQ(header.value_crc, fields.value_crc);
  EXPECT_EQ(header.client, fields.client);
  EXPECT_EQ(header.seq, fields.seq);
  EXPECT_EQ(header.incomplete_delta, fields.incomplete_delta);
  EXPECT_EQ(header.request_crc, fields.request_crc);
  EXPECT_EQ(header.result_code, fields.result_code);
  EXPECT_EQ(header.flags & kExplicitMove, fields.flags);
  EXPECT_EQ(view.key, fields.key);
  EXPECT_EQ(view.expiry_ns, fields.expiry_ns);
  ASSERT_EQ(view.ranges.size(), fields.ranges.size());
  ASSERT_EQ(view.collect.size(), fields.collect.size());
  EXPECT_TRUE(view.ranges.empty() || std::memcmp(view.ranges.data(), fields.ranges.data(),
                                                 view.ranges.size() * sizeof(Range)) == 0);
  EXPECT_TRUE(view.collect.empty() || std::memcmp(view.collect.data(), fields.collect.data(),
                                                  view.collect.size() * sizeof(CollectItem)) == 0);
  EXPECT_EQ(absl::string_view(reinterpret_cast<const char*>(view.payload), header.payload_length),
            payload);
  EXPECT_EQ(view.size, EntrySize(fields) + AlignUp(payload.size(), 64));
}

TEST(LogEntry, RoundTripsEveryTypeAndShape) {
  SeededRandom random(ring::testing::SeedFor("entry round trip"));
  for (int round = 0; round < 2000; ++round) {
    std::vector<Range> ranges(random.Below(3) == 0 ? random.Below(kRangeCountMax + 1) : 0);
    for (Range& range : ranges) range.offset_cells = static_cast<std::uint32_t>(random.Next64());
    std::vector<CollectItem> collect(random.Below(kCollectCountMax + 1));
    for (CollectItem& item : collect) item.version = random.Next64();
    const std::string key(1 + random.Below(random.Below(2) == 0 ? 40 : kEntryKeySizeMax), 'k');
    const std::string payload(random.Below(round % 16 == 0 ? kPayloadSizeMax + 1 : 200), 'p');
    EntryFields fields = FullFields(key, ranges, collect);
    fields.type = static_cast<EntryType>(1 + random.Below(8));
    if (random.Below(2) == 0) fields.expiry_ns = 0;
    const Image image = Build(fields, payload);
    ASSERT_LE(image.head_size, kEntryHeadSizeMax);
    const auto view = Decode(image);
    ASSERT_OK(view);
    ExpectSame(fields, *view, payload);
    EXPECT_EQ(view->header.commit_delta, 10U);
  }
}

TEST(LogEntry, LargestHeadFits) {
  const std::vector<Range> ranges(kRangeCountMax);
  const std::vector<CollectItem> collect(kCollectCountMax);
  const std::string key(kEntryKeySizeMax, 'k');
  const Image image = Build(FullFields(key, ranges, collect), "");
  EXPECT_EQ(image.head_size, kEntryHeadSizeMax);
  ASSERT_OK(Decode(image));
}

TEST(LogEntry, PadCoversItsFillAndHasNoTrailer) {
  EntryFields fields;
  fields.type = EntryType::kPad;
  for (const std::uint32_t fill : {0U, 64U, 65536U, 200000U / 64 * 64}) {
    fields.payload_length = fill;
    Image image;
    image.size = EntrySize(fields);
    image.bytes = AllocateAligned(image.size);
    image.head_size = BuildEntryHead(fields, kEpoch, image.bytes.get());
    image.Seal();
    const auto view = Decode(image);
    ASSERT_OK(view);
    EXPECT_EQ(view->size, kEntryHeaderSize + fill);
  }
}

TEST(LogEntry, E4EverySingleBitFlipIsDetected) {
  const std::vector<Range> ranges(3, Range{1, 2});
  const std::vector<CollectItem> collect(2);
  const std::string payload = "a payload of 41 bytes, so not aligned....";
  for (const char* key : {"short", "a key that is longer than what the header holds"}) {
    const Image image = Build(FullFields(key, ranges, collect), payload);
    ASSERT_OK(Decode(image));
    const std::size_t covered = image.head_size + payload.size();
    for (std::size_t bit = 0; bit < image.size * 8; ++bit) {
      const bool padding = bit / 8 >= covered && bit / 8 < image.size - kEntryTrailerSize;
      image.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_EQ(Decode(image).ok(), padding) << "byte=" << bit / 8 << " bit=" << bit % 8;
      image.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(LogEntry, E4TruncatedBytesAreRefused) {
  const std::vector<CollectItem> collect(2);
  const Image image = Build(FullFields("key", {}, collect), std::string(100, 'p'));
  for (std::size_t size = 0; size < image.size; ++size) {
    const AlignedBytes part = AllocateAligned(size);
    std::memcpy(part.get(), image.bytes.get(), size);
    EXPECT_FALSE(
        DecodeEntry(absl::MakeConstSpan(part.get(), size), kPosition, kEpoch, kPrevCrc, true).ok())
        << "size=" << size;
  }
}

TEST(LogEntry, E4AnotherPlaceEpochOrChainIsRefused) {
  const Image image = Build(FullFields("key", {}, {}), "payload");
  const auto decode = [&](std::uint64_t position, Epoch epoch, std::uint32_t prev_crc) {
    return DecodeEntry(image.span(), position, epoch, prev_crc, true).status();
  };
  EXPECT_OK(decode(kPosition, kEpoch, kPrevCrc));
  // The same place of the next lap, and its neighbours.
  EXPECT_THAT(decode(kPosition + kRingSizeMin, kEpoch, kPrevCrc),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("position")));
  EXPECT_THAT(decode(kPosition - 64, kEpoch, kPrevCrc),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(decode(kPosition, Epoch(kEpoch.value() + 1), kPrevCrc),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epoch")));
  EXPECT_THAT(decode(kPosition, Epoch(kEpoch.value() - 1), kPrevCrc),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(decode(kPosition, kEpoch, kPrevCrc ^ 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prev_crc")));
}

TEST(LogEntry, E4PayloadIsSummedOnlyWhenAsked) {
  const Image image = Build(FullFields("key", {}, {}), "payload");
  image.bytes[image.head_size] ^= std::byte{1};
  EXPECT_OK(Decode(image, false));
  EXPECT_THAT(Decode(image),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("payload_crc")));
}

// Fields that are wrong although the CRCs are right: a coordinator of another version, or a bug.
TEST(LogEntry, RefusesWhatItDoesNotKnow) {
  const std::vector<Range> ranges(20, Range{1, 2});
  const std::vector<CollectItem> collect(2);
  struct Case {
    const char* field;
    void (*change)(Image&);
  };
  const Case cases[] = {
      {"reserved", [](Image& i) { i.header()->reserved = 1; }},
      {"type", [](Image& i) { i.header()->type = EntryType{0}; }},
      {"type", [](Image& i) { i.header()->type = EntryType{11}; }},
      {"flags", [](Image& i) { i.header()->flags |= 8; }},
      {"collect_count", [](Image& i) { i.header()->collect_count = 17; }},
      {"key_length", [](Image& i) { i.header()->key_length = 0; }},
      {"key_length", [](Image& i) { i.header()->key_length = 1025; }},
      {"index", [](Image& i) { i.header()->index = 0; }},
      {"payload_length", [](Image& i) { i.header()->payload_length = kPayloadSizeMax + 1; }},
      {"PAD", [](Image& i) { i.header()->type = EntryType::kPad; }},
      {"extension_cells", [](Image& i) { i.header()->flags &= 0xfd; }},
      {"extension_cells", [](Image& i) { i.header()->collect_count = 10; }},
      {"extension_cells", [](Image& i) { i.header()->key_length = 200; }},
      {"size", [](Image& i) { i.header()->extension_cells = 0xffff; }},
      {"expiry", [](Image& i) { std::memset(i.extension(), 0, 8); }},
      {"range_count", [](Image& i) { std::memset(i.extension() + 8, 0, 4); }},
      {"range_count", [](Image& i) { std::memset(i.extension() + 8, 0xff, 4); }},
      {"range_count", [](Image& i) { std::memset(i.extension() + 12, 1, 1); }},
      {"extension_cells", [](Image& i) { std::memset(i.extension() + 9, 1, 1); }},
      {"collect reserved", [](Image& i) { std::memset(i.extension() + 8 + 8 + 160 + 12, 1, 1); }},
  };
  for (const Case& c : cases) {
    Image image = Build(FullFields("a key of more than 24 bytes", ranges, collect), "payload");
    c.change(image);
    image.Seal();
    EXPECT_THAT(Decode(image), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.field)));
  }
  Image image = Build(FullFields("key", {}, {}), "payload");
  SealEntryHead(image.bytes.get(), image.head_size, kPosition, kPrevCrc, 0, image.bytes.get());
  EXPECT_OK(Decode(image));
  image.header()->commit_delta += 1;  // before the ring's start
  image.header()->header_crc = 0;
  image.header()->header_crc = Crc32c(image.bytes.get(), image.head_size);
  EXPECT_THAT(Decode(image),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("commit_delta")));
}

TEST(LogEntry, OnlySomeTypesNeedAKey) {
  for (int type = 1; type <= 8; ++type) {
    EntryFields fields = FullFields("k", {}, {});
    fields.type = static_cast<EntryType>(type);
    Image image = Build(fields, "");
    image.header()->key_length = 0;
    image.Seal();
    const bool needs = fields.type == EntryType::kPut || fields.type == EntryType::kFinal ||
                       fields.type == EntryType::kTombstone;
    EXPECT_EQ(Decode(image).ok(), !needs) << "type=" << type;
  }
}

TEST(LogEntry, NextEntryPositionSkipsWhatHoldsNoHeader) {
  EXPECT_EQ(NextEntryPosition(1000 * 64, 256, 0), 1000U * 64 + 256);
  EXPECT_EQ(NextEntryPosition(1000 * 64, 256, 64), 1000U * 64 + 256 + 64);
  EXPECT_EQ(NextEntryPosition(1000 * 64, 256, 128), 1000U * 64 + 256);
}

TEST(LogEntryDeathTest, BuilderRefusesWhatNoReaderTakes) {
  alignas(64) std::byte head[kEntryHeadSizeMax];
  EntryFields fields = FullFields("", {}, {});
  EXPECT_DEATH(BuildEntryHead(fields, kEpoch, head), "index=77");
  fields.key = "k";
  fields.index = 0;
  EXPECT_DEATH(BuildEntryHead(fields, kEpoch, head), "type=3");
}

}  // namespace
}  // namespace ring::memgest
