// The members of the public structs, for programs that look at them.
#include <algorithm>
#include <vector>

#include "ec_offload/coding_matrix.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/support/allocation_counter.h"

namespace ring::ec_offload {
namespace {

void Done(ibv_exp_ec_comp*) {}

TEST(EcoStructs, AContextSaysItsCodeWithTheMatrixInBothForms) {
  int coder = 0;
  eco_context* const context = mlx_eco_init(&coder, 5, 3, 1, Done);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(context->attr.k, 5);
  EXPECT_EQ(context->attr.m, 3);
  EXPECT_EQ(context->attr.w, 4);
  EXPECT_EQ(context->attr.max_data_sge, 5);
  EXPECT_EQ(context->attr.max_code_sge, 3);
  EXPECT_EQ(context->attr.max_inflight_calcs, 2U);
  const Matrix coding = *VandermondeCoding(Field::kGf16, 5, 3);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(context->int_encode_matrix[j * 5 + i], coding.At(j, i));
      EXPECT_EQ(context->attr.encode_matrix[i * 3 + j], coding.At(j, i));
    }
  }
  EXPECT_EQ(context->alignment_comp.eco_coder, &coder);
  EXPECT_EQ(context->alignment_comp.comp.done, Done);
  EXPECT_EQ(context->alignment_comp.is_remainder_comp, 0);
  EXPECT_EQ(context->remainder_comp.eco_coder, &coder);
  EXPECT_EQ(context->remainder_comp.comp.done, Done);
  EXPECT_EQ(context->remainder_comp.is_remainder_comp, 1);
  EXPECT_EQ(context->mrs_list.next, &context->mrs_list);
  EXPECT_EQ(mlx_eco_release(context), 0);
}

TEST(EcoStructs, RegisteredBlocksAreLaidOutInWhole64Bytes) {
  SeededRandom random(81);
  eco_context* const context = mlx_eco_init(nullptr, 4, 2, 0, Done);
  for (const int size : {1, 63, 64, 100, 128, 1000}) {
    EcoBlocks blocks(random, 4, 2, size);
    ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 4, 2, size), 0);
    const ibv_exp_ec_mem& mem = context->alignment_mem;
    EXPECT_EQ(context->block_size, size);
    EXPECT_EQ(mem.block_size, size / 64 * 64);
    ASSERT_EQ(mem.num_data_sge, 4);
    ASSERT_EQ(mem.num_code_sge, 2);
    for (int i = 0; i < 6; ++i) {
      const ibv_sge& sge = i < 4 ? mem.data_blocks[i] : mem.code_blocks[i - 4];
      EXPECT_EQ(sge.addr, reinterpret_cast<std::uintptr_t>(blocks.Block(i)));
      EXPECT_EQ(sge.length, static_cast<std::uint32_t>(size / 64 * 64));
    }
  }
  EXPECT_EQ(mlx_eco_release(context), 0);
}

TEST(EcoStructs, ADecoderShowsTheMatrixAndMapsOfTheLatestErasures) {
  eco_decoder* const decoder = mlx_eco_decoder_init_w(4, 2, 0, 8);
  const Matrix coding = *CauchyCoding(Field::kGf256, 4, 2);
  const std::vector<std::vector<int>> sets = {{5, 1}, {0}, {2, 3}, {1, 5}};
  for (std::vector<int> set : sets) {
    ASSERT_EQ(
        mlx_eco_decoder_generate_decode_matrix(decoder, set.data(), static_cast<int>(set.size())),
        0);
    std::vector<std::size_t> erased(set.begin(), set.end());
    std::sort(erased.begin(), erased.end());
    const DecodePlan plan = *PlanDecoding(Field::kGf256, coding, erased);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t o = 0; o < erased.size(); ++o)
        EXPECT_EQ(decoder->u8_decode_matrix[i * erased.size() + o], plan.decode.At(o, i));
      for (std::size_t c = 0; c < 4; ++c)
        EXPECT_EQ(decoder->int_decode_matrix[i * 4 + c], plan.inverse.At(i, c));
    }
    for (std::size_t block = 0; block < 6; ++block) {
      const bool is_erased = std::binary_search(erased.begin(), erased.end(), block);
      EXPECT_EQ(decoder->int_erasures[block], is_erased);
      EXPECT_EQ(decoder->u8_erasures[block], is_erased);
      EXPECT_EQ(decoder->survived[block], !is_erased);
    }
  }
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

TEST(EcoStructs, MoreSetsOfErasuresThanTheCacheHoldsAreAllDecoded) {
  SeededRandom random(82);
  eco_encoder* const encoder = mlx_eco_encoder_init(10, 4, 1);
  eco_decoder* const decoder = mlx_eco_decoder_init(10, 4, 1);
  EcoBlocks blocks(random, 10, 4, 70);
  ASSERT_EQ(blocks.Encode(encoder), 0);
  const auto all = blocks.CopyAll();
  for (int round = 0; round < 2; ++round) {
    for (int a = 0; a < 14; ++a) {
      for (int b = a + 1; b < 14; ++b) {
        blocks.Spoil(a);
        blocks.Spoil(b);
        ASSERT_EQ(blocks.Decode(decoder, {b, a}), 0);
        ASSERT_EQ(blocks.CopyAll(), all);
      }
    }
  }
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

TEST(EcoStructs, ASetOfErasuresThatWasDecodedBeforeIsNotPlannedAgain) {
  SeededRandom random(83);
  eco_encoder* const encoder = mlx_eco_encoder_init(6, 3, 1);
  eco_decoder* const decoder = mlx_eco_decoder_init(6, 3, 1);
  EcoBlocks blocks(random, 6, 3, 4096);
  ASSERT_EQ(blocks.Encode(encoder), 0);
  int erasures[] = {1, 4, 7};
  int others[] = {0, 2, 8};
  const auto allocations_of_a_decode = [&](int* erased) {
    const std::uint64_t before = AllocationCount();
    EXPECT_EQ(mlx_eco_decoder_decode(decoder, blocks.data.data(), blocks.coding.data(), 6, 3, 4096,
                                     erased, 3),
              0);
    return AllocationCount() - before;
  };
  EXPECT_GT(allocations_of_a_decode(erasures), 0u);
  EXPECT_GT(allocations_of_a_decode(others), 0u);
  EXPECT_EQ(allocations_of_a_decode(erasures), 0u);
  EXPECT_EQ(allocations_of_a_decode(others), 0u);
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

}  // namespace
}  // namespace ring::ec_offload
