// A program that submits verbs on the context of mlx_eco_init, as the published library's own
// coders did: the shared libraries together, without a device.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "ring/base/sync.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/support/await.h"

namespace ring::ec_offload {
namespace {

// The coder of such a program: what comp_done_func finds through eco_coder.
struct OwnCoder {
  Mutex mutex;
  CondVar changed;
  int completions = 0;
  std::thread::id thread;

  void AwaitCompletions(int count) {
    const MutexLock lock(mutex);
    while (completions < count) changed.Wait(mutex);
  }
};

void Done(ibv_exp_ec_comp* comp) {
  auto* const coder_comp = reinterpret_cast<eco_coder_comp*>(comp);
  auto* const coder = static_cast<OwnCoder*>(coder_comp->eco_coder);
  const MutexLock lock(coder->mutex);
  ++coder->completions;
  coder->thread = std::this_thread::get_id();
  coder->changed.NotifyAll();
}

TEST(EcoVerbs, AContextsCalculatorEncodesAndDecodesWhatWasRegistered) {
  for (const int w : {4, 8}) {
    SeededRandom random(95);
    OwnCoder coder;
    eco_context* const context = mlx_eco_init_w(&coder, 6, 3, 1, Done, w);
    ASSERT_NE(context, nullptr);
    ASSERT_NE(context->calc, nullptr);
    eco_encoder* const encoder = mlx_eco_encoder_init_w(6, 3, 1, w);
    eco_decoder* const decoder = mlx_eco_decoder_init_w(6, 3, 1, w);
    EXPECT_EQ(encoder->eco_ctx->calc, nullptr);
    EcoBlocks blocks(random, 6, 3, 640);
    ASSERT_EQ(blocks.Encode(encoder), 0);
    const auto all = blocks.CopyAll();
    for (int index : {6, 7, 8}) blocks.Spoil(index);
    ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 6, 3, 640), 0);
    {
      // As the published encoder does: submitting under the mutex that done() takes.
      const MutexLock lock(coder.mutex);
      ASSERT_EQ(ibv_exp_ec_encode_async(context->calc, &context->alignment_mem,
                                        &context->alignment_comp.comp),
                0);
    }
    coder.AwaitCompletions(1);
    EXPECT_EQ(context->alignment_comp.comp.status, IBV_EXP_EC_CALC_SUCCESS);
    EXPECT_EQ(blocks.CopyAll(), all);
    EXPECT_NE(coder.thread, std::this_thread::get_id());

    std::vector<int> erased = {1, 4, 8};
    for (const int index : erased) blocks.Spoil(index);
    ASSERT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, erased.data(), 3), 0);
    ASSERT_EQ(ibv_exp_ec_decode_async(context->calc, &context->alignment_mem, decoder->u8_erasures,
                                      decoder->u8_decode_matrix, &context->alignment_comp.comp),
              0);
    coder.AwaitCompletions(2);
    EXPECT_EQ(blocks.CopyAll(), all);
    EXPECT_EQ(mlx_eco_release(context), 0);
    EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
    EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
  }
}

// Calls call(mem, comp) for the whole 64 bytes of the blocks, where there are any, and for the
// rest, which is copied into remainder_buffers before and back when both are complete.
template <class Call>
void RunInTwoParts(OwnCoder& coder, eco_context* context, const EcoBlocks& blocks,
                   const Call& call) {
  const auto whole = static_cast<std::size_t>(context->alignment_mem.block_size);
  const auto rest = static_cast<std::size_t>(context->block_size) - whole;
  const auto block_count = static_cast<std::size_t>(blocks.k() + blocks.m());
  for (std::size_t i = 0; i < block_count; ++i) {
    std::memcpy(context->remainder_buffers + i * 64, blocks.Block(static_cast<int>(i)) + whole,
                rest);
  }
  int awaited = 0;
  {
    const MutexLock lock(coder.mutex);
    awaited = coder.completions;
  }
  if (whole != 0) {
    ASSERT_EQ(call(&context->alignment_mem, &context->alignment_comp.comp), 0);
    ++awaited;
  }
  ASSERT_EQ(call(&context->remainder_mem, &context->remainder_comp.comp), 0);
  coder.AwaitCompletions(awaited + 1);
  EXPECT_EQ(context->alignment_comp.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  EXPECT_EQ(context->remainder_comp.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  for (std::size_t i = 0; i < block_count; ++i) {
    std::memcpy(blocks.Block(static_cast<int>(i)) + whole, context->remainder_buffers + i * 64,
                rest);
  }
}

TEST(EcoVerbs, TheBytesPast64GoThroughTheRemainderBuffers) {
  for (const int w : {4, 8}) {
    for (const int size : {1000, 40}) {
      SeededRandom random(97);
      OwnCoder coder;
      eco_context* const context = mlx_eco_init_w(&coder, 6, 3, 1, Done, w);
      ASSERT_NE(context, nullptr);
      ASSERT_NE(context->remainder_buffers, nullptr);
      ASSERT_NE(context->remainder_mr, nullptr);
      EXPECT_EQ(context->remainder_mr->addr, context->remainder_buffers);
      EXPECT_EQ(context->remainder_mr->length, 9U * 64);
      ASSERT_EQ(context->remainder_mem.block_size, 64);
      ASSERT_EQ(context->remainder_mem.num_data_sge, 6);
      ASSERT_EQ(context->remainder_mem.num_code_sge, 3);
      eco_encoder* const encoder = mlx_eco_encoder_init_w(6, 3, 1, w);
      eco_decoder* const decoder = mlx_eco_decoder_init_w(6, 3, 1, w);
      EXPECT_EQ(encoder->eco_ctx->remainder_buffers, nullptr);
      EcoBlocks blocks(random, 6, 3, size);
      ASSERT_EQ(blocks.Encode(encoder), 0);
      const auto all = blocks.CopyAll();
      for (int index : {6, 7, 8}) blocks.Spoil(index);
      ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 6, 3, size), 0);
      RunInTwoParts(coder, context, blocks, [&](ibv_exp_ec_mem* mem, ibv_exp_ec_comp* comp) {
        return ibv_exp_ec_encode_async(context->calc, mem, comp);
      });
      EXPECT_EQ(blocks.CopyAll(), all);
      std::vector<int> erased = {0, 5, 7};
      for (const int index : erased) blocks.Spoil(index);
      ASSERT_EQ(mlx_eco_decoder_generate_decode_matrix(decoder, erased.data(), 3), 0);
      RunInTwoParts(coder, context, blocks, [&](ibv_exp_ec_mem* mem, ibv_exp_ec_comp* comp) {
        return ibv_exp_ec_decode_async(context->calc, mem, decoder->u8_erasures,
                                       decoder->u8_decode_matrix, comp);
      });
      EXPECT_EQ(blocks.CopyAll(), all);
      EXPECT_EQ(mlx_eco_release(context), 0);
      EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
      EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
    }
  }
}

// What comp_done_func got from the functions it called.
struct CallingCoder {
  OwnCoder own;
  EcoBlocks* blocks = nullptr;
  eco_context* context = nullptr;
  int released = 0;
  int registered = 0;
  int encoded = 0;
  int other_released = 0;
};

void CallAll(ibv_exp_ec_comp* comp) {
  auto* const coder =
      static_cast<CallingCoder*>(reinterpret_cast<eco_coder_comp*>(comp)->eco_coder);
  EcoBlocks& blocks = *coder->blocks;
  coder->released = mlx_eco_release(coder->context);
  coder->registered =
      mlx_eco_register(coder->context, blocks.data.data(), blocks.coding.data(), 4, 2, 640);
  eco_encoder* const encoder = mlx_eco_encoder_init(4, 2, 1);
  coder->encoded = blocks.Encode(encoder) + mlx_eco_encoder_release(encoder);
  coder->other_released = mlx_eco_release(mlx_eco_init(nullptr, 4, 2, 1, Done));
  const MutexLock lock(coder->own.mutex);
  ++coder->own.completions;
  coder->own.changed.NotifyAll();
}

TEST(EcoVerbs, CompDoneFuncMayCallEverythingButIsRefusedTheReleaseOfItsContext) {
  SeededRandom random(99);
  EcoBlocks blocks(random, 4, 2, 640);
  CallingCoder coder;
  coder.blocks = &blocks;
  eco_context* const context = coder.context = mlx_eco_init(&coder, 4, 2, 1, CallAll);
  ASSERT_NE(context, nullptr);
  ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 4, 2, 640), 0);
  for (int completions = 1; completions <= 2; ++completions) {
    ASSERT_EQ(ibv_exp_ec_encode_async(context->calc, &context->alignment_mem,
                                      &context->alignment_comp.comp),
              0);
    coder.own.AwaitCompletions(completions);
    EXPECT_EQ(coder.released, -1);
    EXPECT_EQ(coder.registered, 0);
    EXPECT_EQ(coder.encoded, 0);
    EXPECT_EQ(coder.other_released, 0);
    EXPECT_EQ(context->alignment_comp.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  }
  EXPECT_EQ(mlx_eco_release(context), 0);
}

TEST(EcoVerbs, ReleaseEndsOperationsInFlight) {
  SeededRandom random(96);
  for (int round = 0; round < 20; ++round) {
    OwnCoder coder;
    eco_context* const context = mlx_eco_init(&coder, 6, 3, 0, Done);
    ASSERT_NE(context, nullptr);
    ASSERT_NE(context->calc, nullptr);
    EcoBlocks blocks(random, 6, 3, 64 * 1024);
    ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 6, 3, 64 * 1024),
              0);
    int submitted = 0;
    for (eco_coder_comp* comp : {&context->alignment_comp, &context->remainder_comp}) {
      submitted +=
          ibv_exp_ec_encode_async(context->calc, &context->alignment_mem, &comp->comp) == 0;
    }
    EXPECT_EQ(submitted, 2);
    EXPECT_EQ(mlx_eco_release(context), 0);
    coder.AwaitCompletions(2);  // none comes later: the coder ends here
  }
}

// Calls that wait for their turn, to be refused, do not keep the calculator alive.
TEST(EcoVerbs, ReleaseEndsOperationsAlsoWhileOtherThreadsCall) {
  SeededRandom random(98);
  EcoBlocks blocks(random, 6, 3, 64 * 1024);
  for (int round = 0; round < 50; ++round) {
    OwnCoder coder;
    eco_context* const context = mlx_eco_init(&coder, 6, 3, 0, Done);
    ASSERT_NE(context, nullptr);
    ASSERT_EQ(mlx_eco_register(context, blocks.data.data(), blocks.coding.data(), 6, 3, 64 * 1024),
              0);
    std::atomic<bool> stop{false};
    std::atomic<int> callers{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        ++callers;
        while (!stop) EXPECT_EQ(mlx_eco_register(context, nullptr, nullptr, 6, 3, 64), -1);
      });
    }
    testing::Await("three callers", [&] { return callers >= 3; });
    for (eco_coder_comp* comp : {&context->alignment_comp, &context->remainder_comp}) {
      EXPECT_EQ(ibv_exp_ec_encode_async(context->calc, &context->alignment_mem, &comp->comp), 0);
    }
    EXPECT_EQ(mlx_eco_release(context), 0);
    {
      const MutexLock lock(coder.mutex);
      EXPECT_EQ(coder.completions, 2);
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    coder.AwaitCompletions(2);
  }
}

}  // namespace
}  // namespace ring::ec_offload
