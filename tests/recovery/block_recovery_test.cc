// Which blocks are asked for, of whom, and what is installed of the answers: S5, S7, S12.
#include "ring/recovery/block_recovery.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

TEST(BlockRecoveryTest, S7_WhatNobodyCanDecodeIsGoneForThisEpoch) {
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

TEST(BlockRecoveryTest, S5_RecoveryNeverOverwritesANewerPut) {
  EXPECT_TRUE(NewerPutSurvivesALateAnswer());
}

TEST(BlockRecoveryTest, S5_AnEpochThatEndsMakesWhatWasDecodingLost) {
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

TEST(BlockRecoveryTest, S12_BytesThatAreNotTheVersionsAreAskedForOfAnotherParity) {
  EXPECT_TRUE(WrongBytesAreNotInstalled());
}

TEST(BlockRecoveryTest, S12_WhatEveryParityGivesWrongIsInstalledAndOnlyItsVersionsAreLost) {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  harness.recovery.Step(1'000'000);
  harness.Answer(harness.WrongBytes(0));
  EXPECT_EQ(harness.allocator().state(0), BlockState::kLost);
  harness.recovery.Step(20'000'000);
  EXPECT_EQ(harness.asked[0].parity, NodeId(4));
  harness.Answer(harness.WrongBytes(0));
  EXPECT_EQ(harness.allocator().state(0), BlockState::kPresent);
  EXPECT_EQ(harness.present, std::vector<std::uint32_t>{0});
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
