// A shard whose coordinator lives on: it has everything, and is one.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recovery/epoch_change_fixture.h"

namespace ring::recovery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = EpochChange::Phase;

// It got the last of them after the record: nobody else has them, and nothing is lost.
TEST_F(EpochChangeTest, E8ACoordinatorThatLivesOnAndHasAllValuesNeedsNobodyElse) {
  EpochPlan plan = LivingOn();
  plan.memgests = {Srs(kSrs32, 3, 1)};
  plan.last->memgests = {Set(kSrs32, 0b01001, 0b01000)};
  plan.holders[3] = At(6);
  plan.reachable = 0b10111;
  Start(plan);
  SealAll(9);
  EXPECT_EQ(change->phase(), Phase::kStopped) << "it lacks some";

  actions = RecordedActions();
  plan.own_complete = {kSrs32};
  Start(plan);
  SealAll(9);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(), ElementsAre(Set(kSrs32, 0b00001, 0b00001)));
}

// Step 3: it counts as one. The others may be cut off from it alone, and it may be lost next.
TEST_F(EpochChangeTest, Step3ACoordinatorThatLivesOnIsNotEnough) {
  Start(LivingOn());
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  Pass(5'000'000'000);
  EXPECT_EQ(change->phase(), Phase::kSealing);
  change->OnSealed(Role(3), Ends(9, 9));
  EXPECT_EQ(change->phase(), Phase::kConnecting);
}

TEST_F(EpochChangeTest, Step3NorIsItIfTheOthersCannotBeConnected) {
  Start(LivingOn());
  SealAll(9);
  for (const Role role : {Role(1), Role(2)}) change->OnConnected(role);
  Pass(1'000'000'000);
  EXPECT_THAT(actions.disconnected, ElementsAre(3));
  EXPECT_THAT(actions.renewed, ElementsAre(4));
  EXPECT_THAT(actions.proposals, IsEmpty());
}

// The others are gone by all that is known, or never had it.
TEST_F(EpochChangeTest, Step3ItGoesOnAloneWhereNobodyElseIsThere) {
  EpochPlan plan = LivingOn();
  plan.reachable = 0b00110;
  Start(plan);
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  EXPECT_EQ(change->phase(), Phase::kConnecting);
}

}  // namespace
}  // namespace ring::recovery
