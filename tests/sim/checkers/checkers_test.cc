// Every checker refuses the histories that it is there for, and lets good ones pass.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/checkers/checker_fixture.h"
#include "tests/sim/checkers/liveness_checker.h"
#include "tests/sim/checkers/memgest_checker.h"
#include "tests/sim/checkers/resurrection_checker.h"
#include "tests/sim/checkers/search_checker.h"
#include "tests/sim/checkers/version_checker.h"
#include "tests/sim/history.h"

namespace ring::sim {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;

class CheckerTest : public CheckerHistory {
 protected:
  // Plays the history in order of time. unreliable: whose versions are in memgests of f = 0.
  std::vector<std::string> Versions(std::uint64_t lost_at = 0,
                                    const std::vector<ValueId>& unreliable = {}) {
    VersionChecker checker(&history_);
    for (std::uint64_t now = 0; now <= 200; ++now) {
      for (std::size_t i = 0; i < history_.operations().size(); ++i) {
        const Operation& op = history_.operations()[i];
        const bool reliable =
            std::find(unreliable.begin(), unreliable.end(), op.value) == unreliable.end();
        if (op.return_ns == now && now != 0) checker.OnReturn(i, reliable);
      }
      if (lost_at == now && now != 0) checker.LoseUnreliable([](int) { return true; }, kEpochLater);
      for (std::size_t i = 0; i < history_.operations().size(); ++i) {
        if (history_.operations()[i].invoke_ns == now) checker.OnInvoke(i);
      }
    }
    checker.Finish();
    return Kinds(checker.violations());
  }
  std::vector<std::string> SearchKinds() {
    return Kinds(SearchLinearization(history_, NoKey).violations);
  }
};

TEST_F(CheckerTest, GoodHistoryPasses) {
  Put(1, 1, 1, 10);
  Get(1, 1, 5, 12);
  Put(2, 2, 11, 20);
  Move(3, 21, 30);
  Get(2, 3, 31, 40);
  Delete(4, 41, 50);
  GetNothing(51, 60);
  Put(3, 5, 61, 70).if_version = Version();
  Get(3, 5, 71, 80);
  EXPECT_THAT(Versions(), IsEmpty());
  EXPECT_THAT(SearchKinds(), IsEmpty());
  EXPECT_THAT(CheckResurrection(history_), IsEmpty());
}

TEST_F(CheckerTest, OverlappingWritesMayComeInAnyOrder) {
  Put(1, 2, 1, 20);
  Put(2, 1, 2, 19);
  Get(1, 2, 21, 30);
  EXPECT_THAT(Versions(), IsEmpty());
  EXPECT_THAT(SearchKinds(), IsEmpty());
}

TEST_F(CheckerTest, StaleReadIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  Get(1, 1, 21, 30);
  EXPECT_THAT(Versions(), Contains("linearizability"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection"));
}

TEST_F(CheckerTest, ReadThatGoesBackIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 100);
  Get(2, 2, 20, 30);
  Get(1, 1, 31, 40);
  EXPECT_THAT(Versions(), Contains("linearizability"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, LostWriteIsRefused) {
  Put(1, 1, 1, 10);
  GetNothing(11, 20);
  EXPECT_THAT(Versions(), Contains("linearizability"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, DeletedValueThatComesBackIsRefused) {  // G4, G5
  Put(1, 1, 1, 10);
  Delete(2, 11, 20);
  Get(1, 1, 21, 30);
  EXPECT_THAT(Versions(), Contains("linearizability"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection"));
}

TEST_F(CheckerTest, WriteBelowWhatWasThereIsRefused) {
  Put(1, 5, 1, 10);
  Put(2, 4, 11, 20);
  EXPECT_THAT(Versions(), Contains("linearizability"));
}

TEST_F(CheckerTest, V1OneVersionWithTwoValuesIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 1, 2, 11);
  EXPECT_THAT(Versions(), Contains("one-version-two-values"));
}

TEST_F(CheckerTest, ForeignValueIsRefused) {
  Put(1, 1, 1, 10);
  Get(99, 1, 11, 20);
  EXPECT_THAT(Versions(), Contains("wrong-value"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, X1PutExecutedTwiceIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  Get(2, 2, 21, 30);
  Get(1, 3, 31, 40);  // a, b, a again
  EXPECT_THAT(Versions(), Contains("exactly-once"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, X5FailedPutThatIsReadIsRefused) {
  Put(1, 0, 1, 10).result = OpResult::kFailed;
  Get(1, 1, 11, 20);
  EXPECT_THAT(Versions(), Contains("exactly-once"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, X5UnknownPutMayBeReadOrNot) {
  Put(1, 1, 1, 10);
  Put(2, 0, 11, 0);
  Get(1, 1, 21, 30);
  Get(2, 2, 31, 40);
  EXPECT_THAT(Versions(), IsEmpty());
  EXPECT_THAT(SearchKinds(), IsEmpty());
  Get(1, 1, 41, 50);
  EXPECT_THAT(Versions(), Contains("linearizability"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, G7MoveThatLosesAnUpdateIsRefused) {
  Put(1, 1, 1, 10);
  Move(3, 11, 30);
  Put(2, 2, 12, 20);
  Get(1, 3, 31, 40);
  EXPECT_THAT(Versions(), Contains("lost-update"));
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, ConditionThatDidNotHoldIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  Put(3, 3, 21, 30).if_version = V(1);
  EXPECT_THAT(Versions(), Contains("condition"));
}

TEST_F(CheckerTest, ConditionThatNothingIsThereThoughSomethingIsIsRefused) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20).if_version = Version();
  EXPECT_THAT(Versions(), Contains("condition"));
}

TEST_F(CheckerTest, MismatchWithTheVersionThatIsThereIsRefused) {
  Put(1, 1, 1, 10);
  Operation& put = Put(2, 1, 11, 20);
  put.if_version = V(1);
  put.mismatch = true;
  put.result = OpResult::kFailed;
  EXPECT_THAT(Versions(), Contains("linearizability"));
}

// What a put that nobody answered made was read: it was there.
TEST_F(CheckerTest, ConditionThatAReadSaysDidNotHoldIsRefused) {
  Put(1, 1, 1, 5);
  Put(2, 0, 10, 0);
  Get(2, 2, 20, 25);
  Put(3, 3, 30, 35).if_version = V(1);
  EXPECT_THAT(Versions(), Contains("condition"));
}

// V9: the version that a mismatch told of is there.
TEST_F(CheckerTest, WhatAMismatchToldOfMayNotVanish) {
  Put(1, 1, 1, 5);
  Operation& refused = Put(2, 3, 10, 15);
  refused.result = OpResult::kFailed;
  refused.mismatch = true;
  refused.if_version = V(2);
  Get(1, 1, 20, 25);
  EXPECT_THAT(Versions(), Contains("linearizability"));
}

TEST_F(CheckerTest, SearchRefusesACreationAboveAValue) {
  Put(1, 1, 1, 5);
  Put(2, 2, 10, 15).if_version = Version();
  EXPECT_THAT(SearchKinds(), Contains("search"));
  history_ = History();
  Operation& refused = Put(2, 2, 10, 15);  // something was there, and nobody put it
  refused.result = OpResult::kFailed;
  refused.mismatch = true;
  refused.if_version = Version();
  EXPECT_THAT(SearchKinds(), Contains("search"));
}

TEST_F(CheckerTest, G6WhatRep1MayLoseIsTheShardsNewestUnreliableVersions) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);  // in Rep(1)
  Get(1, 1, 31, 40);
  EXPECT_THAT(Versions(25, {2}), IsEmpty());
}

TEST_F(CheckerTest, G6AReliableVersionIsNeverLost) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  Get(1, 1, 31, 40);
  EXPECT_THAT(Versions(25, {}), Contains("linearizability"));
}

TEST_F(CheckerTest, G6LostVersionsDoNotComeBackOneByOne) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);  // in Rep(1)
  Put(3, 3, 26, 30);
  Get(2, 2, 31, 40);
  EXPECT_THAT(Versions(25, {2}), Contains("linearizability"));
}

// The record of a move to Rep(1) goes with its version; a retry is not told that it made another.
TEST_F(CheckerTest, X7AMoveToWhatSurvivesNothingIsNotMadeAgain) {
  Put(1, 1, 1, 10);
  Get(1, 2, 12, 20);
  Operation& move = Move(0, 11, 40);
  move.version = Version(kEpochLater, 1);
  move.tolerates = 0;
  EXPECT_THAT(Versions(25), Contains("exactly-once"));
  move.result = OpResult::kUnknown;
  move.version = Version();
  EXPECT_THAT(Versions(25), IsEmpty());
}

TEST_F(CheckerTest, F3WhatWasToldBeforeEverythingWasLostIsOwedNoMore) {
  Put(1, 1, 1, 10);
  Get(1, 1, 11, 20);
  GetNothing(31, 40);
  Operation& later = Put(2, 1, 41, 50);
  later.version = Version(kEpochLater, 1);
  Get(1, 1, 61, 70);  // and yet back again
  VersionChecker checker(&history_);
  for (const std::size_t i : {0u, 1u}) {
    checker.OnInvoke(i);
    checker.OnReturn(i, true);
  }
  checker.LoseEverything([](int) { return kEpochLater; });
  for (const std::size_t i : {2u, 3u}) {
    checker.OnInvoke(i);
    checker.OnReturn(i, true);
  }
  EXPECT_THAT(checker.violations(), IsEmpty());
  checker.OnInvoke(4);
  checker.OnReturn(4, true);
  EXPECT_THAT(Kinds(checker.violations()), Contains("linearizability"));
}

// Two nodes are gone: a memgest of f = 1 lost its newest versions, and one of f = 2 shows its own.
TEST_F(CheckerTest, E8WhatVanishedWithAnOverrunMemgestReplacesNothing) {
  Put(1, 1, 1, 10).tolerates = 2;
  Put(2, 2, 11, 20).tolerates = 1;
  Get(1, 1, 41, 50);
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection")) << "nothing was lost";
  history_.AddLoss({25, kEpochLater, {0}, /*everything=*/true});
  EXPECT_THAT(CheckResurrection(history_), IsEmpty());
}

TEST_F(CheckerTest, E8WhatWasReadBeforeTheOverrunOrWrittenBehindItWasNotLost) {
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  Get(1, 1, 21, 24);
  history_.AddLoss({25, kEpochLater, {0}, /*everything=*/true});
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection")) << "before";
  history_ = History();
  Put(1, 1, 1, 10);
  history_.AddLoss({15, kEpochLater, {0}, /*everything=*/true});
  Put(2, 1, 21, 30).version = Version(kEpochLater, 1);
  Get(1, 1, 31, 40);
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection")) << "behind";
  history_ = History();
  Put(1, 1, 1, 10);
  Put(2, 2, 11, 20);
  history_.AddLoss({25, kEpochLater, {7}, /*everything=*/true});
  Get(1, 1, 31, 40);
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection")) << "another key";
}

TEST_F(CheckerTest, G6WhatVanishedWithItsCoordinatorReplacesNothing) {
  Put(1, 1, 1, 10).tolerates = 1;
  Put(2, 2, 11, 20).tolerates = 0;
  Get(1, 1, 31, 40);
  history_.AddLoss({25, kEpochLater, {0}, /*everything=*/false});
  EXPECT_THAT(CheckResurrection(history_), IsEmpty());
  history_[1].tolerates = 1;
  EXPECT_THAT(Kinds(CheckResurrection(history_)), Contains("resurrection")) << "it is reliable";
}

// f of the answers' memgests; ids are 1 + f.
void In(Operation& op, int tolerates) {
  op.tolerates = tolerates;
  op.memgest = MemgestId(static_cast<std::uint16_t>(1 + tolerates));
}

TEST_F(CheckerTest, G4TombstoneWeakerThanWhatItHidesIsRefused) {
  In(Put(1, 1, 1, 10), 1);
  In(Put(2, 2, 11, 20), 0);  // the reliable one stays below it
  In(Delete(3, 21, 30), 0);
  KeptVersions kept;
  EXPECT_THAT(Kinds(CheckMemgests(history_, NoKey, &kept)), Contains("memgest"));
}

TEST_F(CheckerTest, G4TombstoneAboveAMoveNeedsOnlyItsStrength) {
  In(Put(1, 1, 1, 10), 1);
  In(Move(2, 11, 20), 0);  // lets the reliable one go
  In(Delete(3, 21, 30), 0);
  KeptVersions kept;
  EXPECT_THAT(CheckMemgests(history_, NoKey, &kept), IsEmpty());
}

TEST_F(CheckerTest, G1WhatAWeakerVersionDoesNotReplaceIsKept) {
  In(Put(1, 1, 1, 10), 2);
  In(Put(2, 2, 11, 20), 1);
  In(Put(3, 3, 21, 30), 0);
  In(Put(4, 4, 31, 40), 0);
  KeptVersions kept;
  EXPECT_THAT(CheckMemgests(history_, NoKey, &kept), IsEmpty());
  EXPECT_THAT(kept[0], ::testing::ElementsAre(V(2)));
}

TEST_F(CheckerTest, G9MoveToWhereTheKeyIsThatMakesAVersionIsRefused) {
  In(Put(1, 1, 1, 10), 1);
  In(Move(1, 11, 20), 1);  // gives the version that is there
  KeptVersions kept;
  EXPECT_THAT(CheckMemgests(history_, NoKey, &kept), IsEmpty());
  In(Move(2, 21, 30), 1);
  EXPECT_THAT(Kinds(CheckMemgests(history_, NoKey, &kept)), Contains("memgest"));
}

TEST_F(CheckerTest, OperationThatNeverEndsIsNoLiveness) {
  Put(1, 0, 1, 0).result = OpResult::kPending;
  EXPECT_THAT(Kinds(CheckLiveness(history_, [](int) { return false; })), Contains("liveness"));
  EXPECT_THAT(CheckLiveness(history_, [](int) { return true; }), IsEmpty());
}

TEST_F(CheckerTest, SearchThatTakesTooLongIsCountedNotRefused) {
  for (std::uint64_t i = 1; i <= 24; ++i) Put(i, i, 1, 100);
  Get(99, 50, 101, 110);
  const SearchReport report = SearchLinearization(history_, NoKey, 1000);
  EXPECT_EQ(report.given_up.size(), 1u);
  EXPECT_THAT(report.violations, IsEmpty());
}

TEST(HistoryTest, BytesOfAnotherValueAreSeen) {
  std::string bytes = ValueBytes(7, 1000);
  EXPECT_EQ(ReadValue(bytes), 7u);
  for (const std::size_t at : {0u, 9u, 16u, 500u, 999u}) {
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    EXPECT_EQ(ReadValue(bytes), 0u) << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
  }
  EXPECT_EQ(ReadValue(absl::string_view(bytes).substr(0, 999)), 0u);
}

// A coordinator that is lost later takes nothing along of what was told behind the accepted loss.
TEST_F(CheckerTest, E8WhatWasToldBehindAnAcceptedLossIsOwedForEver) {
  const auto of_key = [](int key) { return key == 0; };
  for (const bool accepted : {true, false}) {
    history_ = History();
    Put(1, 1, 1, 10);
    GetNothing(31, 40);
    Put(2, 1, 41, 50).version = Version(kEpochLater, 1);
    GetNothing(61, 70);
    VersionChecker checker(&history_);
    const auto run = [&checker](std::size_t i) {
      checker.OnInvoke(i);
      checker.OnReturn(i, true);
    };
    run(0);
    checker.LoseAccepted([&](int key) { return accepted == of_key(key); }, kEpochLater);
    run(1);
    EXPECT_EQ(checker.violations().empty(), accepted);
    EXPECT_EQ(checker.MayHaveLostReliable(0), accepted);
    run(2);
    checker.LoseUnreliable(of_key, Epoch(kEpochLater.value() + 1));
    run(3);
    EXPECT_EQ(checker.violations().size(), accepted ? 1u : 2u);
  }
}

}  // namespace
}  // namespace ring::sim
