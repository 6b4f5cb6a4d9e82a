// Coders that were released, or are while another thread uses them.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/support/await.h"

namespace ring::ec_offload {
namespace {

TEST(EcoLifetime, AReleasedCoderRefusesEveryCall) {
  SeededRandom random(71);
  EcoBlocks blocks(random, 4, 2, 100);
  std::uint8_t** const data = blocks.data.data();
  std::uint8_t** const coding = blocks.coding.data();
  int erased = 1;
  eco_encoder* const encoder = mlx_eco_encoder_init(4, 2, 1);
  eco_context* const context = encoder->eco_ctx;
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_encoder_release(encoder), -1);
  EXPECT_EQ(blocks.Encode(encoder), -1);
  EXPECT_EQ(mlx_eco_encoder_register(encoder, data, coding, 4, 2, 100), -1);
  EXPECT_EQ(mlx_eco_register(context, data, coding, 4, 2, 100), -1);
  EXPECT_EQ(mlx_eco_release(context), -1);
  eco_decoder* const decoder = mlx_eco_decoder_init(4, 2, 1);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), -1);
  EXPECT_EQ(blocks.Decode(decoder, {1}), -1);
  EXPECT_EQ(blocks.Decode(decoder, {}), -1);
  EXPECT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, &erased, 1), -1);
  EXPECT_EQ(mlx_eco_decoder_register(decoder, data, coding, 4, 2, 100), -1);
  eco_context* const own = mlx_eco_init(nullptr, 4, 2, 0, nullptr);
  EXPECT_EQ(mlx_eco_release(own), 0);
  EXPECT_EQ(mlx_eco_release(own), -1);
  EXPECT_EQ(mlx_eco_register(own, data, coding, 4, 2, 100), -1);
}

// The blocks may be freed when release has returned: AddressSanitizer and ThreadSanitizer see a
// call that is still in flight then.
TEST(EcoLifetime, ReleaseWaitsForTheCallInFlight) {
  SeededRandom random(72);
  for (int round = 0; round < 30; ++round) {
    eco_encoder* const encoder = mlx_eco_encoder_init(6, 3, 1);
    eco_decoder* const decoder = mlx_eco_decoder_init(6, 3, 1);
    std::vector<std::unique_ptr<EcoBlocks>> stripes;
    for (int i = 0; i < 2; ++i) stripes.push_back(std::make_unique<EcoBlocks>(random, 6, 3, 20000));
    std::atomic<int> running{0};
    std::thread encodes([&] {
      while (stripes[0]->Encode(encoder) == 0) running.fetch_or(1);
    });
    std::thread decodes([&] {
      while (stripes[1]->Decode(decoder, {0, 7}) == 0) running.fetch_or(2);
    });
    testing::Await("both threads", [&] { return running.load() == 3; });
    std::vector<std::uint8_t*> data = stripes[0]->data;
    EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
    EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
    // Written here while a call that went on would read it.
    for (std::uint8_t* block : data) block[0] = 1;
    stripes[1]->Spoil(3);
    encodes.join();
    decodes.join();
  }
}

TEST(EcoLifetime, CodersOfSeveralThreadsComeAndGoInParallel) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed, &good] {
      SeededRandom random(seed);
      for (int round = 0; round < 20; ++round) {
        eco_encoder* const encoder = mlx_eco_encoder_init_w(5, 3, round % 2, 8);
        eco_decoder* const decoder = mlx_eco_decoder_init_w(5, 3, round % 2, 8);
        EcoBlocks blocks(random, 5, 3, 1000);
        bool right = blocks.Encode(encoder) == 0;
        const auto all = blocks.CopyAll();
        blocks.Spoil(2);
        blocks.Spoil(6);
        right = right && blocks.Decode(decoder, {2, 6}) == 0 && blocks.CopyAll() == all;
        right = mlx_eco_encoder_release(encoder) == 0 && right;
        right = mlx_eco_decoder_release(decoder) == 0 && right;
        good += right ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 80);
}

TEST(EcoLifetime, ThreadsThatShareACoderTakeTurns) {
  eco_encoder* const encoder = mlx_eco_encoder_init(5, 3, 1);
  eco_decoder* const decoder = mlx_eco_decoder_init(5, 3, 1);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      SeededRandom random(seed);
      EcoBlocks blocks(random, 5, 3, 1000);
      bool right = blocks.Encode(encoder) == 0;
      const auto all = blocks.CopyAll();
      for (int round = 0; round < 50; ++round) {
        const std::vector<int> erased = RandomIndices(random, 3, 8);
        for (const int index : erased) blocks.Spoil(index);
        right = right && blocks.Decode(decoder, erased) == 0 && blocks.CopyAll() == all;
      }
      good += right ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 4);
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

}  // namespace
}  // namespace ring::ec_offload
