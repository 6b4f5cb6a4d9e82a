#include "api/client_owner_search.h"

#include "gtest/gtest.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kRound = OwnerSearch::kRoundNs;

class OwnerSearchTest : public ::testing::Test {
 protected:
  OwnerSearchTest() { search_.Resize(6); }
  OwnerSearch search_;
};

TEST_F(OwnerSearchTest, X3ShardsThatAreSoughtTakeTurns) {
  search_.Seek(4, 104);
  search_.Seek(1, 101);
  search_.Seek(1, 999);  // is sought already
  std::uint64_t now = 1;
  for (const std::size_t shard : {1u, 4u, 1u, 4u}) {
    ASSERT_TRUE(search_.Due(now));
    const OwnerSearch::Round round = search_.Begin(now);
    EXPECT_EQ(round.shard, shard);
    EXPECT_EQ(round.slot, static_cast<int>(100 + shard));
    EXPECT_FALSE(search_.Due(now + kRound));  // one round at a time
    search_.EndSilent();
    now += kRound;
  }
}

TEST_F(OwnerSearchTest, X3TheSecondSilentRoundOfAShardDoubtsTheView) {
  search_.Seek(2, 0);
  search_.Seek(3, 0);
  std::uint64_t now = kRound;
  for (const bool doubts : {false, false, true, true, false, false, true, true}) {
    search_.Begin(now);
    EXPECT_EQ(search_.EndSilent(), doubts);
    now += kRound;
  }
}

TEST_F(OwnerSearchTest, ARoundLastsUntilItsTimeIsOver) {
  search_.Seek(0, 7);
  search_.Begin(100);
  EXPECT_TRUE(search_.asking());
  EXPECT_FALSE(search_.Over(100 + kRound - 1));
  EXPECT_TRUE(search_.Over(100 + kRound));
  // Answered early, the next one begins no sooner.
  search_.EndSilent();
  EXPECT_FALSE(search_.Due(100 + kRound - 1));
  EXPECT_TRUE(search_.Due(100 + kRound));
}

TEST_F(OwnerSearchTest, AFoundOwnerEndsTheSearchAndWhatItCounted) {
  search_.Seek(5, 7);
  search_.Begin(1);
  EXPECT_FALSE(search_.EndSilent());
  search_.Begin(1 + kRound);
  search_.Found(5);
  EXPECT_FALSE(search_.active());
  EXPECT_FALSE(search_.asking());
  search_.Found(5);  // said twice
  search_.Seek(5, 8);
  EXPECT_EQ(search_.Begin(1 + 2 * kRound).slot, 8);
  EXPECT_FALSE(search_.EndSilent());
}

}  // namespace
}  // namespace ring::api
