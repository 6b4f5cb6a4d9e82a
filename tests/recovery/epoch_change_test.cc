// One shard's way into a new epoch: protocol rules section 5, step by step, and at random.
#include "ring/recovery/epoch_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/recovery/shard_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Phase = EpochChange::Phase;

// Records what was asked for; the test answers.
class RecordedActions final : public EpochActions {
 public:
  void Seal(Role role, const cluster::Holder&) override { sealed.push_back(role.value()); }
  void Fetch(const std::vector<AdoptedLog>&) override { ++fetches; }
  void Connect(Role role, const cluster::Holder&, bool empty) override {
    connected.push_back(role.value());
    if (empty) joining.insert(role.value());
  }
  void Disconnect(Role role) override { disconnected.push_back(role.value()); }
  void Begin(const std::vector<AdoptedLog>&) override { ++begins; }
  absl::Status Reappend(Role role, const std::vector<LogEnd>&) override {
    if (out_of_range.contains(role.value())) return absl::OutOfRangeError("gone");
    reappended.push_back(role.value());
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Reappended(Role role) override { return !unacked.contains(role.value()); }
  void Propose(const std::vector<cluster::MemgestNormal>& sets) override {
    proposals.push_back(sets);
  }
  void Serve(const std::vector<cluster::MemgestNormal>& sets) override { served.push_back(sets); }
  void Join(Role role, const cluster::Holder&) override { joins.push_back(role.value()); }

  std::vector<int> sealed, connected, disconnected, reappended, joins;
  std::set<int> out_of_range, unacked, joining;
  int fetches = 0, begins = 0;
  std::vector<std::vector<cluster::MemgestNormal>> proposals, served;
};

// Shard 0 of a group whose roles 0..4 were on nodes 0..4, all ACTIVE; node 0 gave way to node 5.
EpochPlan TakeOver() {
  EpochPlan plan;
  plan.epoch = Epoch(2);
  plan.s = kS;
  plan.d = kD;
  plan.memgests = {Rep(kRep3, 3), Srs(kSrs32, 3, 2)};
  cluster::NormalRecord last;
  last.epoch = Epoch(1);
  last.holders = {At(0), At(1), At(2), At(3), At(4)};
  last.memgests = {Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b11001, 0b11001)};
  plan.holders = last.holders;
  plan.holders[0] = At(5);
  plan.last = last;
  plan.reachable = 0b11110;
  return plan;
}

std::vector<LogEnd> Ends(std::uint64_t rep3, std::uint64_t srs32) {
  return {{kRep3, 0, rep3}, {kSrs32, 0, srs32}};
}

class EpochChangeTest : public ::testing::Test {
 protected:
  void Start(EpochPlan plan) {
    change = std::make_unique<EpochChange>(std::move(plan), &actions, EpochChange::Timeouts{});
    change->Step(now);
  }
  void Pass(std::uint64_t ns) { change->Step(now += ns); }
  void SealAll(std::uint64_t last) {
    for (const int role : std::vector<int>(actions.sealed))
      change->OnSealed(Role(static_cast<std::uint16_t>(role)), Ends(last, last));
  }
  void ConnectAll() {
    for (const int role : std::vector<int>(actions.connected))
      change->OnConnected(Role(static_cast<std::uint16_t>(role)));
  }

  RecordedActions actions;
  std::unique_ptr<EpochChange> change;
  std::uint64_t now = 1'000'000;
};

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

TEST_F(EpochChangeTest, V2_AMemgestThatIsMadeMeanwhileIsNamedToo) {
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
  plan.overrun_allowed = true;
  Start(plan);
  SealAll(4);
  EXPECT_EQ(change->phase(), Phase::kFetching);
  EXPECT_THAT(change->lost(), ElementsAre(kRep3));
}

TEST_F(EpochChangeTest, E6AJoinerIsNotNamedBeforeItHasEverything) {
  EpochPlan plan = TakeOver();
  plan.living = true;
  plan.own_logs = Ends(9, 9);
  plan.holders = plan.last->holders;
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
  change->OnJoined(Role(3), absl::OkStatus());
  ASSERT_EQ(actions.proposals.size(), 2u);
  // The values are still to come, and parities are named by who rebuilds them (S6).
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(kRep3, 0b11001, 0b10001), Set(kSrs32, 0b10001, 0b10001)));
  EXPECT_EQ(actions.served.size(), 1u);
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(actions.served.size(), 2u);
  EXPECT_FALSE(change->OnLearnerLost(Role(3))) << "it counts";
  EXPECT_EQ(change->Incomplete(Rep(kRep3, 3)), 0b01000u);
  change->OnComplete(Role(3), kRep3);
  ASSERT_EQ(actions.proposals.size(), 3u);
  EXPECT_EQ(actions.proposals.back().front(), (Set(kRep3, 0b11001, 0b11001)));
}

TEST_F(EpochChangeTest, L7WhatWasProposedStaysProposedUntilItsOutcomeIsKnown) {
  EpochPlan plan = TakeOver();
  plan.living = true;
  plan.own_logs = Ends(9, 9);
  plan.holders = plan.last->holders;
  plan.holders[3] = At(5);
  plan.holders[4] = At(6);
  plan.reachable = 0b00111;
  plan.memgests = {Rep(kRep3, 3)};
  plan.overrun_allowed = true;
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

TEST_F(EpochChangeTest, S6AParityThatIsNotRebuiltGoesOnAndIsNamedWhenItCounts) {
  EpochPlan plan = TakeOver();
  plan.living = true;
  plan.own_logs = Ends(9, 9);
  plan.holders = plan.last->holders;
  plan.last->memgests = {Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b10001, 0b10001)};
  plan.reachable = 0b11110;
  Start(std::move(plan));
  SealAll(9);
  ConnectAll();
  ASSERT_EQ(actions.proposals.size(), 1u);
  EXPECT_THAT(actions.proposals.back(),
              ElementsAre(Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b10001, 0b10001)))
      << "what it acknowledged for Rep(3) is nowhere else, perhaps";
  change->OnNormal(actions.proposals.back());
  change->OnParityCounts(Role(3), kSrs32, 17);
  ASSERT_EQ(actions.proposals.size(), 2u);
  cluster::MemgestNormal from = Set(kSrs32, 0b11001, 0b10001);
  from.active_from = {{Role(3), 17}};
  EXPECT_EQ(actions.proposals.back().back(), from);
  change->OnNormal(actions.proposals.back());
  change->OnParityCounts(Role(3), kSrs32, 0);
  change->OnComplete(Role(3), kSrs32);
  change->OnNormal(actions.proposals.back());
  EXPECT_EQ(actions.proposals.back().back(), Set(kSrs32, 0b11001, 0b11001));
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

TEST_F(EpochChangeTest, AMemgestYoungerThanTheRecordHasTheMembersThatAreActiveForTheOthers) {
  cluster::NormalRecord last;
  last.memgests = {Set(kRep3, 0b01001, 0b01001)};
  const std::vector<protocol::MemgestDescriptor> memgests = {Rep(kRep3, 3), Rep(MemgestId(9), 4)};
  EXPECT_EQ(ActiveFor(last, memgests[1], memgests, ShardId(0), kS, kD), 0b01011u);
}

}  // namespace
}  // namespace ring::recovery
