// Values of coded memgests after their coordinator was lost: decoded at a parity node, in one
// process (rules S2, S4, S5, S7, S12, E7, I4).
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/node/recovery/decode_fixture.h"
#include "tests/srs/row_plans.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::Await;
using ring::testing::StatusIs;
using testing::KeepOnly;
using testing::SmallBlocks;
using testing::SmallBlocksSlowly;

class DecodeTest : public testing::DecodeFixture {
 protected:
  // A second node is lost while all of the first one's blocks are Lost.
  void LoseInTheMiddle(std::uint32_t second) {
    Start(2, SmallBlocksSlowly);
    Load("SRS32", 40);
    ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
    EXPECT_TRUE(AnyLost(1, "SRS32"));
    ASSERT_NO_FATAL_FAILURE(Lose({second}));
    ExpectEverything();
  }
};

TEST_F(DecodeTest, ValuesOfALostCoordinatorAreDecodedWhenTheyAreAskedFor) {
  Start(1, SmallBlocksSlowly);
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) Load(memgest, 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  EXPECT_TRUE(AnyLost(1, "SRS32"));
  ExpectEverything();
}

TEST_F(DecodeTest, AllBlocksComeBackInTheBackground) {
  Start(1, SmallBlocks);
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) Load(memgest, 40);
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) WaitPresent(1, memgest);
  cluster_.Run([&] {
    const recovery::BlockRecovery& blocks = Shard(1)->values()->blocks();
    EXPECT_EQ(blocks.blocks_left(), 0u);
    EXPECT_GT(blocks.blocks_total(), 60u);
  });
  ExpectEverything();
}

// It has all of them before a record says so: the parity that they came from is needed no more.
TEST_F(DecodeTest, E8WhoHasDecodedAllOfItsBlocksOutlivesTheirParity) {
  Start(2, SmallBlocks);
  Load("SRS21", 20);
  cluster_.LoseFurtherNormals(true);
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  WaitPresent(1, "SRS21");
  ASSERT_NO_FATAL_FAILURE(Lose({3}));
  ExpectEverything();
}

// What is written and deleted meanwhile goes nowhere near a Lost block, so that each of them comes
// back, with its neighbours at other coordinators under load (S2).
TEST_F(DecodeTest, S4PutsAfterATakeoverGoToPresentOrNewBlocks) {
  Start(1, SmallBlocksSlowly);
  Load("SRS32", 60);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  std::uint32_t used = 0;
  cluster_.Run([&] { used = MemgestAt(1, "SRS32").allocator().block_count(); });
  for (int i = 0; i < 60; i += 2) {
    const std::string key = KeyOf(1, "SRS32", i);
    if (i % 4 == 0) {
      ASSERT_OK(client_->Delete(key).status());
      values_.erase(key);
    } else {
      ASSERT_NO_FATAL_FAILURE(Put(key, "SRS32", 900));
      cluster_.Run([&] {
        const std::uint32_t block = BlocksOf(key)[0];
        EXPECT_TRUE(block >= used ||
                    MemgestAt(1, "SRS32").allocator().state(block) == memgest::BlockState::kPresent)
            << block;
      });
    }
    for (const std::uint16_t other : {std::uint16_t{0}, std::uint16_t{2}})
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(other, "SRS32", i), "SRS32", 900));
  }
  EXPECT_TRUE(AnyLost(1, "SRS32"));
  ExpectEverything();
  HoldBackground(false);
  WaitPresent(1, "SRS32");
  ExpectEverything();
}

// Slots that were collected while their block was Lost are free when it is Present.
TEST_F(DecodeTest, S4SlotsFreedInALostBlockAreUsedAgainWhenItIsPresent) {
  Start(1, SmallBlocksSlowly);
  for (int i = 0; i < 200; ++i) Put(KeyOf(1, "k", i), "SRS32", 4000);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  for (int i = 0; i < 200; ++i) ASSERT_OK(client_->Delete(KeyOf(1, "k", i)).status());
  values_.clear();
  HoldBackground(false);
  WaitPresent(1, "SRS32");
  std::uint32_t used = 0;
  cluster_.Run([&] { used = MemgestAt(1, "SRS32").allocator().block_count(); });
  for (int i = 0; i < 150; ++i) Put(KeyOf(1, "again", i), "SRS32", 4000);
  cluster_.Run([&] { EXPECT_EQ(MemgestAt(1, "SRS32").allocator().block_count(), used); });
  ExpectEverything();
}

TEST_F(DecodeTest, S7ADataNodeAndAParityNodeAtOnce) {
  Start(2, [](NodeConfig* config) {
    // Of those that survive two losses: weaker ones would stop the shard (E8).
    KeepOnly(config, "REP4", "SRS32");
    SmallBlocks(config);
  });
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(Lose({1, 3}));
  ExpectEverything();
}

TEST_F(DecodeTest, S7TwoDataNodesAtOnce) {
  Start(2, SmallBlocks);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(Lose({1, 2}));
  ExpectEverything();
  WaitPresent(1, "SRS32");
  WaitPresent(2, "SRS32");
}

// SRS(2,1,3) survives two losses in the rows that are on the third node, too; and what it does not
// survive is an error, never other bytes.
TEST_F(DecodeTest, S7WhatRankDecodesIsServedAndTheRestIsDataLost) {
  Start(2, SmallBlocks);
  for (int i = 0; i < 60; ++i) Put(KeyOf(1, "k", i), "SRS21", 4000);
  for (int i = 0; i < 60; ++i) Put(KeyOf(2, "k", i), "SRS21", 4000);
  ASSERT_NO_FATAL_FAILURE(Lose({1, 2}));
  int served = 0;
  int lost = 0;
  for (const auto& [key, value] : values_) {
    std::uint32_t block = 0;
    std::uint32_t lost_columns = 0;
    cluster_.Run([&] {
      block = BlocksOf(key)[0];
      const srs::Layout& layout = Parity(0, "SRS21").layout();
      const srs::Position at =
          layout.Locate(PlaceOf(key).shard.value(), std::uint64_t{block} * layout.block_size());
      const std::uint32_t here = srs::LostColumns(layout, at.row, 1u << PlaceOf(key).shard.value());
      for (std::uint32_t column = 0; column < 2; ++column) {
        const srs::DataBlock data = layout.BlockOf(at.extent, at.row, column);
        // A block that was never used is no loss.
        const bool used =
            data.offset / layout.block_size() <
            MemgestAt(static_cast<std::uint16_t>(data.shard), "SRS21").allocator().block_count();
        if (data.shard != 0 && used) lost_columns |= 1u << column;
      }
      ASSERT_EQ(lost_columns & here, here);
    });
    const absl::StatusOr<GetResult> got = Get(key);
    if (lost_columns == 0b11) {
      EXPECT_TRUE(absl::IsDataLoss(got.status())) << key << ": " << got.status();
      ++lost;
    } else {
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      EXPECT_TRUE(got->value == value) << key;
      ++served;
    }
  }
  EXPECT_GT(served, 20);
  EXPECT_GT(lost, 20);
}

// Two shards are lost while a new parity has what they had, and not yet all of the third one's: the
// row can be decoded when that one has sent it.
TEST_F(DecodeTest, S7ABlockIsNotGoneWhileAParityThatHasItIsRebuilt) {
  Start(3, [](NodeConfig* config) {
    KeepOnly(config, "REP4", "SRS32");
    SmallBlocksSlowly(config);
  });
  for (std::uint16_t shard = 0; shard < 2; ++shard) {
    for (int i = 0; i < 20; ++i) Put(KeyOf(shard, "k", i), "SRS32", 4000);
  }
  for (int i = 0; i < 300; ++i) Put(KeyOf(2, "much", i), "SRS32", 15'000);  // takes the longest
  ASSERT_NO_FATAL_FAILURE(Lose({4}));
  bool third_too = true;
  Await("two shards' part of the parity", [&] {
    bool both = false;
    cluster_.Run([&] {
      both = IsComplete(0, "SRS32", 4) && IsComplete(1, "SRS32", 4);
      third_too = IsComplete(2, "SRS32", 4);
      if (both) HoldBackgroundHere(true);
    });
    return both;
  });
  ASSERT_FALSE(third_too) << "it is rebuilt already";
  ASSERT_NO_FATAL_FAILURE(Lose({0, 1}));
  GetOptions soon;
  soon.deadline = absl::Milliseconds(50);
  int away = 0;
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = client_->Get(KeyOf(0, "k", i), soon).status();
    ASSERT_FALSE(absl::IsDataLoss(status)) << i << ": " << status;
    away += status.ok() ? 0 : 1;
  }
  EXPECT_GT(away, 0) << "it was rebuilt before the loss";
  HoldBackground(false);
  ExpectEverything();
}

// What was gone in an epoch is asked for again in the next one, when a get wants it: a decode that
// failed for want of a source is no verdict for ever.
TEST_F(DecodeTest, S5WhatIsLostInOneEpochIsWantedAgainInTheNext) {
  Start(1, SmallBlocksSlowly);
  Load("SRS21", 20);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  ASSERT_TRUE(AnyLost(1, "SRS21"));
  cluster_.Run([&] {
    coordinator::ShardCoordinator& shard = *Shard(1)->coordinator();
    const std::uint32_t end = shard.lines().granule_count() * memgest::kLinesPerGranule;
    for (std::uint32_t line = 0; line < end; ++line) {
      if (!shard.lines().Has(line)) continue;
      const memgest::MetadataLine& one = shard.lines().line(line);
      if (one.version != 0 && (one.flags & memgest::kAbsent) != 0)
        shard.OnValue(line, Version(one.version), false);  // as who decodes it would say
    }
    EXPECT_GT(MemgestAt(1, "SRS21").lost_count, 0u);
  });
  ASSERT_OK(cluster_.Fail(NodeId(4)));  // another epoch
  ASSERT_NO_FATAL_FAILURE(WaitServing());
  cluster_.Run([&] { EXPECT_EQ(MemgestAt(1, "SRS21").lost_count, 0u); });
  EXPECT_TRUE(AnyLost(1, "SRS21"));
  ExpectEverything();
}

// SRS(2,1,4) survives some losses of two data nodes with one parity: more than m.
TEST_F(DecodeTest, S7RankPatternsOfMoreThanMLosses) {
  Start(2, [](NodeConfig* config) {
    config->s = 4;
    config->d = 1;
    KeepOnly(config, "REP2", "SRS21");
    SmallBlocks(config);
  });
  Load("SRS21", 40);
  ASSERT_NO_FATAL_FAILURE(Lose({0, 1}));
  ExpectEverything();
}

// Neighbours that are written go on at their coordinators, and are committed, before the parity has
// folded them: it waits.
TEST_F(DecodeTest, S2ARowIsTakenWhenTheParityHasFoldedWhatTheCutHas) {
  Start(1, SmallBlocksSlowly);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  HoldFolds(/*parity=*/0, /*shard=*/0, true);
  HoldFolds(/*parity=*/1, /*shard=*/0, true);
  ASSERT_NO_FATAL_FAILURE(PutAgain(0, "SRS32", 40));
  std::atomic<bool> over{false};
  std::thread reader([&] {
    ExpectEverything();
    over.store(true);
  });
  WaitDecoding(over);
  HoldFolds(0, 0, false);
  HoldFolds(1, 0, false);
  reader.join();
}

// Two columns are lost, so both parities are needed, and one of them is behind.
TEST_F(DecodeTest, S7RowsOfTwoParitiesAreTakenAtEqualLastTouches) {
  Start(2, SmallBlocksSlowly);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1, 2}));
  HoldFolds(/*parity=*/1, /*shard=*/0, true);
  ASSERT_NO_FATAL_FAILURE(PutAgain(0, "SRS32", 40));
  std::atomic<bool> over{false};
  std::thread reader([&] {
    ExpectEverything();
    over.store(true);
  });
  WaitDecoding(over);
  HoldFolds(1, 0, false);
  reader.join();
}

// Who reads rows of two parities asks for the vector that it has: a parity that is behind, or
// ahead, gives nothing.
TEST_F(DecodeTest, S7ARowIsGivenAtTheLastTouchesThatAreAskedForAndNoOthers) {
  Start(0, SmallBlocks);
  Load("SRS32", 10);
  ASSERT_NO_FATAL_FAILURE(WaitFolded(/*parity=*/1, "SRS32"));
  recovery::RowRequest request;
  const auto ask = [&] {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    cluster_.Run([&] {
      const cluster::GroupView& group = cluster_.view().groups[kGroup.value()];
      cluster_.node(group.roles[0])
          ->control()
          .Call(group.roles[static_cast<std::size_t>(cluster_.view().s) + 1], ControlType::kRow,
                recovery::Encode(request), 20'000'000'000,
                [answer](const absl::StatusOr<std::string>& row) {
                  answer->set_value(row.status());
                });
    });
    return answer->get_future().get();
  };
  cluster_.Run([&] {
    request.group = kGroup;
    request.memgest = cluster_.view().FindMemgest("SRS32")->id;
    request.epoch = cluster_.view().groups[kGroup.value()].epoch;
    request.last_touch = Parity(1, "SRS32").ReadRow(0, 0).last_touch;
  });
  EXPECT_OK(ask());
  for (std::uint64_t& column : request.last_touch) {
    ++column;
    EXPECT_THAT(ask(), StatusIs(absl::StatusCode::kUnavailable)) << "it is behind";
    column -= 2;
    EXPECT_THAT(ask(), StatusIs(absl::StatusCode::kFailedPrecondition)) << "it is ahead";
    ++column;
  }
  EXPECT_OK(ask());
}

// A parity whose memory rotted: the version's checksum tells, and another parity gives it right.
// One of several blocks has it for all of them.
TEST_F(DecodeTest, S12AWrongDecodeIsDetectedAndAnotherParityIsAsked) {
  Start(1, SmallBlocks);
  Load("SRS32", 20);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1, "large", 0), "SRS32", 400'000));
  ASSERT_NO_FATAL_FAILURE(WaitFolded(/*parity=*/0, "SRS32"));
  cluster_.Run([&] { EXPECT_GT(Rot(0, "SRS32"), 25); });
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  ExpectEverything();
}

TEST_F(DecodeTest, S12AWrongSecondParityHarmsNobodyEither) {
  Start(1, SmallBlocks);
  Load("SRS32", 20);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1, "large", 0), "SRS32", 400'000));
  ASSERT_NO_FATAL_FAILURE(WaitFolded(/*parity=*/1, "SRS32"));
  cluster_.Run([&] { EXPECT_GT(Rot(1, "SRS32"), 25); });
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  ExpectEverything();
}

// Both parities give wrong bytes as long as the other coordinator's blocks are decoded from.
TEST_F(DecodeTest, S12ABlockOfTheRowThatRottedIsLeftOut) {
  Start(1, SmallBlocks);
  Load("SRS32", 20);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(1, "large", 0), "SRS32", 400'000));
  for (const int parity : {0, 1}) ASSERT_NO_FATAL_FAILURE(WaitFolded(parity, "SRS32"));
  Invert(2, "SRS32");
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  ASSERT_NO_FATAL_FAILURE(WaitPresent(1, "SRS32"));
  cluster_.Run([&] { EXPECT_EQ(MemgestAt(1, "SRS32").lost_count, 0u); });
  Invert(2, "SRS32");
  ExpectEverything();
}

// What is wrong elsewhere in a block's sources costs each version only what none has right.
TEST_F(DecodeTest, S12AParityAndABlockThatRottedInTwoPlacesHarmNoVersion) {
  Start(1, SmallBlocks);
  for (std::uint16_t shard = 0; shard < 3; ++shard) {
    for (int i = 0; i < 12; ++i) Put(KeyOf(shard, "k", i), "SRS32", 1000);
  }
  for (const int parity : {0, 1}) ASSERT_NO_FATAL_FAILURE(WaitFolded(parity, "SRS32"));
  const auto turn = [&] {  // the 2nd KiB of shard 2's first block, and back
    auto* const bytes = const_cast<std::byte*>(MemgestAt(2, "SRS32").heap().At(0));
    for (int i = 1024; i < 2048; ++i) bytes[i] ^= std::byte{0xff};
  };
  cluster_.Run([&] {
    turn();
    const srs::Layout& layout = Parity(0, "SRS32").layout();
    const srs::Position at = layout.Locate(2, 0);
    auto* const row = const_cast<std::byte*>(
        Parity(0, "SRS32").ReadRow(static_cast<std::uint32_t>(at.extent), at.row).bytes);
    for (int i = 5120; i < 6144; ++i) row[i] ^= std::byte{0xff};
  });
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  ASSERT_NO_FATAL_FAILURE(WaitPresent(1, "SRS32"));
  cluster_.Run([&] {
    EXPECT_EQ(MemgestAt(1, "SRS32").lost_count, 0u);
    turn();
  });
  ExpectEverything();
}

TEST_F(DecodeTest, S12AValueThatNobodyDecodesRightIsDataLostAndItsNeighboursAreServed) {
  Start(1, SmallBlocks);
  for (int i = 0; i < 10; ++i) Put(KeyOf(1, "k", i), "SRS31", 1000);
  const std::string bad = KeyOf(1, "k", 4);
  ASSERT_NO_FATAL_FAILURE(WaitFolded(/*parity=*/0, "SRS31"));
  cluster_.Run([&] {
    coordinator::ShardCoordinator& shard = *Shard(1)->coordinator();
    const std::uint32_t* const head =
        shard.keys().Find(coordinator::KeyHash(bad, shard.options().hash_seed), bad);
    const srs::Position at =
        Parity(0, "SRS31")
            .layout()
            .Locate(1, std::uint64_t{shard.lines().line(*head).offset_cells} * kCacheLine);
    const_cast<std::byte&>(Parity(0, "SRS31")
                               .ReadRow(static_cast<std::uint32_t>(at.extent), at.row)
                               .bytes[at.parity_offset % (16 * 1024)]) ^= std::byte{1};
  });
  values_.erase(bad);
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  EXPECT_TRUE(absl::IsDataLoss(Get(bad).status())) << Get(bad).status();
  ExpectEverything();
  ASSERT_NO_FATAL_FAILURE(WaitPresent(1, "SRS31"));
  // Its block came, from everybody who had it: another epoch brings nothing new.
  ASSERT_OK(cluster_.Fail(NodeId(4)));
  ASSERT_NO_FATAL_FAILURE(WaitServing());
  cluster_.Run([&] { EXPECT_EQ(MemgestAt(1, "SRS31").lost_count, 1u); });
  EXPECT_OK(client_->Delete(bad).status());
}

// The second failure of each kind.
TEST_F(DecodeTest, E7TheDecodingParityIsLostInTheMiddle) { LoseInTheMiddle(3); }

TEST_F(DecodeTest, E7AnotherDataNodeIsLostInTheMiddle) { LoseInTheMiddle(2); }

TEST_F(DecodeTest, E7TheNewCoordinatorIsLostInTheMiddle) { LoseInTheMiddle(5); }

// The same roles again: what was Decoding is Lost, and comes back in the new epoch.
TEST_F(DecodeTest, S5AnEpochChangeInTheMiddleBeginsTheBlocksAnew) {
  Start(1, SmallBlocksSlowly);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  for (std::uint32_t round = 0; round < 5; ++round) {
    Epoch epoch;
    cluster_.Run([&] { epoch = cluster_.view().groups[kGroup.value()].epoch; });
    ASSERT_OK(cluster_.Apply(cluster::NewEpoch{kGroup, epoch, 0, "test"}));
    for (std::uint16_t shard = 0; shard < 3; ++shard) {
      const std::string key = KeyOf(shard, "SRS32", static_cast<int>(round));
      values_.erase(key);
      client_->Put(key, "x", {.memgest = "SRS32"}).IgnoreError();
    }
  }
  ASSERT_NO_FATAL_FAILURE(WaitServing());
  EXPECT_TRUE(AnyLost(1, "SRS32"));
  ExpectEverything();
}

}  // namespace
}  // namespace ring::node
