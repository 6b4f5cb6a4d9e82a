// One shard's way into a new epoch, step by step.
#include "ring/recovery/epoch_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ring/cluster/active_roles.h"
#include "tests/recovery/epoch_change_fixture.h"

namespace ring::recovery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Phase = EpochChange::Phase;

TEST_F(EpochChangeTest, AFreshShardNeedsNoSealAndNamesEverybody) {
  EpochPlan plan = TakeOver();
  plan.last.reset();
  Start(std::move(plan));
  EXPECT_THAT(actions.sealed, IsEmpty());
  EXPECT_EQ(actions.fetches, 0);
  EXPECT_THAT(actions.connected, ElementsAre(1, 2, 3, 4));
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b11001, 0b11001)));
}

TEST_F(EpochChangeTest, StepsComeInOrderAndNothingIsServedBeforeNormal) {
  Start(TakeOver());
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(actions.fetches, 0);
  SealAll(7);
  EXPECT_EQ(change->phase(), Phase::kFetching);
  EXPECT_EQ(actions.begins, 0);
  change->OnFetched(absl::OkStatus());
  EXPECT_EQ(actions.begins, 1);
  EXPECT_THAT(actions.reappended, IsEmpty());
  actions.unacked = {4};
  ConnectAll();
  EXPECT_THAT(actions.reappended, ElementsAre(1, 2, 3, 4));
  Pass(1000);
  EXPECT_THAT(actions.proposals, IsEmpty()) << "E2: one member lacks the tail yet";
  actions.unacked.clear();
  Pass(1000);
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.served, IsEmpty());
  // The new coordinator's own values are still to come.
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b11001, 0b11000)));
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(actions.served.size(), 1u);
  EXPECT_EQ(change->phase(), Phase::kServing);
  Pass(1'000'000'000);
  EXPECT_EQ(actions.proposals.size(), 1u);
}

TEST_F(EpochChangeTest, V2AMemgestThatIsMadeMeanwhileIsNamedToo) {
  Start(TakeOver());
  SealAll(7);
  std::vector<protocol::MemgestDescriptor> memgests = change->plan().memgests;
  memgests.push_back(Rep(MemgestId(3), 2));
  change->OnCatalogue(memgests);
  change->OnCatalogue(memgests);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  ASSERT_EQ(actions.proposals.back().size(), 3u);
  EXPECT_EQ(actions.proposals.back().back().id, MemgestId(3));
  EXPECT_EQ(actions.proposals.back().back().active, 0b01001u);
}

TEST_F(EpochChangeTest, Step3WaitsForAllThatAreThereAndThenOnlyForEnough) {
  Start(TakeOver());
  for (const int role : {1, 2, 3})
    change->OnSealed(Role(static_cast<std::uint16_t>(role)), Ends(4, 4));
  Pass(100'000'000);
  EXPECT_EQ(change->phase(), Phase::kSealing);
  Pass(1'000'000'000);
  EXPECT_EQ(change->phase(), Phase::kSealing)
      << "Rep(3) lacks an answer: one of three tells nothing";
  change->OnSealed(Role(4), Ends(5, 4));
  EXPECT_EQ(change->phase(), Phase::kFetching);
}

TEST_F(EpochChangeTest, E8TooFewSurvivorsStopTheShardUnlessToldToGoOn) {
  EpochPlan plan = TakeOver();
  plan.reachable = 0b01110;
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kStopped);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
  EXPECT_THAT(actions.connected, IsEmpty());

  actions = RecordedActions();
  plan.accepts_all = true;
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kFetching);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
}

// G11: it was made when those who were to hold it had gone, and the record does not know it.
TEST_F(EpochChangeTest, E8AMemgestThatNobodyCouldUseYetStopsNoShard) {
  EpochPlan plan = TakeOver();
  plan.reachable = 0b11110 & ~0b01000u;
  protocol::MemgestDescriptor made = Rep(MemgestId(9), 2);
  made.commit = protocol::CommitRule::kAll;
  plan.memgests.push_back(made);
  Start(plan);
  change->OnSealed(Role(4), Ends(4, 4));
  Pass(1'000'000'000);
  EXPECT_THAT(change->lost(), Contains(MemgestId(9))) << "it may have been written into";

  actions = RecordedActions();
  plan.memgests.back().state = protocol::MemgestState::kCreating;
  Start(plan);
  change->OnSealed(Role(4), Ends(4, 4));
  Pass(1'000'000'000);
  EXPECT_THAT(change->lost(), Not(Contains(MemgestId(9))));
}

TEST_F(EpochChangeTest, E6AJoinerIsNotNamedBeforeItHasEverything) {
  EpochPlan plan = LivingOn();
  plan.holders[3] = At(5);
  plan.reachable = 0b10111;
  Start(std::move(plan));
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 4));
  SealAll(9);
  EXPECT_EQ(actions.fetches, 0) << "a living coordinator has its own log";
  ConnectAll();
  EXPECT_THAT(actions.reappended, ElementsAre(1, 2, 4));
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b10001, 0b10001)));
  EXPECT_THAT(actions.connected, Not(Contains(3))) << "it may have what an abandoned change needs";
  change->OnNormal(actions.proposals.back());
  EXPECT_THAT(actions.joining, ElementsAre(3));
  change->OnConnected(Role(3));
  EXPECT_THAT(actions.joins, ElementsAre(3));
  change->OnJoined(Role(3), absl::UnavailableError("went away"));
  EXPECT_THAT(actions.disconnected, ElementsAre(3)) << "its ring belongs to no snapshot any more";
  EXPECT_EQ(actions.proposals.size(), 1u);
  Pass(1'000'000'000);
  change->OnConnected(Role(3));
  EXPECT_THAT(actions.joins, ElementsAre(3, 3));
  EXPECT_TRUE(change->OnLearnerLost(Role(3)));
  Pass(1'000'000'000);
  change->OnConnected(Role(3));
  change->OnJoined(Role(3), absl::OkStatus(), {{kSrs32, 17}});
  ASSERT_EQ(actions.proposals.size(), 2u);
  // The values are still to come, and what the parity was before extent 17 (S6).
  cluster::MemgestNormal from = Set(kSrs32, 0b11001, 0b10001);
  from.active_from = {{Role(3), 17}};
  EXPECT_THAT(actions.proposals.back(), ElementsAre(Set(kRep3, 0b11001, 0b10001), from));
  EXPECT_EQ(actions.served.size(), 1u);
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(actions.served.size(), 2u);
  EXPECT_FALSE(change->OnLearnerLost(Role(3))) << "it counts";
  EXPECT_EQ(change->Incomplete(Rep(kRep3, 3)), 0b01000u);
  change->OnComplete(Role(3), kRep3);
  ASSERT_EQ(actions.proposals.size(), 3u);
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b11001, 0b11001)));
  // A shard tells so in every turn.
  change->OnComplete(Role(3), kRep3);
  change->OnNormal(actions.proposals.back());
  change->OnComplete(Role(3), kRep3);
  Pass(1'000'000'000);
  EXPECT_EQ(actions.proposals.size(), 3u);
}

// Serves in the epoch in which node 5 got role 4; node 5 takes shards over.
class DeferredJoinTest : public EpochChangeTest {
 protected:
  void Serve() {
    EpochPlan plan = LivingOn();
    plan.holders[4] = At(5);
    plan.reachable = 0b01111;
    plan.taking_over = 0b10000;
    Start(std::move(plan));
    Pass(EpochChange::Timeouts().yield_ns);
    SealAll(9);
    ConnectAll();
    change->OnNormal(actions.proposals.back());
    ASSERT_EQ(change->phase(), Phase::kServing);
  }
};

TEST_F(DeferredJoinTest, WhoTakesShardsOverJoinsOthersWhenItServesThem) {
  Serve();
  Pass(100'000'000);
  EXPECT_THAT(actions.connected, Not(Contains(4))) << "its own shards are served by nobody";
  change->OnTakingOver(0);
  EXPECT_THAT(actions.connected, Contains(4));
  EXPECT_THAT(actions.joining, Contains(4));
}

TEST_F(DeferredJoinTest, ItJoinsAllTheSameWhenItNeverServesThem) {
  Serve();
  Pass(EpochChange::Timeouts().defer_ns - 1);
  EXPECT_THAT(actions.connected, Not(Contains(4)));
  Pass(1);
  EXPECT_THAT(actions.joining, Contains(4));
}

TEST_F(DeferredJoinTest, S13ItJoinsAtOnceIfTooFewCountWithoutIt) {
  EpochPlan plan = LivingOn();
  plan.memgests = {Rep(kRep3, 2)};
  plan.last->memgests = {Set(kRep3, 0b01001, 0b01001)};
  plan.own_logs = {{kRep3, 9, 9}};
  plan.holders[3] = At(5);
  plan.reachable = 0b10111;
  plan.taking_over = 0b01000;
  Start(std::move(plan));
  Pass(EpochChange::Timeouts().yield_ns);
  for (const int role : std::vector<int>(actions.sealed))
    change->OnSealed(Role(static_cast<std::uint16_t>(role)), {{kRep3, 0, 9}});
  ConnectAll();
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(change->phase(), Phase::kServing);
  EXPECT_THAT(actions.joining, ElementsAre(3)) << "of two copies both have to take an entry";
}

TEST_F(EpochChangeTest, L7WhatWasProposedStaysProposedUntilItsOutcomeIsKnown) {
  EpochPlan plan = LivingOn();
  plan.holders[3] = At(5);
  plan.holders[4] = At(6);
  plan.reachable = 0b00111;
  plan.memgests = {Rep(kRep3, 3)};
  plan.accepts_all = true;
  Start(std::move(plan));
  SealAll(9);
  ConnectAll();
  change->OnNormal(actions.proposals.back());
  change->OnConnected(Role(3));
  change->OnConnected(Role(4));
  change->OnJoined(Role(3), absl::OkStatus());
  change->OnJoined(Role(4), absl::OkStatus());
  Pass(1'000'000'000);
  EXPECT_EQ(actions.proposals.back().front().active, 0b01001u);
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(actions.proposals.back().front().active, 0b11001u);
}

// The epoch may end with any record, and who counts for one memgest does not join for another.
TEST_F(EpochChangeTest, S6OneRecordNamesAJoinerForAllItsMemgests) {
  constexpr MemgestId kUnused(3);
  EpochPlan plan = LivingOn();
  plan.holders[3] = At(5);
  plan.reachable = 0b10111;
  plan.memgests.push_back(Srs(kUnused, 2, 1));
  plan.last->memgests.push_back(Set(kUnused, 0b01001, 0b01001));
  Start(plan);
  SealAll(9);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(kRep3, 0b10001, 0b10001), Set(kSrs32, 0b10001, 0b10001),
                          Set(kUnused, 0b00001, 0b00001)));
  change->OnNormal(actions.proposals.back());
  change->OnConnected(Role(3));
  change->OnJoined(Role(3), absl::OkStatus(), {{kSrs32, 17}, {kUnused, 0}});
  ASSERT_EQ(actions.proposals.size(), 2u);
  cluster::MemgestNormal from = Set(kSrs32, 0b11001, 0b10001);
  from.active_from = {{Role(3), 17}};
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(kRep3, 0b11001, 0b10001), from, Set(kUnused, 0b01001, 0b01001)))
      << "it has all of what was never used";

  // The next epoch goes on from there.
  plan.last->epoch = plan.epoch;
  plan.last->holders = plan.holders;
  plan.last->memgests = actions.proposals.back();
  plan.epoch = Epoch(3);
  plan.reachable = 0b11111;
  actions = RecordedActions();
  Start(plan);
  SealAll(9);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back(), plan.last->memgests);
  change->OnNormal(actions.proposals.back());
  change->OnComplete(Role(3), kSrs32);
  ASSERT_EQ(actions.proposals.size(), 2u);
  EXPECT_EQ(actions.proposals.back()[1], Set(kSrs32, 0b11001, 0b11001));
}

TEST_F(EpochChangeTest, S6AJoinerHasAllOfAMemgestThatIsMadeWhileItJoins) {
  constexpr MemgestId kMade(7);
  EpochPlan plan = LivingOn();
  plan.holders[3] = At(5);
  plan.reachable = 0b10111;
  Start(plan);
  SealAll(9);
  ConnectAll();
  change->OnNormal(actions.proposals.back());
  change->OnConnected(Role(3));
  EXPECT_THAT(actions.joins, ElementsAre(3));
  plan.memgests.push_back(Srs(kMade, 2, 1));
  change->OnCatalogue(plan.memgests);
  change->OnJoined(Role(3), absl::OkStatus(), {{kSrs32, 17}});
  ASSERT_EQ(actions.proposals.back().size(), 3u);
  EXPECT_EQ(actions.proposals.back().back(), Set(kMade, 0b01001, 0b01001));
}

TEST_F(EpochChangeTest, E5WhoIsDemotedIsSealedAndBeginsAnew) {
  EpochPlan plan = TakeOver();
  plan.demoted = 0b01000;
  Start(std::move(plan));
  EXPECT_THAT(actions.sealed, ElementsAre(1, 2, 3, 4)) << "what it has may be needed";
  SealAll(9);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front().active, 0b10001u);
  change->OnNormal(actions.proposals.back());
  EXPECT_THAT(actions.joining, ElementsAre(3));
}

// Step 5: of each log, what the shortest of those that go on lacks; not of one that needs a
// snapshot anyhow.
TEST_F(EpochChangeTest, Step5TheShortestLogOfWhoGoesOnSaysWhatIsShipped) {
  Start(TakeOver());
  change->OnSealed(Role(1), {});
  change->OnSealed(Role(2), {});
  change->OnSealed(Role(3), Ends(900, 440));
  change->OnSealed(Role(4), Ends(905, 500));
  ASSERT_EQ(change->adopted().size(), 2u);
  EXPECT_EQ(change->adopted()[0].last, 905u);
  EXPECT_EQ(change->adopted()[0].shortest, 900u);
  EXPECT_EQ(change->adopted()[1].last, 500u);
  EXPECT_EQ(change->adopted()[1].shortest, 440u);
}

// It may be what the shard waits for already.
TEST_F(EpochChangeTest, E5ACoordinatorThatLivesOnDoesNotWaitForWhoIsDemoted) {
  EpochPlan plan = LivingOn();
  plan.demoted = 0b10000;
  Start(std::move(plan));
  EXPECT_THAT(actions.sealed, ::testing::Contains(4)) << "what it has may be needed";
  for (const Role role : {Role(1), Role(2), Role(3)}) change->OnSealed(role, Ends(9, 9));
  EXPECT_NE(change->phase(), EpochPhase::kSealing);
}

TEST_F(EpochChangeTest, V2AMemgestThatIsCreatedDuringTheChangeIsNamed) {
  EpochPlan plan = TakeOver();
  std::vector<protocol::MemgestDescriptor> memgests = plan.memgests;
  Start(std::move(plan));
  memgests.push_back(Rep(MemgestId(9), 2));
  change->OnCatalogue(memgests);
  SealAll(7);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  ASSERT_EQ(actions.proposals.back().size(), 3u);
  EXPECT_EQ(actions.proposals.back().back().id, MemgestId(9));
  EXPECT_EQ(actions.proposals.back().back().active, 0b01001u);
}

// F11: a device that has no memory for it says so at once.
TEST_F(EpochChangeTest, WhatIsRefusedForLongIsAskedForEverMoreRarely) {
  Start(TakeOver());
  SealAll(7);
  change->OnFetched(absl::OkStatus());
  change->OnConnected(Role(1));
  const auto attempts = [this] {
    return std::count(actions.connected.begin(), actions.connected.end(), 4);
  };
  const auto refuse_for = [&](int steps) {
    const auto before = attempts();
    for (int i = 0; i < steps; ++i) {
      change->OnConnectFailed(Role(4));
      Pass(1'000'000);
    }
    return attempts() - before;
  };
  EXPECT_GE(refuse_for(10), 3) << "it may be there in a moment";
  refuse_for(290);
  EXPECT_LE(refuse_for(200), 8);
  EXPECT_EQ(change->phase(), Phase::kConnecting);
}

TEST_F(EpochChangeTest, Step5WhoLacksWhatIsInNoRingBecomesALearner) {
  Start(TakeOver());
  actions.out_of_range = {4};
  SealAll(9);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front().active, 0b01001u);
  EXPECT_THAT(actions.disconnected, ElementsAre(4));
  change->OnNormal(actions.proposals.back());
  EXPECT_THAT(actions.joining, ElementsAre(4));
  change->OnConnected(Role(4));
  EXPECT_THAT(actions.joins, ElementsAre(4));
}

TEST_F(EpochChangeTest, Step7ALateAnswerAndAnotherIncarnationCountForNothing) {
  EpochPlan plan = TakeOver();
  plan.holders[4] = At(4, 2);  // came back empty
  plan.reachable = 0b01110;
  plan.memgests = {Srs(kSrs32, 3, 2)};
  Start(std::move(plan));
  change->OnSealed(Role(4), Ends(50, 50));
  SealAll(3);
  ASSERT_EQ(change->adopted().size(), 1u);
  EXPECT_EQ(change->adopted().front().last, 3u);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front().active, 0b01001u);
}

// It may have folded what the adopted log has not.
TEST_F(EpochChangeTest, Step7WhoIsNotSealedInTimeJoinsLikeAnybodyElse) {
  EpochPlan plan = TakeOver();
  plan.memgests = {Srs(kSrs32, 3, 2)};
  Start(std::move(plan));
  for (const int role : {1, 2, 3})
    change->OnSealed(Role(static_cast<std::uint16_t>(role)), {{kSrs32, 4, 4}});
  Pass(100'000'000);
  EXPECT_EQ(change->phase(), Phase::kSealing) << "step 3: all who are there are waited for";
  Pass(1'000'000'000);
  ASSERT_EQ(change->phase(), Phase::kFetching);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_EQ(actions.proposals.back().front().active, 0b01001u);
  change->OnNormal(actions.proposals.back());
  EXPECT_THAT(actions.joining, ElementsAre(4));
}

// Of role 1, which only the younger one is at, the record does not know whether it is connected.
TEST_F(EpochChangeTest, L7AMemgestYoungerThanTheRecordHasTheMembersThatItNamesForOthers) {
  cluster::NormalRecord last;
  last.memgests = {Set(kRep3, 0b01001, 0b01001)};
  const protocol::MemgestDescriptor younger = Rep(MemgestId(9), 4);
  EXPECT_EQ(cluster::ActiveFor(last, younger, ShardId(0), kS, kD), 0b01001u);
}

// Its proposal was under way when the memgest was made.
TEST_F(EpochChangeTest, L7ARoleThatTheRecordDoesNotNameIsNamedForAYoungerMemgestIfItIsConnected) {
  for (const bool coded : {false, true}) {
    actions = RecordedActions();
    EpochPlan plan = TakeOver();
    plan.memgests = {Rep(MemgestId(1), 1)};
    plan.last->memgests = {Set(MemgestId(1), 0b00001, 0b00001)};
    plan.reachable = 0b10110;  // role 3 is a new node's
    plan.holders[3] = At(6);
    Start(std::move(plan));
    for (const int role : std::vector<int>(actions.sealed))
      change->OnSealed(Role(static_cast<std::uint16_t>(role)), {});
    change->OnFetched(absl::OkStatus());
    ConnectAll();
    ASSERT_EQ(actions.proposals.size(), 1u);
    const auto first = actions.proposals.back();
    const protocol::MemgestDescriptor made = coded ? Srs(MemgestId(9), 3, 2) : Rep(MemgestId(9), 3);
    change->OnCatalogue({Rep(MemgestId(1), 1), made});
    change->OnNormal(first);
    ASSERT_EQ(actions.proposals.size(), 2u);
    EXPECT_EQ(actions.proposals.back().back(), Set(MemgestId(9), 0b10001, 0b10001));
    change->OnNormal(actions.proposals.back());

    change->OnCatalogue({Rep(MemgestId(1), 1), made, Rep(MemgestId(10), 3)});
    Pass(1);
    EXPECT_EQ(actions.proposals.size(), 2u) << "that follows from the record";
  }
}

// E8: nothing could be written into it.
TEST_F(EpochChangeTest, E8AMemgestForWhichTooFewCountedByTheRecordStopsNoShard) {
  EpochPlan plan = TakeOver();
  plan.memgests = {Rep(MemgestId(1), 1), Rep(MemgestId(9), 3), Srs(MemgestId(10), 3, 2)};
  plan.last->memgests = {Set(MemgestId(1), 0b00001, 0b00001)};
  Start(std::move(plan));
  for (const int role : std::vector<int>(actions.sealed))
    change->OnSealed(Role(static_cast<std::uint16_t>(role)), {});
  ASSERT_EQ(change->phase(), Phase::kFetching);
  change->OnFetched(absl::OkStatus());
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(MemgestId(1), 0b00001, 0b00001), Set(MemgestId(9), 0b11001, 0b11001),
                          Set(MemgestId(10), 0b11001, 0b11001)))
      << "they go on: there was nothing that they could lack";
}

}  // namespace
}  // namespace ring::recovery
