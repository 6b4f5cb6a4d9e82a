#include "ring/base/wire.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace ring {
namespace {

TEST(Wire, FieldsAreLittleEndianAndUnpadded) {
  ByteWriter out;
  out.Put(std::uint8_t{1});
  out.Put(std::uint32_t{0x05040302});
  out.PutString("ab");
  out.PutBytes("c");
  EXPECT_EQ(out.bytes(), std::string("\x01\x02\x03\x04\x05\x02\x00"
                                     "abc",
                                     10));

  ByteReader in(out.bytes());
  EXPECT_EQ(in.Get<std::uint8_t>(), 1);
  EXPECT_EQ(in.Get<std::uint32_t>(), 0x05040302u);
  EXPECT_EQ(in.GetString(), "ab");
  EXPECT_TRUE(in.ok());
  EXPECT_FALSE(in.finished());
  EXPECT_EQ(in.GetBytes(1), "c");
  EXPECT_TRUE(in.finished());
}

TEST(Wire, AReadPastTheEndFailsForGoodAndYieldsZeros) {
  ByteReader in(absl::string_view("\xff\xff\xff", 3));
  EXPECT_EQ(in.Get<std::uint32_t>(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.Get<std::uint8_t>(), 0);
  EXPECT_TRUE(in.GetBytes(1).empty());
  EXPECT_FALSE(in.ok());
  EXPECT_FALSE(in.finished());
}

TEST(Wire, AStringThatClaimsMoreThanThereIsFails) {
  ByteReader in(
      absl::string_view("\x05\x00"
                        "abcd",
                        6));
  EXPECT_TRUE(in.GetString().empty());
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace ring
