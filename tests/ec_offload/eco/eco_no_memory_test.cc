// Every allocation of every call fails in turn: the call says so, and the coders go on working.
#include <cerrno>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/support/fail_each.h"

namespace ring::ec_offload {
namespace {

bool Made(const void* coder) { return coder != nullptr || errno != ENOMEM; }
bool Done(int error) { return error != -ENOMEM; }

TEST(EcoNoMemory, CodersAreMadeWholeOrNotAtAll) {
  eco_context* context = nullptr;
  FailEach([&] { return Made(context = mlx_eco_init(nullptr, 4, 2, 1, nullptr)); });
  eco_encoder* encoder = nullptr;
  FailEach([&] { return Made(encoder = mlx_eco_encoder_init(4, 2, 1)); });
  eco_decoder* decoder = nullptr;
  FailEach([&] { return Made(decoder = mlx_eco_decoder_init_w(4, 2, 0, 8)); });
  EXPECT_EQ(mlx_eco_release(context), 0);
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

TEST(EcoNoMemory, CallsAreDoneOrRefused) {
  SeededRandom random(33);
  EcoBlocks blocks(random, 4, 2, 100);
  eco_encoder* const encoder = mlx_eco_encoder_init(4, 2, 1);
  eco_decoder* const decoder = mlx_eco_decoder_init(4, 2, 1);
  FailEach([&] { return Done(blocks.Encode(encoder)); });
  const auto all = blocks.CopyAll();
  std::vector<int> erased = {1, 4};
  for (const int index : erased) blocks.Spoil(index);
  FailEach([&] { return Done(mlx_eco_decoder_generate_decode_matrix(decoder, erased.data(), 2)); },
           Leaves::kCaches);
  std::vector<int> others = {2, 5};
  FailEach(
      [&] {
        return Done(mlx_eco_decoder_decode(decoder, blocks.data.data(), blocks.coding.data(), 4, 2,
                                           100, erased.data(), 2)) &&
               Done(mlx_eco_decoder_decode(decoder, blocks.data.data(), blocks.coding.data(), 4, 2,
                                           100, others.data(), 2));
      },
      Leaves::kCaches);
  EXPECT_EQ(blocks.CopyAll(), all);
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

}  // namespace
}  // namespace ring::ec_offload
