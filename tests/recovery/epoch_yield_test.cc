// Who comes first when a node is lost: shards that are taken over, then those whose coordinators
// live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "ring/recovery/epoch_change.h"
#include "tests/recovery/epoch_change_fixture.h"

namespace ring::recovery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = EpochChange::Phase;

TEST_F(EpochChangeTest, ALivingCoordinatorLeavesItsMembersToWhoTakesShardsOver) {
  EpochPlan plan = LivingOn();
  plan.taking_over = 0b10000;
  Start(std::move(plan));
  Pass(EpochChange::Timeouts().yield_ns - 1);
  EXPECT_THAT(actions.sealed, IsEmpty());
  EXPECT_THAT(change->Waiting(), ::testing::HasSubstr("taken over"));
  change->OnTakingOver(0);
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4)) << "at once, not with the next step";
  change->OnTakingOver(0b10000);
  SealAll(9);
  EXPECT_EQ(change->phase(), Phase::kConnecting) << "once it has begun it goes on";
}

TEST_F(EpochChangeTest, ALivingCoordinatorDoesNotWaitForeverForWhoTakesShardsOver) {
  EpochPlan plan = LivingOn();
  plan.taking_over = 0b10000;
  Start(std::move(plan));
  Pass(EpochChange::Timeouts().yield_ns);
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4));
}

TEST_F(EpochChangeTest, WhoTakesShardsOverWaitsForNoOther) {
  EpochPlan plan = TakeOver();
  plan.taking_over = 0b00001;
  Start(std::move(plan));
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace ring::recovery
