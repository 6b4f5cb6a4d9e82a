#include "memgest/log_tail.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memgest/entry_ring.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

// Pieces of entries with payloads of these sizes, index from 1.
std::vector<std::string> Encode(const std::vector<std::size_t>& sizes) {
  EntryRing ring;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EntryFields fields;
    fields.index = i + 1;
    fields.key = std::string(i * 100 % 1024 + 1, 'k');
    const std::string payload(sizes[i], static_cast<char>('a' + i));
    const std::string key(i * 100 % 1024 + 1, 'k');
    fields.key = key;
    ring.Append(fields, payload.data(), payload.size());
  }
  TailEncoder encoder;
  ring.MakeReader()->FindTail([&](const EntryView& entry) { encoder.Add(entry); });
  return encoder.Take();
}
absl::Status Decode(TailDecoder& decoder, const std::string& piece,
                    std::vector<std::size_t>* sizes) {
  return decoder.Add(piece, [sizes](const EntryView& entry) {
    EXPECT_EQ(entry.header.index, sizes->size() + 1);
    for (std::size_t i = 0; i < entry.header.payload_length; ++i) {
      EXPECT_EQ(entry.payload[i], static_cast<std::byte>('a' + sizes->size()));
    }
    sizes->push_back(entry.header.payload_length);
    return absl::OkStatus();
  });
}

TEST(LogTail, EntriesOfAllSizesGoThroughBoundedPieces) {
  const std::vector<std::size_t> sizes = {0, 1, 64 * 1024, 48 * 1024, 100, 64 * 1024, 64 * 1024, 7};
  const std::vector<std::string> pieces = Encode(sizes);
  ASSERT_GE(pieces.size(), 5u);
  TailDecoder decoder;
  std::vector<std::size_t> seen;
  for (const std::string& piece : pieces) {
    EXPECT_LE(piece.size(), kPieceSizeMax);
    EXPECT_FALSE(decoder.done());
    ASSERT_OK(Decode(decoder, piece, &seen));
    ASSERT_OK(Decode(decoder, piece, &seen)) << "once more";
  }
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(seen, sizes);
}

TEST(LogTail, NoEntriesAreOnePiece) {
  const std::vector<std::string> pieces = Encode({});
  ASSERT_EQ(pieces.size(), 1u);
  TailDecoder decoder;
  std::vector<std::size_t> seen;
  ASSERT_OK(Decode(decoder, pieces[0], &seen));
  EXPECT_TRUE(decoder.done());
}

TEST(LogTail, APieceThatIsMissingIsNotPassedOver) {
  const std::vector<std::string> pieces = Encode({64 * 1024, 64 * 1024, 64 * 1024});
  TailDecoder decoder;
  std::vector<std::size_t> seen;
  ASSERT_OK(Decode(decoder, pieces[0], &seen));
  EXPECT_THAT(Decode(decoder, pieces[2], &seen), StatusIs(kInvalidArgument));
  EXPECT_THAT(Decode(decoder, pieces[1], &seen), StatusIs(kInvalidArgument)) << "nothing more";
  EXPECT_FALSE(decoder.done());
}

TEST(LogTail, E4AnyFlippedBitIsRefusedAlsoWhenThePiecesCrcIsRight) {
  const std::string piece = Encode({100, 5})[0];
  for (std::size_t bit = 0; bit < piece.size() * 8; ++bit) {
    for (const bool repair : {false, true}) {
      if (repair && bit / 8 < 24) continue;  // the piece's own fields
      std::string wrong = piece;
      wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
      if (repair) {
        const std::uint32_t crc = Crc32c(wrong.data() + 8, wrong.size() - 8);
        std::memcpy(wrong.data() + 4, &crc, sizeof(crc));
      }
      TailDecoder decoder;
      std::vector<std::uint64_t> indices;
      const absl::Status status = decoder.Add(wrong, [&](const EntryView& entry) {
        indices.push_back(entry.header.index);
        return absl::OkStatus();
      });
      // Bytes between payload and trailer are nobody's.
      if (status.ok()) {
        EXPECT_TRUE(repair && indices.size() == 2) << "bit=" << bit;
        continue;
      }
      EXPECT_THAT(status, StatusIs(kInvalidArgument)) << "bit=" << bit;
    }
  }
}

TEST(LogTail, AnEntryThatIsRefusedEndsIt) {
  const std::vector<std::string> pieces = Encode({1, 2, 3});
  TailDecoder decoder;
  int shown = 0;
  const absl::Status status = decoder.Add(pieces[0], [&](const EntryView&) {
    return ++shown == 2 ? absl::DataLossError("no") : absl::OkStatus();
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(shown, 2);
  EXPECT_FALSE(decoder.done());
}

}  // namespace
}  // namespace ring::memgest
