#include "srs/parameters.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ring::srs {
namespace {

using ::testing::HasSubstr;

TEST(Parameters, AcceptsEveryCodeWithinTheLimitsS9) {
  for (std::uint32_t s = 2; s <= 16; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 1; m <= 4; ++m) {
        const SrsParameters parameters{k, m, s, kBlockSizeDefault};
        EXPECT_TRUE(Validate(parameters).ok()) << ToString(parameters);
        EXPECT_LE(parameters.stripe_block_count(), kStripeBlockCountMax);
      }
    }
  }
}

TEST(Parameters, RefusalNamesTheLimit) {
  const auto message = [](std::uint32_t k, std::uint32_t m, std::uint32_t s,
                          std::uint64_t block_size) {
    const absl::Status status = Validate({k, m, s, block_size});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(1, 1, 3, 4096), HasSubstr("k=1 must be 2 to s=3"));
  EXPECT_THAT(message(4, 1, 3, 4096), HasSubstr("k=4"));
  EXPECT_THAT(message(2, 0, 3, 4096), HasSubstr("m=0 must be 1 to 4"));
  EXPECT_THAT(message(2, 5, 3, 4096), HasSubstr("m=5"));
  EXPECT_THAT(message(2, 1, 17, 4096), HasSubstr("s=17"));
  EXPECT_THAT(message(0, 0, 0, 0), HasSubstr("s=0"));
  EXPECT_THAT(message(2, 1, 3, 2048), HasSubstr("block_size=2048"));
  EXPECT_THAT(message(2, 1, 3, 4097), HasSubstr("block_size=4097"));
  EXPECT_THAT(message(2, 1, 3, 0), HasSubstr("SRS(2,1,3): block_size=0"));
  EXPECT_THAT(message(2, 1, 3, std::uint64_t{1} << 31), HasSubstr("power of two"));
}

}  // namespace
}  // namespace ring::srs
