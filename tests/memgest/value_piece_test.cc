// Parts of a value that lies in several runs of memory.
#include "memgest/value_piece.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ring::memgest {
namespace {

ValuePiece Read(const std::vector<std::string>& runs, std::uint64_t first, std::size_t size) {
  std::uint32_t length = 0;
  for (const std::string& run : runs) length += static_cast<std::uint32_t>(run.size());
  PieceReader reader(length, first, size);
  for (const std::string& run : runs)
    reader.Add(reinterpret_cast<const std::byte*>(run.data()), run.size());
  return reader.Take();
}

TEST(ValuePiece, EveryPieceOfEverySizeIsTheValuesAtItsPlace) {
  const std::vector<std::string> runs = {"abc", "d", "", "efghij", "klmnopq"};
  const std::string value = "abcdefghijklmnopq";
  for (std::size_t size = 1; size <= value.size() + 2; ++size) {
    for (std::size_t first = 0; first < value.size(); ++first) {
      const ValuePiece piece = Read(runs, first, size);
      EXPECT_EQ(piece.bytes, value.substr(first, size)) << first << " " << size;
      EXPECT_EQ(piece.value_length, value.size());
    }
  }
}

TEST(ValuePiece, BehindTheEndIsNothing) {
  EXPECT_EQ(Read({"abc"}, 3, 4).bytes, "");
  EXPECT_EQ(Read({"abc"}, std::uint64_t{1} << 40, 4).bytes, "");
  EXPECT_EQ(Read({}, 0, 4).bytes, "");
  EXPECT_EQ(Read({}, 0, 4).value_length, 0u);
}

}  // namespace
}  // namespace ring::memgest
