// Which blocks are asked for, of whom, and what is installed of the answers: S5, S7, S12.
#include "ring/recovery/block_recovery.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "tests/recovery/block_harness.h"

namespace ring::recovery {
namespace {

using memgest::BlockState;

TEST(BlockRecoveryTest, WhatIsWantedComesFirstAndTheRestWithinThePace) {
  BlockHarness harness(40);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 17);
  harness.recovery.Step(1'000'000);
  ASSERT_EQ(harness.asked.size(), 1u) << "the pace has not begun yet";
  EXPECT_EQ(harness.asked[0].request.block, 17u);
  EXPECT_TRUE(harness.asked[0].request.urgent);
  EXPECT_EQ(harness.asked[0].request.index, BlockHarness::kIndex);
  EXPECT_EQ(harness.asked[0].request.epoch, Epoch(2));
  harness.AnswerAll();
  EXPECT_EQ(harness.present, std::vector<std::uint32_t>{17});
  std::uint64_t now_ns = 1'000'000;
  int steps = 0;
  while (harness.recovery.blocks_left() > 0) {
    harness.recovery.Step(now_ns += 1'000'000);
    EXPECT_LE(harness.asked.size(), BlockRecovery::kBackgroundMax);
    harness.AnswerAll();
    ASSERT_LT(++steps, 10'000);
  }
  // 40 blocks of 8 KiB at 1 MiB a second.
  EXPECT_GT(steps, 150);
  EXPECT_EQ(harness.recovery.blocks_total(), 40u);
  for (std::uint32_t block = 0; block < 40; ++block) EXPECT_TRUE(harness.HasBytes(block)) << block;
}

// F11: nor do the others of its chunk, until one of them has bytes that count.
TEST(BlockRecoveryTest, S3ABlockThatIsZeroTakesNoMemory) {
  constexpr std::uint32_t kChunkBlocks = memgest::HeapSpace::kChunkSize / BlockHarness::kBlock;
  BlockHarness harness(1, 2 * kChunkBlocks);
  harness.Serve(Epoch(2), {3, 4});
  const auto bring = [&harness](std::uint32_t block, absl::string_view bytes) {
    harness.recovery.Want(kMemgest, block);
    harness.recovery.Step(1'000'000);
    ASSERT_EQ(harness.asked.front().request.block, block);
    harness.Answer(Encode(DecodeAnswer{BlockHarness::kIndex, bytes}));
    EXPECT_EQ(harness.allocator().state(block), memgest::BlockState::kPresent);
  };
  memgest::HeapSpace& heap = harness.memgest().heap();
  const std::uint64_t touched = heap.touched_bytes();
  bring(kChunkBlocks + 5, "");
  EXPECT_EQ(heap.reserved_bytes(), memgest::HeapSpace::kChunkSize);
  EXPECT_EQ(heap.touched_bytes(), touched);
  EXPECT_FALSE(harness.allocator().release_due());
  bring(kChunkBlocks + 6, BlockHarness::BytesOf(kChunkBlocks + 6));
  EXPECT_TRUE(harness.Fits(kChunkBlocks + 6));
  EXPECT_EQ(heap.reserved_bytes(), 2 * memgest::HeapSpace::kChunkSize);
  EXPECT_EQ(heap.touched_bytes(), touched + BlockHarness::kBlock);
}

TEST(BlockRecoveryTest, AFailedCallIsMadeAgainToAnotherParityAndLater) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  harness.recovery.Step(1'000'000);
  EXPECT_EQ(harness.asked[0].parity, NodeId(3));
  harness.Answer(absl::UnavailableError("not now"));
  EXPECT_EQ(harness.allocator().state(0), BlockState::kLost);
  harness.recovery.Step(1'100'000);
  EXPECT_TRUE(harness.asked.empty());
  harness.recovery.Step(4'000'000);
  ASSERT_EQ(harness.asked.size(), 1u);
  EXPECT_EQ(harness.asked[0].parity, NodeId(4));
  harness.AnswerAll();
  EXPECT_TRUE(harness.HasBytes(0));
}

TEST(BlockRecoveryTest, WhoWaitsForWhatDoesNotComeIsToldAndItIsStillAskedFor) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  std::uint64_t now_ns = 0;
  for (int i = 0; i < BlockRecovery::kFailuresUntilDelayed; ++i) {
    EXPECT_TRUE(harness.delayed.empty());
    EXPECT_TRUE(harness.recovery.CanBring(kMemgest, 0));
    while (harness.asked.empty()) harness.recovery.Step(now_ns += 1'000'000);
    harness.Answer(absl::UnavailableError("not now"));
  }
  EXPECT_EQ(harness.delayed, std::vector<std::uint32_t>{0});
  EXPECT_FALSE(harness.recovery.CanBring(kMemgest, 0));
  while (harness.asked.empty()) harness.recovery.Step(now_ns += 1'000'000);
  harness.AnswerAll();
  EXPECT_TRUE(harness.HasBytes(0));
}

TEST(BlockRecoveryTest, WhatADeletedMemgestWasAskedForKeepsNoOtherFromBeingDecoded) {
  BlockHarness harness(40);
  harness.Serve(Epoch(2), {3});
  std::uint64_t now_ns = 0;
  while (harness.asked.size() < BlockRecovery::kBackgroundMax)
    harness.recovery.Step(now_ns += 1'000'000);
  harness.recovery.Add(kOther, BlockHarness::kIndex);
  harness.Serve(Epoch(2), {3});
  harness.deleted = true;
  harness.AnswerAll();
  EXPECT_TRUE(harness.present.empty());
  while (harness.asked.size() < BlockRecovery::kBackgroundMax) {
    harness.recovery.Step(now_ns += 1'000'000);
    ASSERT_LT(now_ns, 60'000'000'000u) << harness.asked.size() << " are asked for";
  }
  EXPECT_EQ(harness.asked[0].request.log.memgest, kOther);
}

// Their calls do not count in the epoch that follows.
TEST(BlockRecoveryTest, WhatADeletedMemgestWasAskedForBeforeTheEpochIsNotCountedTwice) {
  BlockHarness harness(40);
  harness.Serve(Epoch(2), {3});
  std::uint64_t now_ns = 0;
  while (harness.asked.size() < BlockRecovery::kBackgroundMax)
    harness.recovery.Step(now_ns += 1'000'000);
  harness.recovery.Add(kOther, BlockHarness::kIndex);
  const std::vector<BlockHarness::Asked> before = std::exchange(harness.asked, {});
  harness.Serve(Epoch(3), {3});
  harness.recovery.Step(now_ns += 100'000'000);
  harness.deleted = true;
  for (const BlockHarness::Asked& asked : before)
    harness.recovery.OnBlock(asked.call, BlockHarness::RightBytes(asked.request.block));
  for (int i = 0; i < 1000; ++i) {
    harness.recovery.Step(now_ns += 1'000'000);
    ASSERT_LE(harness.asked.size(), BlockRecovery::kBackgroundMax);
  }
}

TEST(BlockRecoveryTest, S7WhatNobodyCanDecodeIsGoneForThisEpoch) {
  BlockHarness harness(2);
  harness.Serve(Epoch(2), {3});
  harness.recovery.Want(kMemgest, 1);
  harness.recovery.Step(1'000'000);
  harness.Answer(absl::DataLossError("too much is lost"));
  EXPECT_EQ(harness.gone, std::vector<std::uint32_t>{1});
  EXPECT_TRUE(harness.recovery.gone(kMemgest, 1));
  for (std::uint64_t now_ns = 1'000'000; now_ns < 1'000'000'000; now_ns += 1'000'000) {
    harness.recovery.Step(now_ns);
    for (const BlockHarness::Asked& asked : harness.asked) EXPECT_EQ(asked.request.block, 0u);
    harness.AnswerAll();
  }
  harness.Serve(Epoch(3), {3, 4});
  EXPECT_FALSE(harness.recovery.gone(kMemgest, 1));
  for (std::uint64_t now_ns = 0; harness.recovery.blocks_left() > 0; now_ns += 1'000'000) {
    harness.recovery.Step(2'000'000'000 + now_ns);
    harness.AnswerAll();
  }
  EXPECT_TRUE(harness.HasBytes(1));
}

// The shard goes on without them, so nobody will ever have them.
TEST(BlockRecoveryTest, E8BlocksOfWhichTheRecordNamesNobodyAreGone) {
  BlockHarness harness(2 * BlockRecovery::kLooksPerStep);
  EXPECT_FALSE(harness.recovery.CanBring(kMemgest, 1)) << "no record yet";
  harness.Serve(Epoch(2), {});
  EXPECT_TRUE(harness.recovery.CanBring(kMemgest, 1));
  harness.recovery.Want(kMemgest, 1);
  harness.recovery.Step(1'000'000);
  ASSERT_FALSE(harness.gone.empty());
  EXPECT_EQ(harness.gone.front(), 1u);
  for (std::uint64_t now_ns = 2'000'000; now_ns < 1'000'000'000; now_ns += 1'000'000) {
    const std::size_t before = harness.gone.size();
    harness.recovery.Step(now_ns);
    EXPECT_LE(harness.gone.size() - before, BlockRecovery::kLooksPerStep);
  }
  EXPECT_EQ(harness.gone.size(), 2 * BlockRecovery::kLooksPerStep);
  EXPECT_TRUE(harness.asked.empty());
  harness.Serve(Epoch(3), {3});
  EXPECT_FALSE(harness.recovery.gone(kMemgest, 1));
  harness.recovery.Want(kMemgest, 1);
  harness.recovery.Step(2'000'000'000);
  harness.AnswerAll();
  EXPECT_TRUE(harness.HasBytes(1));
}

// Health counts what is lost, whether somebody wanted it or not.
TEST(BlockRecoveryTest, S7WhatIsGoneIsSaidThoughNobodyWantedIt) {
  BlockHarness harness(2);
  harness.Serve(Epoch(2), {3});
  for (std::uint64_t now_ns = 0; now_ns < 1'000'000'000; now_ns += 1'000'000) {
    harness.recovery.Step(now_ns);
    while (!harness.asked.empty()) harness.Answer(absl::DataLossError("too much is lost"));
  }
  EXPECT_EQ(harness.gone, (std::vector<std::uint32_t>{0, 1}));
}

TEST(BlockRecoveryTest, S5RecoveryNeverOverwritesANewerPut) {
  EXPECT_TRUE(NewerPutSurvivesALateAnswer());
}

TEST(BlockRecoveryTest, S5AnEpochThatEndsMakesWhatWasDecodingLost) {
  BlockHarness harness(3);
  harness.Serve(Epoch(2), {3});
  harness.recovery.Want(kMemgest, 2);
  harness.recovery.Step(1'000'000);
  EXPECT_EQ(harness.allocator().state(2), BlockState::kDecoding);
  harness.recovery.EndEpoch();
  EXPECT_EQ(harness.allocator().state(2), BlockState::kLost);
  harness.recovery.Step(50'000'000);
  EXPECT_EQ(harness.asked.size(), 1u) << "asked for between two epochs";
  harness.AnswerAll();
  EXPECT_EQ(harness.allocator().state(2), BlockState::kLost) << "installed between two epochs";
  harness.Serve(Epoch(3), {4});
  harness.recovery.Step(51'000'000);
  ASSERT_FALSE(harness.asked.empty());
  EXPECT_EQ(harness.asked[0].request.block, 2u) << "somebody still waits for it";
  EXPECT_EQ(harness.asked[0].request.epoch, Epoch(3));
}

TEST(BlockRecoveryTest, S12BytesThatAreNotTheVersionsAreAskedForOfAnotherParity) {
  EXPECT_TRUE(WrongBytesAreNotInstalled());
}

TEST(BlockRecoveryTest, S12WhatEveryParityGivesWrongIsInstalledAndOnlyItsVersionsAreLost) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  harness.recovery.Step(1'000'000);
  harness.Answer(harness.WrongBytes(0));
  EXPECT_EQ(harness.allocator().state(0), BlockState::kLost);
  harness.recovery.Step(20'000'000);
  EXPECT_EQ(harness.asked[0].parity, NodeId(4));
  harness.Answer(harness.WrongBytes(0));
  std::uint64_t now_ns = 20'000'000;
  while (harness.present.empty()) {
    harness.recovery.Step(now_ns += 20'000'000);
    ASSERT_EQ(harness.asked.size(), 1u) << "without some block of the row";
    EXPECT_NE(harness.asked[0].request.left_out, 0u);
    harness.Answer(absl::DataLossError("it cannot do without"));
  }
  EXPECT_TRUE(harness.gone.empty());
  EXPECT_EQ(harness.allocator().state(0), BlockState::kPresent);
  EXPECT_EQ(harness.present, std::vector<std::uint32_t>{0});
}

// Column 0 or another is rotten: both parities give wrong bytes until it is left out.
TEST(BlockRecoveryTest, S12WhatNoParityGivesRightIsDecodedWithoutOneBlockOfTheRow) {
  const std::uint32_t own = 1u << BlockHarness(1).memgest().codec().layout().Locate(1, 0).column;
  for (const std::uint32_t rotten : {1u, 2u, 4u}) {
    if (rotten == own) continue;
    BlockHarness harness(1);
    harness.Serve(Epoch(2), {3, 4});
    harness.recovery.Want(kMemgest, 0);
    std::vector<std::uint32_t> left_out;
    for (std::uint64_t now_ns = 0; harness.present.empty();) {
      harness.recovery.Step(now_ns += 20'000'000);
      ASSERT_EQ(harness.asked.size(), 1u);
      left_out.push_back(harness.asked[0].request.left_out);
      ASSERT_LE(left_out.size(), 4u);
      EXPECT_NE(left_out.back(), own);
      const bool right = left_out.back() == rotten;
      harness.Answer(right ? harness.RightBytes(0) : harness.WrongBytes(0));
    }
    EXPECT_TRUE(harness.HasBytes(0));
    EXPECT_EQ(left_out[0], 0u);
    EXPECT_EQ(left_out[1], 0u) << "each parity by itself comes first";
  }
}

TEST(BlockRecoveryTest, S12WhoDoesNotAnswerIsAskedAgainBeforeAnotherBlockIsLeftOut) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  std::uint64_t now_ns = 0;
  for (int i = 0; i < 2; ++i) {
    harness.recovery.Step(now_ns += 20'000'000);
    harness.Answer(harness.WrongBytes(0));
  }
  harness.recovery.Step(now_ns += 20'000'000);
  ASSERT_EQ(harness.asked.size(), 1u);
  const std::uint32_t first = harness.asked[0].request.left_out;
  for (int i = 1; i < BlockRecovery::kFailuresUntilDelayed; ++i) {
    harness.Answer(absl::UnavailableError("not now"));
    harness.recovery.Step(now_ns += 200'000'000);
    ASSERT_EQ(harness.asked.size(), 1u);
    EXPECT_EQ(harness.asked[0].request.left_out, first) << i;
  }
  harness.Answer(absl::UnavailableError("not now"));
  harness.recovery.Step(now_ns += 200'000'000);
  ASSERT_EQ(harness.asked.size(), 1u);
  EXPECT_NE(harness.asked[0].request.left_out, first);
}

// A value of four blocks, which have no checksum each.
class LargeValueTest : public ::testing::Test {
 protected:
  LargeValueTest() {
    harness_.value = {0, 1, 2, 3};
    for (const std::uint32_t block : harness_.value) harness_.ClearVersion(block);
    harness_.Serve(Epoch(2), {3, 4});
    for (const std::uint32_t block : harness_.value) harness_.recovery.Want(kMemgest, block);
  }
  void Step() { harness_.recovery.Step(now_ns_ += 200'000'000); }
  // Answers all that is asked, until nothing is: the rotten parities do wrongly, the dead ones not.
  void Answer(const std::vector<std::uint32_t>& rotten, const std::vector<std::uint32_t>& dead) {
    for (int i = 0; i < 40; ++i) {
      Step();
      while (!harness_.asked.empty()) {
        const std::uint32_t parity = harness_.asked[0].parity.value();
        const std::uint32_t block = harness_.asked[0].request.block;
        if (absl::c_linear_search(dead, parity)) {
          harness_.Answer(absl::UnavailableError("not now"));
        } else if (absl::c_linear_search(rotten, parity)) {
          harness_.Answer(BlockHarness::WrongBytes(block));
        } else {
          harness_.Answer(BlockHarness::RightBytes(block));
        }
      }
    }
  }
  BlockState state(std::uint32_t block) { return harness_.allocator().state(block); }
  bool Right() {
    return absl::c_all_of(harness_.value,
                          [&](std::uint32_t one) { return harness_.HasBytes(one); });
  }

  BlockHarness harness_{5};
  std::uint64_t now_ns_ = 0;
};

TEST_F(LargeValueTest, S12ItsBlocksBecomePresentTogether) {
  Step();
  ASSERT_GE(harness_.asked.size(), 4u);
  for (int i = 0; i < 3; ++i)
    harness_.Answer(BlockHarness::RightBytes(harness_.asked[0].request.block));
  EXPECT_TRUE(harness_.present.empty());
  EXPECT_EQ(state(0), BlockState::kDecoding);
  Answer({}, {});
  EXPECT_TRUE(Right());
  EXPECT_TRUE(harness_.HasBytes(4)) << "a neighbour";
}

TEST_F(LargeValueTest, S12WhatOneParityHasWrongIsAskedForOfTheOther) {
  Answer({3}, {});
  EXPECT_TRUE(Right());
}

// Blocks of both parities are in place when the checksum is looked at: it says nothing of either.
TEST_F(LargeValueTest, S12AMixOfTwoParitiesRefutesNone) {
  for (const std::uint32_t rotten : {3u, 4u}) {
    Step();
    ASSERT_GE(harness_.asked.size(), 4u);
    harness_.Answer(absl::UnavailableError("not now"));  // the first one is asked for of the other
    Answer({rotten}, {});
    EXPECT_TRUE(Right()) << rotten;
    harness_.recovery.EndEpoch();
    for (const std::uint32_t block : harness_.value) {
      harness_.allocator().SetLost(block);
      harness_.recovery.Want(kMemgest, block);
    }
    harness_.Serve(Epoch(3), {3, 4});
  }
}

TEST_F(LargeValueTest, S12OneThatDoesNotAnswerIsWaitedForWhenTheOthersAreWrong) {
  Answer({3}, {4});
  EXPECT_TRUE(harness_.present.empty() || harness_.present == std::vector<std::uint32_t>{4});
  EXPECT_EQ(state(0), BlockState::kLost);
  Answer({3}, {});
  EXPECT_TRUE(Right());
}

// It is being rebuilt, and its rebuild waits for Lost blocks.
TEST_F(LargeValueTest, S12OneThatHasNotTheRowIsNotWaitedForEver) {
  for (int i = 0; i < 60 && state(0) != BlockState::kPresent; ++i) {
    Step();
    while (!harness_.asked.empty()) {
      if (harness_.asked[0].parity == NodeId(4)) {
        harness_.Answer(absl::FailedPreconditionError("this parity has not all of the row"));
      } else {
        harness_.Answer(BlockHarness::WrongBytes(harness_.asked[0].request.block));
      }
    }
  }
  for (const std::uint32_t block : harness_.value) EXPECT_EQ(state(block), BlockState::kPresent);
  EXPECT_FALSE(Right());
}

// The second block's row has a rotten one in column 2.
TEST_F(LargeValueTest, S12WhatNoParityGivesRightIsDecodedWithoutOneBlockOfEachRow) {
  for (int i = 0; i < 40 && harness_.present.size() < 5; ++i) {
    Step();
    while (!harness_.asked.empty()) {
      const DecodeRequest& request = harness_.asked[0].request;
      const bool wrong = request.block == 1 && request.left_out != 1u << 2;
      harness_.Answer(wrong ? BlockHarness::WrongBytes(1)
                            : BlockHarness::RightBytes(request.block));
    }
  }
  EXPECT_TRUE(Right());
}

TEST_F(LargeValueTest, S12WhatEveryParityGivesWrongIsInstalled) {
  Answer({3, 4}, {});
  for (const std::uint32_t block : harness_.value) EXPECT_EQ(state(block), BlockState::kPresent);
  EXPECT_EQ(harness_.recovery.blocks_left(), 0u);
}

TEST_F(LargeValueTest, S5AnEpochThatEndsMakesWhatWaitsForOthersLost) {
  Step();
  harness_.Answer(BlockHarness::RightBytes(harness_.asked[0].request.block));
  EXPECT_EQ(state(0), BlockState::kDecoding);
  harness_.recovery.EndEpoch();
  EXPECT_EQ(state(0), BlockState::kLost);
  harness_.AnswerAll();
  harness_.Serve(Epoch(3), {4});
  Answer({}, {});
  EXPECT_TRUE(Right());
}

// Nobody asks for the others as one value any more.
TEST_F(LargeValueTest, S4WhatWaitsForOthersOfADeletedValueIsPresent) {
  Step();
  harness_.Answer(BlockHarness::RightBytes(harness_.asked[0].request.block));
  harness_.value.clear();
  Step();
  EXPECT_TRUE(harness_.HasBytes(0));
}

TEST(BlockRecoveryTest, AnswersOfAnotherSizeOrMomentAreRefused) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3});
  std::uint64_t now_ns = 0;
  for (const std::string& body :
       {std::string("short"), Encode(DecodeAnswer{7, "not a block"}),
        Encode(DecodeAnswer{BlockHarness::kIndex + 1, std::string(BlockHarness::kBlock, 'x')})}) {
    while (harness.asked.empty()) harness.recovery.Step(now_ns += 10'000'000);
    harness.Answer(body);
    EXPECT_EQ(harness.allocator().state(0), BlockState::kLost);
  }
}

}  // namespace
}  // namespace ring::recovery
