// The messages about blocks, whole and damaged.
#include "ring/recovery/block_message.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

const LogName kLog = {GroupId(4), ShardId(2), MemgestId(9)};
const FreezeRequest kFreeze = {kLog, Epoch(7), 11, 0x1234567890, true, 0xabcdef0123, 99};
const DecodeRequest kDecode = {kLog, Epoch(8), 12, 5555, true, 0x80001};

TEST(BlockMessageTest, ComesBackAsItWas) {
  EXPECT_THAT(DecodeFreezeRequest(Encode(kFreeze)), IsOkAndHolds(kFreeze));
  const FreezeAnswer frozen = {123456789012, 44, FrozenBytes::kLost};
  EXPECT_THAT(DecodeFreezeAnswer(Encode(frozen)), IsOkAndHolds(frozen));
  EXPECT_THAT(DecodeDecodeRequest(Encode(kDecode)), IsOkAndHolds(kDecode));
  const RowRequest row = {GroupId(1), MemgestId(2), Epoch(3), 4, 5, {6, 0, 7}};
  EXPECT_THAT(DecodeRowRequest(Encode(row)), IsOkAndHolds(row));
  const std::string bytes = Encode(DecodeAnswer{77, "block"});
  ASSERT_OK_AND_ASSIGN(const DecodeAnswer answer, DecodeDecodeAnswer(bytes));
  EXPECT_EQ(answer.last_touch, 77u);
  EXPECT_EQ(answer.bytes, "block");
}

TEST(BlockMessageTest, EveryCutAndEveryExtraByteIsRefused) {
  const auto refuses = [](const std::string& bytes, auto decode) {
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_THAT(decode(bytes.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(decode(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  };
  refuses(Encode(kFreeze), DecodeFreezeRequest);
  refuses(Encode(FreezeAnswer{1, 2, FrozenBytes::kZero}), DecodeFreezeAnswer);
  refuses(Encode(kDecode), DecodeDecodeRequest);
  EXPECT_THAT(DecodeDecodeAnswer("1234567"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeRowRequest(Encode(RowRequest()) + "1234567"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(BlockMessageTest, UnknownValuesOfAFieldAreRefused) {
  EXPECT_THAT(DecodeFreezeAnswer(Encode(FreezeAnswer{1, 2, static_cast<FrozenBytes>(3)})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::string decode = Encode(kDecode);
  decode[decode.size() - sizeof(kDecode.left_out) - 1] = 2;  // whether an operation waits
  EXPECT_THAT(DecodeDecodeRequest(decode), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::recovery
