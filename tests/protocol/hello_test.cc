#include "ring/protocol/hello.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ring/protocol/limits.h"
#include "tests/support/status_matchers.h"

namespace ring::protocol {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr std::size_t kPrivateDataSizeMax = 256;  // rdma/fabric.h, which this floor does not see

ClientHello GoodClientHello() {
  ClientHello hello;
  hello.client_high = 0x0123456789abcdef;
  hello.client_low = 42;
  hello.reply_slot_count = 16;
  hello.replies = {0x7f0000000000, 16 * kReplySlotSize, 9, 0};
  return hello;
}

template <class T>
class HelloOfKind : public ::testing::Test {};
using Hellos =
    ::testing::Types<LogHello, LogAccept, ControlHello, ControlAccept, WordHello, WordAccept>;
TYPED_TEST_SUITE(HelloOfKind, Hellos);

TYPED_TEST(HelloOfKind, ComesBackAsItWasAndFitsThePrivateData) {
  TypeParam hello;
  hello.incarnation = 0x1122334455667788;  // L8
  const std::string bytes = EncodeHello(hello);
  EXPECT_LE(bytes.size(), kPrivateDataSizeMax);
  ASSERT_OK_AND_ASSIGN(const TypeParam back, DecodeHello<TypeParam>(bytes));
  EXPECT_EQ(std::memcmp(&back, &hello, sizeof(hello)), 0);
}

TYPED_TEST(HelloOfKind, EveryOtherLengthIsRefused) {
  const std::string bytes = EncodeHello(TypeParam{}) + "x";
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const bool exact = length == bytes.size() - 1;
    EXPECT_EQ(DecodeHello<TypeParam>(bytes.substr(0, length)).ok(), exact) << length;
  }
}

TEST(Hello, ClientHelloAndAcceptComeBackAsTheyWere) {
  ASSERT_OK_AND_ASSIGN(const ClientHello hello,
                       DecodeHello<ClientHello>(EncodeHello(GoodClientHello())));
  EXPECT_EQ(hello.client_high, 0x0123456789abcdefu);
  EXPECT_EQ(hello.replies.rkey, 9u);
  ClientAccept accept;
  accept.requests = {4096, kRequestRingSize, 3, 0};
  accept.value_size_max = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const ClientAccept back, DecodeHello<ClientAccept>(EncodeHello(accept)));
  EXPECT_EQ(back.value_size_max, 1u << 20);
}

TEST(Hello, WrongMagicVersionAndKindAreNamed) {
  ClientHello hello = GoodClientHello();
  hello.prefix.magic = 0x50545448;
  EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)), StatusIs(kInvalid, HasSubstr("magic")));
  hello = GoodClientHello();
  hello.prefix.version = kProtocolVersion + 1;
  EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)),
              StatusIs(kInvalid, HasSubstr(absl::StrCat("version=", kProtocolVersion + 1))));
  hello = GoodClientHello();
  hello.prefix.kind = static_cast<HelloKind>(9);
  EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)),
              StatusIs(kInvalid, HasSubstr("kind=9")));
  EXPECT_THAT(DecodeHello<LogHello>(EncodeHello(GoodClientHello())),
              StatusIs(kInvalid, HasSubstr("kind=1, expected 2")));
}

TEST(Hello, PeekTellsTheKindOfAWholePrefixOnly) {
  const std::string bytes = EncodeHello(ControlHello{});
  EXPECT_THAT(PeekHello(bytes), ::ring::testing::IsOkAndHolds(HelloKind::kControl));
  EXPECT_THAT(PeekHello(bytes.substr(0, sizeof(HelloPrefix) - 1)), StatusIs(kInvalid));
  EXPECT_THAT(PeekHello(""), StatusIs(kInvalid));
}

TEST(Hello, ReplySlotsMustBeCountedAndFitTheBuffer) {
  for (const std::uint32_t count : {0u, 1025u, 0x80000000u, 0xffffffffu}) {
    ClientHello hello = GoodClientHello();
    hello.reply_slot_count = count;
    EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)),
                StatusIs(kInvalid, HasSubstr("reply_slot_count")));
  }
  ClientHello hello = GoodClientHello();
  hello.replies.length -= 1;
  EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)),
              StatusIs(kInvalid, HasSubstr("replies.length")));
  hello = GoodClientHello();
  hello.replies.address = ~std::uint64_t{0} - 100;
  EXPECT_THAT(DecodeHello<ClientHello>(EncodeHello(hello)),
              StatusIs(kInvalid, HasSubstr("wraps around")));
}

TEST(Hello, ARequestRingThatIsTooShortIsRefused) {
  ClientAccept accept;
  accept.requests = {4096, kRequestRingSize - 1, 3, 0};
  EXPECT_THAT(DecodeHello<ClientAccept>(EncodeHello(accept)),
              StatusIs(kInvalid, HasSubstr("requests.length")));
}

}  // namespace
}  // namespace ring::protocol
