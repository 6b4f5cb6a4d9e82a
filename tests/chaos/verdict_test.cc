#include "tests/chaos/verdict.h"

#include <gtest/gtest.h>

namespace ring::chaos {
namespace {

using sim::Operation;
using sim::OpKind;
using sim::OpResult;

constexpr int kKey = 7;

class VerdictTest : public ::testing::Test {
 protected:
  // Times are milliseconds; f: of the memgest that the answer names.
  void Add(OpKind kind, sim::ValueId value, std::uint64_t version, int f, std::uint64_t invoke_ms,
           std::uint64_t return_ms, OpResult result = OpResult::kOk) {
    Operation op;
    op.kind = kind;
    op.key = kKey;
    op.value = value;
    if (version != 0) op.version = Version(Epoch(1), version);
    op.tolerates = f;
    op.invoke_ns = invoke_ms * 1'000'000;
    op.return_ns = return_ms * 1'000'000;
    op.result = result;
    history_.Add(op);
  }
  void Lose(std::uint64_t from_ms, std::uint64_t until_ms) {
    losses_.push_back(
        {routing_.OfKey(sim::KeyName(kKey)), Epoch(2), from_ms * 1'000'000, until_ms * 1'000'000});
  }
  std::size_t Wrong() { return CheckHistory(history_, losses_, routing_).violations.size(); }

  cluster::Routing routing_{3, 2};
  sim::History history_;
  std::vector<OwnerLoss> losses_;
};

TEST_F(VerdictTest, G6AValueInRep1MayGoWithItsCoordinatorAndOnlyThen) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 0, 3, 4);
  Add(OpKind::kGet, 1, 10, 1, 50, 51);  // the older one again
  EXPECT_GT(Wrong(), 0u);
  Lose(20, 40);
  EXPECT_EQ(Wrong(), 0u);
  EXPECT_EQ(CheckHistory(history_, losses_, routing_).keys_with_losses, 1u);
}

TEST_F(VerdictTest, I2AValueThatSurvivesALossMayNotGo) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 1, 3, 4);
  Add(OpKind::kGet, 1, 10, 1, 50, 51);
  Lose(20, 40);
  EXPECT_GT(Wrong(), 0u);
}

TEST_F(VerdictTest, I2AKeyThatIsGoneIsAViolation) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kGet, 0, 0, -1, 50, 51, OpResult::kNotFound);
  Lose(20, 40);
  EXPECT_GT(Wrong(), 0u);
}

// The first view that tells of a loss may be late, and the interval begin before the first answer.
TEST_F(VerdictTest, G6AnIntervalThatHoldsAllAnswersStillExplainsTheLoss) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 0, 3, 4);
  Add(OpKind::kGet, 2, 11, 0, 5, 6);
  Add(OpKind::kGet, 1, 10, 1, 50, 51);
  Lose(0, 60);
  EXPECT_EQ(Wrong(), 0u);
  EXPECT_EQ(CheckHistory(history_, losses_, routing_).keys_with_losses, 1u);
}

// Told of during the loss: whether it was made before or after it, nobody can say.
TEST_F(VerdictTest, G6AnAnswerThatOverlapsTheLossOwesNothing) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 0, 19, 45);
  Add(OpKind::kGet, 1, 10, 1, 50, 51);
  Lose(20, 40);
  EXPECT_EQ(Wrong(), 0u);
}

TEST_F(VerdictTest, G6ALossOfAnotherShardExcusesNothing) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 0, 3, 4);
  Add(OpKind::kGet, 1, 10, 1, 50, 51);
  Lose(20, 40);
  const bool first = losses_[0].place.shard == ShardId(0);
  losses_[0].place.shard = first ? ShardId(1) : ShardId(0);
  EXPECT_GT(Wrong(), 0u);
}

TEST_F(VerdictTest, I1WhatWasToldIsNeverOlderThanWhatWasToldBefore) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 1, 3, 6);
  Add(OpKind::kGet, 2, 11, 1, 4, 5);
  Add(OpKind::kGet, 1, 10, 1, 7, 8);
  EXPECT_GT(Wrong(), 0u);
}

TEST_F(VerdictTest, AHistoryWithoutFaultsIsSearched) {
  Add(OpKind::kPut, 1, 10, 1, 1, 2);
  Add(OpKind::kPut, 2, 11, 0, 3, 6);
  Add(OpKind::kGet, 1, 10, 1, 4, 5);
  Add(OpKind::kDelete, 0, 12, 1, 7, 8);
  Add(OpKind::kGet, 0, 0, -1, 9, 10, OpResult::kNotFound);
  const Verdict verdict = CheckHistory(history_, losses_, routing_);
  EXPECT_TRUE(verdict.violations.empty());
  EXPECT_EQ(verdict.search_keys, 1u);
  EXPECT_EQ(verdict.operations, 5u);
  EXPECT_EQ(verdict.answered, 5u);
}

TEST_F(VerdictTest, AKeyWhoseSearchIsGivenUpIsNamedAndFailsTheRun) {
  for (std::uint64_t i = 0; i < 10; ++i) Add(OpKind::kPut, 1 + i, 10 + i, 1, 1, 40);
  Add(OpKind::kGet, 10, 19, 1, 50, 51);
  const Verdict searched = CheckHistory(history_, losses_, routing_);
  EXPECT_TRUE(searched.violations.empty());
  EXPECT_EQ(searched.search_given_up, 0u);
  const Verdict verdict = CheckHistory(history_, losses_, routing_, /*search_step_max=*/3);
  EXPECT_EQ(verdict.search_given_up, 1u);
  ASSERT_EQ(verdict.violations.size(), 1u);
  EXPECT_EQ(verdict.violations[0].kind, "given-up");
  EXPECT_NE(verdict.violations[0].detail.find(sim::KeyName(kKey)), std::string::npos);
}

TEST_F(VerdictTest, ARunWithoutAnswersOrWithoutFaultsShowsNothing) {
  const auto wrong = [this](const std::map<std::string, int>& injected) {
    return CheckRun(CheckHistory(history_, losses_, routing_), injected).size();
  };
  EXPECT_EQ(wrong({{"kill", 1}}), 1u);
  EXPECT_EQ(wrong({}), 2u);
  Add(OpKind::kPut, 1, 0, 1, 1, 2, OpResult::kUnknown);
  EXPECT_EQ(wrong({{"kill", 1}}), 1u);
  Add(OpKind::kGet, 0, 0, -1, 3, 4, OpResult::kNotFound);
  EXPECT_EQ(wrong({{"kill", 1}}), 0u);
  EXPECT_EQ(wrong({{"kill", 0}, {"nic", 0}}), 1u);
}

}  // namespace
}  // namespace ring::chaos
