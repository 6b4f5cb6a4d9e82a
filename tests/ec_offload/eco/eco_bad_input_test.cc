// What the mlx_eco_* functions refuse, and that nothing is written then.
#include <cerrno>
#include <climits>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"

namespace ring::ec_offload {
namespace {

constexpr int kSize = 100;

class EcoBadInput : public ::testing::Test {
 protected:
  EcoBadInput() { EXPECT_EQ(blocks.Encode(encoder), 0); }
  ~EcoBadInput() override {
    EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
    EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
  }

  // What encode, decode and the three registers say to arguments that all of them check.
  std::vector<int> Results(std::uint8_t** data, std::uint8_t** coding, int k, int m, int size) {
    int erased = 0;
    return {mlx_eco_encoder_encode(encoder, data, coding, k, m, size),
            mlx_eco_decoder_decode(decoder, data, coding, k, m, size, &erased, 1),
            mlx_eco_decoder_decode(decoder, data, coding, k, m, size, nullptr, 0),
            mlx_eco_encoder_register(encoder, data, coding, k, m, size),
            mlx_eco_decoder_register(decoder, data, coding, k, m, size),
            mlx_eco_register(encoder->eco_ctx, data, coding, k, m, size)};
  }
  const std::vector<int> all_refuse = std::vector<int>(6, -1);

  SeededRandom random{61};
  EcoBlocks blocks{random, 4, 2, kSize};
  eco_encoder* encoder = mlx_eco_encoder_init(4, 2, 1);
  eco_decoder* decoder = mlx_eco_decoder_init(4, 2, 1);
};

TEST_F(EcoBadInput, CodesThatDoNotExistGiveNullAndEinval) {
  struct Code {
    int k, m, w;
  };
  for (const Code& code : {Code{0, 2, 4},
                           {2, 0, 4},
                           {-1, 2, 4},
                           {2, -1, 4},
                           {13, 4, 4},
                           {16, 1, 4},
                           {1, 16, 4},
                           {INT_MAX, INT_MAX, 4},
                           {INT_MIN, 1, 4},
                           {253, 4, 8},
                           {256, 1, 8},
                           {1, 256, 8},
                           {INT_MAX, 1, 8},
                           {4, 2, 0},
                           {4, 2, 1},
                           {4, 2, 2},
                           {4, 2, 3},
                           {4, 2, 16},
                           {4, 2, -8}}) {
    for (const int vandermonde : {0, 1}) {
      errno = 0;
      EXPECT_EQ(mlx_eco_encoder_init_w(code.k, code.m, vandermonde, code.w), nullptr);
      EXPECT_EQ(errno, EINVAL) << code.k << " " << code.m << " " << code.w;
      errno = 0;
      EXPECT_EQ(mlx_eco_decoder_init_w(code.k, code.m, vandermonde, code.w), nullptr);
      EXPECT_EQ(errno, EINVAL);
      errno = 0;
      EXPECT_EQ(mlx_eco_init_w(nullptr, code.k, code.m, vandermonde, nullptr, code.w), nullptr);
      EXPECT_EQ(errno, EINVAL);
    }
  }
  EXPECT_EQ(mlx_eco_encoder_init(13, 4, 1), nullptr);  // 17 blocks, w as published
  EXPECT_EQ(mlx_eco_decoder_init(13, 4, 0), nullptr);
  EXPECT_EQ(mlx_eco_init(nullptr, 13, 4, 0, nullptr), nullptr);
}

TEST_F(EcoBadInput, NullArraysAndBlocksAreRefused) {
  const auto before = blocks.CopyAll();
  EXPECT_EQ(Results(nullptr, blocks.coding.data(), 4, 2, kSize), all_refuse);
  EXPECT_EQ(Results(blocks.data.data(), nullptr, 4, 2, kSize), all_refuse);
  for (int index = 0; index < 6; ++index) {
    std::vector<std::uint8_t*> data = blocks.data, coding = blocks.coding;
    (index < 4 ? data[static_cast<std::size_t>(index)]
               : coding[static_cast<std::size_t>(index - 4)]) = nullptr;
    EXPECT_EQ(Results(data.data(), coding.data(), 4, 2, kSize), all_refuse) << index;
  }
  EXPECT_EQ(blocks.CopyAll(), before);
}

TEST_F(EcoBadInput, SizesThatAreNotTheCodesAreRefused) {
  const auto before = blocks.CopyAll();
  for (const int k : {3, 5, 0, -4, INT_MAX})
    EXPECT_EQ(Results(blocks.data.data(), blocks.coding.data(), k, 2, kSize), all_refuse);
  for (const int m : {1, 3, 0, -2, INT_MIN})
    EXPECT_EQ(Results(blocks.data.data(), blocks.coding.data(), 4, m, kSize), all_refuse);
  for (const int size : {0, -1, -64, INT_MIN})
    EXPECT_EQ(Results(blocks.data.data(), blocks.coding.data(), 4, 2, size), all_refuse);
  EXPECT_EQ(blocks.CopyAll(), before);
}

TEST_F(EcoBadInput, AWrittenBlockThatOverlapsAnotherIsRefused) {
  const auto before = blocks.CopyAll();
  std::vector<std::uint8_t> memory(2 * kSize);
  for (const std::size_t distance : {0U, 1U, 99U}) {
    EcoBlocks data_and_code = EcoBlocks(random, 4, 2, kSize);
    data_and_code.data[1] = memory.data();
    data_and_code.coding[0] = memory.data() + distance;
    EXPECT_EQ(data_and_code.Encode(encoder), -1) << distance;
    EXPECT_EQ(data_and_code.Decode(decoder, {1}), -1);
    EXPECT_EQ(data_and_code.Decode(decoder, {4}), -1);
    EXPECT_EQ(data_and_code.Decode(decoder, {0}), 0);
    EcoBlocks two_codes = EcoBlocks(random, 4, 2, kSize);
    two_codes.coding[0] = memory.data() + distance;
    two_codes.coding[1] = memory.data();
    EXPECT_EQ(two_codes.Encode(encoder), -1) << distance;
    EXPECT_EQ(two_codes.Decode(decoder, {5}), -1);
  }
  EcoBlocks touching = EcoBlocks(random, 4, 2, kSize);
  touching.coding[0] = memory.data();
  touching.coding[1] = memory.data() + kSize;
  EXPECT_EQ(touching.Encode(encoder), 0);
  EcoBlocks same_data = EcoBlocks(random, 4, 2, kSize);
  same_data.data[1] = same_data.data[0];
  EXPECT_EQ(same_data.Encode(encoder), 0);
  EXPECT_EQ(blocks.CopyAll(), before);
}

TEST_F(EcoBadInput, ErasuresThatCannotBeRepairedAreRefused) {
  const auto before = blocks.CopyAll();
  const auto refused = [&](std::vector<int> erasures) {
    return blocks.Decode(decoder, erasures) == -1 &&
           mlx_eco_decoder_generate_decode_matrix(decoder, erasures.data(),
                                                  static_cast<int>(erasures.size())) == -1;
  };
  EXPECT_TRUE(refused({0, 1, 2}));
  EXPECT_TRUE(refused({0, 1, 2, 3, 4, 5, 0, 1, 2, 3}));
  EXPECT_TRUE(refused({6}));
  EXPECT_TRUE(refused({0, 6}));
  EXPECT_TRUE(refused({-1}));
  EXPECT_TRUE(refused({0, -1}));
  EXPECT_TRUE(refused({INT_MAX}));
  EXPECT_TRUE(refused({INT_MIN}));
  EXPECT_TRUE(refused({1, 1}));
  EXPECT_TRUE(refused({1, 0, 0, 0, 0, 0})) << "a byte map";
  int erased = 1;
  EXPECT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, &erased, -1), -1);
  EXPECT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, nullptr, 1), -1);
  EXPECT_EQ(mlx_eco_decoder_decode(decoder, blocks.data.data(), blocks.coding.data(), 4, 2, kSize,
                                   nullptr, 1),
            -1);
  EXPECT_EQ(mlx_eco_decoder_decode(decoder, blocks.data.data(), blocks.coding.data(), 4, 2, kSize,
                                   &erased, -1),
            -1);
  EXPECT_EQ(blocks.CopyAll(), before);
  blocks.Spoil(1);
  EXPECT_EQ(blocks.Decode(decoder, {1}), 0) << "what was refused leaves the decoder as it was";
  EXPECT_EQ(blocks.CopyAll(), before);
}

TEST_F(EcoBadInput, NoErasuresReturnAtOnce) {
  const auto before = blocks.CopyAll();
  EXPECT_EQ(blocks.Decode(decoder, {}), 0);
  EXPECT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, nullptr, 0), 0);
  EXPECT_EQ(blocks.CopyAll(), before);
}

TEST_F(EcoBadInput, PointersThatAreNoCoderOrOfAnotherKindAreRefused) {
  std::uint8_t** const data = blocks.data.data();
  std::uint8_t** const coding = blocks.coding.data();
  int erased = 0;
  eco_encoder stranger{};
  eco_encoder* const encoders[] = {nullptr, &stranger, reinterpret_cast<eco_encoder*>(decoder),
                                   reinterpret_cast<eco_encoder*>(encoder->eco_ctx)};
  for (eco_encoder* bad : encoders) {
    EXPECT_EQ(mlx_eco_encoder_encode(bad, data, coding, 4, 2, kSize), -1);
    EXPECT_EQ(mlx_eco_encoder_register(bad, data, coding, 4, 2, kSize), -1);
    EXPECT_EQ(mlx_eco_encoder_release(bad), -1);
  }
  for (eco_decoder* bad :
       {static_cast<eco_decoder*>(nullptr), reinterpret_cast<eco_decoder*>(encoder)}) {
    EXPECT_EQ(mlx_eco_decoder_decode(bad, data, coding, 4, 2, kSize, &erased, 1), -1);
    EXPECT_EQ(mlx_eco_decoder_generate_decode_matrix(bad, &erased, 1), -1);
    EXPECT_EQ(mlx_eco_decoder_register(bad, data, coding, 4, 2, kSize), -1);
    EXPECT_EQ(mlx_eco_decoder_release(bad), -1);
  }
  EXPECT_EQ(mlx_eco_register(nullptr, data, coding, 4, 2, kSize), -1);
  EXPECT_EQ(mlx_eco_release(nullptr), -1);
  EXPECT_EQ(mlx_eco_release(encoder->eco_ctx), -1) << "it goes with its encoder";
}

// Members of the public struct are the program's to write.
TEST_F(EcoBadInput, SizesAreThoseOfTheCodeWhateverAttrSays) {
  EcoBlocks own(random, 4, 2, 100);
  std::vector<std::uint8_t*> data = own.data;
  data.resize(400, data[0]);
  eco_encoder* const own_encoder = mlx_eco_encoder_init(4, 2, 1);
  own_encoder->eco_ctx->attr.k = 400;
  own_encoder->eco_ctx->attr.m = 1;
  EXPECT_EQ(mlx_eco_encoder_register(own_encoder, data.data(), own.coding.data(), 400, 1, 100), -1);
  EXPECT_EQ(mlx_eco_encoder_encode(own_encoder, data.data(), own.coding.data(), 400, 1, 100), -1);
  EXPECT_EQ(own.Encode(own_encoder), 0);
  EXPECT_EQ(mlx_eco_encoder_release(own_encoder), 0);
}

}  // namespace
}  // namespace ring::ec_offload
