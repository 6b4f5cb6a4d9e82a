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

// Role 3 was enough for doing without role 4, and then it has to join (step 5): a record that names
// the coordinator alone would have both of them drop what they have, and the next loss be all.
TEST_F(EpochChangeTest, Step3WhoMustJoinIsNoReasonToDoWithoutWhoIsSilent) {
  for (const bool seals : {false, true}) {
    SCOPED_TRACE(seals ? "given up behind its seal" : "silent at its seal");
    actions = RecordedActions();
    EpochPlan plan = LivingOn();
    plan.memgests = {Rep(kRep3, 3)};
    Start(plan);
    for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(9, 9));
    if (seals) {
      change->OnSealed(Role(4), Ends(9, 9));
    } else {
      Pass(1'000'000'000);
    }
    ASSERT_EQ(change->phase(), Phase::kConnecting);
    actions.out_of_range = {3};
    for (const Role role : {Role(1), Role(2), Role(3)}) change->OnConnected(role);
    if (seals) Pass(1'000'000'000);
    EXPECT_THAT(actions.renewed, ElementsAre(4));
    EXPECT_EQ(actions.disconnected, seals ? std::vector<int>{4} : std::vector<int>());
    EXPECT_THAT(actions.proposals, IsEmpty());
    EXPECT_THAT(change->lost(), IsEmpty());
  }
}

// Nobody else has anything: it is the coordinator alone until others have joined.
TEST_F(EpochChangeTest, Step3WhoMustJoinIsDoneWithoutWhereNobodyElseIsThere) {
  EpochPlan plan = LivingOn();
  plan.memgests = {Rep(kRep3, 3)};
  plan.reachable = 0b01110;
  Start(plan);
  for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(9, 9));
  change->OnSealFailed(Role(4), /*gone=*/true);
  actions.out_of_range = {3};
  ConnectAll();
  EXPECT_THAT(actions.renewed, IsEmpty());
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(), ElementsAre(Set(kRep3, 0b00001, 0b00001)));
}

// The others are gone by all that is known, or never had it.
TEST_F(EpochChangeTest, Step3ItGoesOnAloneWhereNobodyElseIsThere) {
  EpochPlan plan = LivingOn();
  plan.reachable = 0b00110;
  Start(plan);
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  EXPECT_EQ(change->phase(), Phase::kConnecting);
}

// X7: the record of the epoch that accepted a loss is not the last one for long.
TEST_F(EpochChangeTest, X7LostRecordsAreTakenOverUntilNobodyAsksForThemAgain) {
  for (const bool settled : {false, true}) {
    EpochPlan plan = LivingOn();
    plan.last->memgests[0].records_lost = true;
    plan.records_settled = settled;
    actions = RecordedActions();
    Start(plan);
    SealAll(9);
    ConnectAll();
    ASSERT_EQ(actions.proposals.size(), 1u);
    const std::vector<cluster::MemgestNormal>& sets = actions.proposals.back();
    EXPECT_EQ(sets[0].records_lost, !settled);
    EXPECT_FALSE(sets[0].lost);
    EXPECT_FALSE(sets[1].records_lost);
  }
}

}  // namespace
}  // namespace ring::recovery
