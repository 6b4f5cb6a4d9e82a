// What an epoch change must not lose: E8, F11, I2, L4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ring/cluster/view.h"
#include "tests/recovery/epoch_change_fixture.h"

namespace ring::recovery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Phase = EpochChange::Phase;

// What is left of them are their keys. A source whose role is another's by now does not go on: with
// Normal it would drop what it has.
TEST_F(EpochChangeTest, E8EntriesWithoutAnybodyWhoHasTheirValuesStopTheShard) {
  EpochPlan plan = TakeOver();
  plan.last->memgests[0].complete = 0b00001;
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));

  plan = TakeOver();
  plan.memgests = {Rep(kRep3, 2)};
  plan.last->memgests = {Set(kRep3, 0b01001, 0b01001)};
  plan.holders[3] = At(6);
  actions = RecordedActions();
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kStopped);

  actions = RecordedActions();
  plan.accepts_all = true;
  Start(plan);
  SealAll(4);
  change->Step(10'000'000'000);  // it does not get its role back in time
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_TRUE(actions.proposals.back().front().lost);
  EXPECT_TRUE(actions.proposals.back().front().records_lost);
}

// It is back as it was: in its former role it goes on, and nothing is lost.
TEST_F(EpochChangeTest, E8AShardThatStoppedAsksForTheRoleOfWhoHasItsValues) {
  EpochPlan plan = TakeOver();
  plan.memgests = {Rep(kRep3, 2)};
  plan.last->memgests = {Set(kRep3, 0b01001, 0b01001)};
  plan.holders[3] = At(6);
  plan.reachable = 0b10110;
  Start(plan);
  SealAll(4);
  ASSERT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(actions.given_back, IsEmpty()) << "it is not there";
  change->OnReachable(0b11110);
  change->OnSealed(Role(3), Ends(4, 4));
  ASSERT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(actions.given_back, ElementsAre(3));
  actions.given_back.clear();
  change->Step(2'000'000);
  EXPECT_THAT(actions.given_back, ElementsAre(3)) << "a proposal may be lost";
}

// Entries that nobody told of are missing whoever holds which role.
TEST_F(EpochChangeTest, E8WhereEntriesAreLostNoRoleIsAskedFor) {
  EpochPlan plan = TakeOver();
  plan.memgests[0].commit = protocol::CommitRule::kQuorum;
  plan.holders[3] = At(6);
  plan.reachable = 0b01000;
  Start(plan);
  change->OnSealed(Role(3), Ends(4, 4));
  ASSERT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(actions.given_back, IsEmpty());
}

// ... also where losses are accepted, for a while.
TEST_F(EpochChangeTest, E8WhatSomebodyHasIsNotGivenUpAtOnce) {
  EpochPlan plan = TakeOver();
  plan.memgests = {Rep(kRep3, 2)};
  plan.last->memgests = {Set(kRep3, 0b01001, 0b01001)};
  plan.holders[3] = At(6);
  plan.accepts_all = true;
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kSealing);
  EXPECT_THAT(actions.given_back, ElementsAre(3));
  change->Step(10'000'000'000);
  EXPECT_EQ(change->phase(), Phase::kFetching) << "it never got its role";
}

TEST_F(EpochChangeTest, E8AnEmptyLogLacksNoValues) {
  EpochPlan plan = TakeOver();
  plan.last->memgests[0].complete = 0b00001;
  Start(std::move(plan));
  SealAll(0);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b11001, 0b00001)));
}

// It was cut off for a while, and has all of its memory.
TEST_F(EpochChangeTest, E8AShardThatStoppedLooksAgainWhenAHolderIsBack) {
  EpochPlan plan = TakeOver();
  plan.reachable = 0b01110;
  Start(std::move(plan));
  SealAll(4);
  ASSERT_EQ(change->phase(), Phase::kStopped);
  change->OnReachable(0b01110);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  change->OnReachable(0b11110);
  EXPECT_EQ(change->phase(), Phase::kSealing);
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4));
  change->OnSealed(Role(4), Ends(6, 4));
  EXPECT_EQ(change->phase(), Phase::kFetching);
  EXPECT_EQ(change->adopted()[0].last, 6u);
}

// Role 3 alone has the values of the second memgest, and lacks entries of the first one that are
// nowhere any more. Its members are connected: who accepts the loss loses just what was told.
TEST_F(EpochChangeTest, E8WhatStoppedBehindBeginGoesOnFromThere) {
  EpochPlan plan = TakeOver();
  plan.memgests = {Rep(kRep3, 3), Rep(kSrs32, 2)};
  plan.last->memgests = {Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b01001, 0b01001)};
  Start(plan);
  SealAll(4);
  change->OnFetched(absl::OkStatus());
  actions.out_of_range = {3};
  ConnectAll();
  ASSERT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kSrs32));
  const std::vector<int> sealed = actions.sealed;
  ASSERT_TRUE(change->AcceptLoss({kSrs32}));
  Pass(1'000'000'000);
  EXPECT_EQ(actions.sealed, sealed);
  EXPECT_EQ(actions.begins, 1);
  EXPECT_THAT(actions.disconnected, ElementsAre(3));
  ASSERT_GE(actions.proposals.size(), 1u);
  const std::vector<cluster::MemgestNormal>& sets = actions.proposals.back();
  EXPECT_EQ(sets[0], (Set(kRep3, 0b10001, 0b10000)));
  EXPECT_TRUE(sets[1].lost);
  EXPECT_EQ(sets[1].active, 0b00001u);

  plan.reachable = 0;  // nobody has anything: nothing is begun yet
  actions = RecordedActions();
  Start(plan);
  ASSERT_EQ(change->phase(), Phase::kStopped);
  EXPECT_FALSE(change->AcceptLoss(change->lost()));
}

// Role 3 alone has the values of one memgest, role 4 those of another, and both lack entries that
// are nowhere any more: who saw only the first of these losses gave up nothing else.
TEST_F(EpochChangeTest, E8WhatIsLostBeyondWhatWasAcceptedStopsTheShardAgain) {
  constexpr MemgestId kThird(7);
  EpochPlan plan = TakeOver();
  plan.memgests = {Rep(kSrs32, 2), Rep(kThird, 3)};
  plan.last->memgests = {Set(kSrs32, 0b01001, 0b01001), Set(kThird, 0b11001, 0b10001)};
  Start(plan);
  for (const int role : std::vector<int>(actions.sealed)) {
    change->OnSealed(Role(static_cast<std::uint16_t>(role)), {{kSrs32, 0, 4}, {kThird, 0, 4}});
  }
  change->OnFetched(absl::OkStatus());
  actions.out_of_range = {3, 4};
  ConnectAll();
  ASSERT_EQ(change->phase(), Phase::kStopped);
  ASSERT_THAT(change->lost(), ElementsAre(kSrs32));
  ASSERT_TRUE(change->AcceptLoss({kSrs32}));
  Pass(1'000'000'000);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kSrs32, kThird));
  EXPECT_THAT(actions.disconnected, ElementsAre(3)) << "role 4 may be the last with values";
  EXPECT_THAT(actions.proposals, IsEmpty());
  ASSERT_TRUE(change->AcceptLoss({kSrs32, kThird}));
  Pass(1'000'000'000);
  EXPECT_THAT(actions.disconnected, ElementsAre(3, 4));

  // The same before anything is begun: nobody has any of them.
  plan.reachable = 0;
  plan.accepted = {kSrs32};
  actions = RecordedActions();
  Start(plan);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  plan.accepted.push_back(kThird);
  Start(plan);
  Pass(10'000'000'000);
  EXPECT_EQ(change->phase(), Phase::kFetching);
}

// No new epoch comes of who goes and has no role.
TEST_F(EpochChangeTest, E8WhoIsGoneIsNotWaitedFor) {
  Start(TakeOver());
  for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(4, 4));
  Pass(1'000'000'000);
  ASSERT_EQ(change->phase(), Phase::kSealing);
  change->OnReachable(0b01110);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  change->OnReachable(0b10110);
  EXPECT_EQ(change->phase(), Phase::kSealing);
  change->OnSealed(Role(4), Ends(5, 5));
  EXPECT_EQ(change->phase(), Phase::kStopped) << "what role 3 answered is gone with it";
}

// I2, L4: the coordinator died, and role 3 is the only other member. Whatever goes wrong with the
// connection to it, nobody may be named without it, and it is not told to begin anew.
TEST_F(EpochChangeTest, I2AnErrorOfALinkCostsNobodyTheLastCopy) {
  for (const protocol::MemgestDescriptor& memgest : {Rep(kRep3, 2), Srs(kRep3, 2, 1)}) {
    for (const char* error : {"breaks", "no memory", "refuses"}) {
      SCOPED_TRACE(error);
      actions = RecordedActions();
      EpochPlan plan = TakeOver();
      plan.memgests = {memgest};
      plan.last->memgests = {Set(kRep3, 0b01001, 0b01001)};
      Start(std::move(plan));
      SealAll(4);
      change->OnFetched(absl::OkStatus());
      if (error[0] == 'b') actions.broken = {3};
      if (error[0] == 'n') actions.reappend = absl::ResourceExhaustedError("no staging");
      for (int i = 0; i < 400; ++i) {
        if (error[0] == 'r') change->OnConnectFailed(Role(3));
        ConnectAll();
        if (error[0] == 'r') actions.connected.clear();
        Pass(5'000'000);
      }
      EXPECT_THAT(actions.proposals, IsEmpty());
      EXPECT_THAT(actions.joining, IsEmpty());
      EXPECT_THAT(actions.disconnected, Not(Contains(3)));
      EXPECT_THAT(actions.renewed, Contains(3));
    }
  }
}

// F11: nor does it cost redundancy what this node has not got just now.
TEST_F(EpochChangeTest, F11WhatTheCoordinatorLacksIsTriedAgain) {
  EpochPlan plan = LivingOn();
  Start(std::move(plan));
  SealAll(9);
  actions.reappend = absl::ResourceExhaustedError("no staging");
  ConnectAll();
  Pass(1'000'000'000);
  EXPECT_THAT(actions.disconnected, IsEmpty());
  EXPECT_THAT(actions.proposals, IsEmpty());
  EXPECT_THAT(actions.renewed, Not(IsEmpty()));
  actions.reappend = absl::OkStatus();
  Pass(40'000'000);  // calls that failed for long are made again more rarely
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b11001, 0b11001)));
}

// Who cannot be reached for long counts as lost, if the others have all of it.
TEST_F(EpochChangeTest, Step5WhoIsNotConnectedInTimeIsDoneWithoutIfThatCanBeBorne) {
  for (const int absent_shards : {0, 1}) {
    actions = RecordedActions();
    EpochPlan plan = TakeOver();
    plan.absent_shards = absent_shards;
    Start(std::move(plan));
    SealAll(4);
    change->OnFetched(absl::OkStatus());
    for (const Role role : {Role(1), Role(2), Role(3)}) change->OnConnected(role);
    Pass(500'000'000);
    EXPECT_THAT(actions.proposals, IsEmpty());
    Pass(500'000'000);
    if (absent_shards == 0) {
      ASSERT_EQ(actions.proposals.size(), 1u);
      EXPECT_EQ(actions.proposals.back().front().active, 0b01001u);
    } else {
      EXPECT_THAT(actions.proposals, IsEmpty()) << "two shards are decoded with two parities";
      EXPECT_THAT(actions.renewed, ElementsAre(4));
    }
  }
}

// A silence is no loss (L4), whatever the policy is: role 4 may have what was acknowledged.
TEST_F(EpochChangeTest, E8AnOverrunWaitsForWhoIsOnlySlowToSeal) {
  EpochPlan plan = TakeOver();
  plan.accepts_all = true;
  Start(plan);
  for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(4, 4));
  change->OnSealFailed(Role(4), /*gone=*/false);
  Pass(5'000'000'000);
  ASSERT_EQ(change->phase(), Phase::kSealing);
  EXPECT_THAT(actions.renewed, IsEmpty());
  change->OnSealed(Role(4), Ends(6, 4));
  EXPECT_EQ(change->phase(), Phase::kFetching);
  EXPECT_THAT(change->lost(), IsEmpty());
  EXPECT_EQ(change->adopted()[0].last, 6u);

  actions = RecordedActions();
  Start(plan);
  for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(4, 4));
  Pass(5'000'000'000);
  change->OnReachable(0b01110);
  EXPECT_EQ(change->phase(), Phase::kFetching) << "who is gone is overrun";
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
}

// Other shards of the group were taken over, and all of their blocks are Lost: with the next Normal
// the parity would begin again for all.
TEST_F(EpochChangeTest, S7AParityThatAnotherShardNeedsIsNotDroppedForItsSilence) {
  EpochPlan plan = LivingOn();
  plan.memgests = {Srs(kSrs32, 3, 2)};
  plan.last->memgests = {Set(kSrs32, 0b11001, 0b11001)};
  plan.absent_shards = 2;
  for (const char* then : {"seals", "gone", "whole"}) {
    SCOPED_TRACE(then);
    actions = RecordedActions();
    Start(plan);
    for (const Role role : {Role(1), Role(2), Role(4)}) change->OnSealed(role, Ends(9, 9));
    change->OnSealFailed(Role(3), /*gone=*/false);
    Pass(5'000'000'000);
    ASSERT_EQ(change->phase(), Phase::kSealing);
    if (then[0] == 's') change->OnSealed(Role(3), Ends(9, 9));
    if (then[0] == 'g') change->OnReachable(0b10110);
    if (then[0] == 'w') change->OnAbsentShards(0);
    ConnectAll();
    ASSERT_EQ(actions.proposals.size(), 1u);
    EXPECT_EQ(actions.proposals.back().front().active, then[0] == 's' ? 0b11001u : 0b10001u);
  }
}

// ... but of two that are silent only as many are waited for as are needed.
TEST_F(EpochChangeTest, S7TheFirstParityThatSealsIsEnoughIfOneIsNeeded) {
  EpochPlan plan = LivingOn();
  plan.absent_shards = 1;
  Start(plan);
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  Pass(1'000'000'000);
  ASSERT_EQ(change->phase(), Phase::kSealing);
  change->OnSealed(Role(4), Ends(9, 9));
  EXPECT_EQ(change->phase(), Phase::kConnecting);

  plan = TakeOver();  // it lacks its own blocks, too
  plan.memgests = {Srs(kSrs32, 3, 2)};
  plan.absent_shards = 1;
  Start(plan);
  for (const Role role : {Role(1), Role(2), Role(4)}) change->OnSealed(role, Ends(9, 9));
  Pass(1'000'000'000);
  ASSERT_EQ(change->phase(), Phase::kSealing);
  change->OnSealed(Role(3), Ends(9, 9));
  EXPECT_EQ(change->phase(), Phase::kFetching);
}

// Role 3 lacks more than can be sent again and will join: the values are role 4's alone, however
// long its connection fails.
TEST_F(EpochChangeTest, E8WhoIsToJoinIsNobodysExcuseToDropAnother) {
  for (const bool overrun : {false, true}) {
    actions = RecordedActions();
    Start(TakeOverRep3(overrun));
    change->OnSealed(Role(1), {});
    change->OnSealed(Role(2), {});
    change->OnSealed(Role(3), {{kRep3, 0, 40}});
    change->OnSealed(Role(4), {{kRep3, 0, 300}});
    change->OnFetched(absl::OkStatus());
    actions.out_of_range = {3};
    for (const Role role : {Role(1), Role(2), Role(3)}) change->OnConnected(role);
    Pass(1'000'000'000);
    EXPECT_THAT(actions.renewed, ElementsAre(4));
    EXPECT_THAT(actions.disconnected, Not(Contains(4)));
    change->OnConnected(Role(4));
    Pass(1'000'000);
    EXPECT_THAT(change->lost(), IsEmpty());
    EXPECT_THAT(actions.disconnected, ElementsAre(3));
    ASSERT_EQ(actions.proposals.size(), 1u);
    EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b10001, 0b10000)));
  }
}

TEST_F(EpochChangeTest, E8ALogThatOnlyWhoIsToJoinHasTheValuesOfStopsBeforeAnythingIsBegun) {
  EpochPlan plan = TakeOverRep3();
  plan.last->memgests = {Set(kRep3, 0b11001, 0b01001)};
  Start(plan);
  change->OnSealed(Role(1), {});
  change->OnSealed(Role(2), {});
  change->OnSealed(Role(3), {{kRep3, 0, 40}});
  change->OnSealed(Role(4), {{kRep3, 0, 300}});
  EXPECT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
}

// What role 3 lacks turns out to be in no ring, when role 4 was given up because 3 was there.
TEST_F(EpochChangeTest, E8WhoWasGivenUpForAnotherIsAskedForWhenThatOneMustJoin) {
  for (const bool overrun : {false, true}) {
    actions = RecordedActions();
    Start(TakeOverRep3(overrun));
    SealAll(9);
    change->OnFetched(absl::OkStatus());
    actions.out_of_range = {3};
    for (const Role role : {Role(1), Role(2), Role(3)}) change->OnConnected(role);
    Pass(1'000'000'000);
    EXPECT_THAT(actions.disconnected, ElementsAre(4));
    EXPECT_THAT(actions.renewed, ElementsAre(4));
    EXPECT_EQ(change->phase(), Phase::kReappending);
    Pass(100'000'000);
    EXPECT_EQ(change->phase(), Phase::kReappending);
    EXPECT_THAT(change->lost(), IsEmpty());
    EXPECT_THAT(actions.proposals, IsEmpty());
  }
}

// ... or had not sealed, as it was not needed then.
TEST_F(EpochChangeTest, E8NorIsWhoWasSilentAtItsSealForgotten) {
  for (const bool overrun : {false, true}) {
    actions = RecordedActions();
    EpochPlan plan = TakeOverRep3(overrun);
    plan.memgests = {Rep(kRep3, 4)};
    plan.last->memgests = {Set(kRep3, 0b11011, 0b11001)};  // role 1 is still to get the values
    Start(plan);
    for (const Role role : {Role(1), Role(2), Role(4)}) change->OnSealed(role, Ends(9, 9));
    Pass(1'000'000'000);
    ASSERT_EQ(change->phase(), Phase::kFetching);
    change->OnFetched(absl::OkStatus());
    actions.out_of_range = {4};
    for (const Role role : {Role(1), Role(2), Role(4)}) change->OnConnected(role);
    EXPECT_EQ(change->phase(), Phase::kReappending);
    EXPECT_THAT(actions.renewed, ElementsAre(3));
    EXPECT_THAT(change->lost(), IsEmpty());
    EXPECT_THAT(actions.disconnected, IsEmpty());
  }
}

// No epoch would mend it: both have to join.
TEST_F(EpochChangeTest, E8WhereAllMustJoinTheShardStopsAndAsksForNoEpoch) {
  Start(TakeOverRep3());
  SealAll(9);
  change->OnFetched(absl::OkStatus());
  actions.out_of_range = {3, 4};
  ConnectAll();
  EXPECT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
  EXPECT_THAT(actions.renewed, IsEmpty());
}

// Parities that have to join other shards ask to be done without here: what they have goes then.
TEST_F(EpochChangeTest, S6OfTwoThatLeaveOneIsDoneWithout) {
  Start(LivingOn());
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  for (const Role role : {Role(3), Role(4)}) change->OnSealed(role, Ends(9, 9), /*leaves=*/true);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back()[0].active, 0b10001u);
  EXPECT_EQ(actions.proposals.back()[1].active, 0b10001u);
}

// Role 2 is nobody's, and has nothing of the shard: it is not missed.
TEST_F(EpochChangeTest, S6AVacantRoleOfNoMemgestKeepsNobodyFromLeaving) {
  EpochPlan plan = LivingOn();
  plan.holders[2] = plan.last->holders[2] = cluster::Holder{cluster::kNoNode, Incarnation()};
  Start(std::move(plan));
  change->OnSealed(Role(1), Ends(9, 9));
  for (const Role role : {Role(3), Role(4)}) change->OnSealed(role, Ends(9, 9), /*leaves=*/true);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back()[0].active, 0b10001u);
}

// Of two, the other one may be cut off from this node alone, and the one that stays be lost next.
TEST_F(EpochChangeTest, S6NobodyLeavesWhileAnotherIsMissing) {
  Start(LivingOn());
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  change->OnSealed(Role(3), Ends(9, 9), /*leaves=*/true);
  Pass(1'000'000'000);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back()[0].active, 0b01001u);
}

TEST_F(EpochChangeTest, S6WhoTakesOverDoesNotLetAnybodyLeave) {
  Start(TakeOver());
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, Ends(9, 9));
  for (const Role role : {Role(3), Role(4)}) change->OnSealed(role, Ends(9, 9), /*leaves=*/true);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back()[0].active, 0b11001u);
}

// The coordinator lives on, and has not all values itself (E7).
TEST_F(EpochChangeTest, S6WhoHasTheOnlyValuesMayNotLeave) {
  EpochPlan plan = LivingOn();
  plan.last->memgests[0].complete = 0b01000;
  Start(std::move(plan));
  for (const Role role : {Role(1), Role(2), Role(4)}) change->OnSealed(role, Ends(9, 9));
  change->OnSealed(Role(3), Ends(9, 9), /*leaves=*/true);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back()[0].active, 0b11001u);
}

}  // namespace
}  // namespace ring::recovery
