#include "tests/sim/checkers/durability_checker.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/checkers/checker_fixture.h"

namespace ring::sim {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;

class DurabilityTest : public CheckerHistory {};

TEST_F(DurabilityTest, I2WhatWasAcknowledgedIsThereInTheEnd) {
  Put(1, 1, 10, 20).tolerates = 1;
  Put(2, 2, 30, 40).tolerates = 1;
  const std::size_t first_read = history_.operations().size();
  Get(2, 2, 50, 60);
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey), IsEmpty());
  Get(1, 1, 70, 80);
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey),
              Contains(Field(&Violation::kind, "durability")));
  EXPECT_THAT(CheckDurability(history_, first_read, [](int) { return true; }),
              Contains(Field(&Violation::kind, "durability")))
      << "what its key lost in Rep(1) is no excuse";
}

// Of the accepted key alone, and only of what was told before the epoch that began then.
TEST_F(DurabilityTest, E8WhatWasGivenUpIsNotOwedAndAllElseIs) {
  Put(1, 1, 10, 20).tolerates = 1;
  const std::size_t first_read = history_.operations().size();
  GetNothing(50, 60);
  history_.AddLoss({30, kEpochLater, {7}, /*everything=*/true});
  EXPECT_THAT(Kinds(CheckDurability(history_, first_read, NoKey)), Contains("durability"))
      << "another key";
  history_.AddLoss({31, kEpochLater, {0}, /*everything=*/false});
  EXPECT_THAT(Kinds(CheckDurability(history_, first_read, NoKey)), Contains("durability"))
      << "what was in Rep(1)";
  history_.AddLoss({32, kEpochLater, {0}, /*everything=*/true});
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey), IsEmpty());
  history_[0].version = Version(kEpochLater, 1);
  EXPECT_THAT(Kinds(CheckDurability(history_, first_read, NoKey)), Contains("durability"))
      << "told behind it";
}

// G1: a move lets go of what stood below it, not of what was put since.
TEST_F(DurabilityTest, I2WhatAMoveLetGoOfIsNotOwedAndWhatCameBehindItIs) {
  const auto lost = [](int) { return true; };
  Put(1, 1, 10, 20).tolerates = 1;
  Move(2, 30, 40).tolerates = 0;
  std::size_t first_read = history_.operations().size();
  GetNothing(90, 95);
  EXPECT_THAT(CheckDurability(history_, first_read, lost), IsEmpty());
  history_ = History();
  Move(2, 30, 40).tolerates = 0;
  Put(1, 3, 50, 60).tolerates = 1;
  first_read = history_.operations().size();
  GetNothing(90, 95);
  EXPECT_THAT(CheckDurability(history_, first_read, lost),
              Contains(Field(&Violation::kind, "durability")));
}

TEST_F(DurabilityTest, I2AKeyIsMissingOnlyIfADeleteMayStandAboveIt) {
  Delete(1, 1, 5).tolerates = 1;
  Put(1, 2, 10, 20).tolerates = 1;
  std::size_t first_read = history_.operations().size();
  GetNothing(50, 60);
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey),
              Contains(Field(&Violation::kind, "durability")));
  history_ = History();
  Put(1, 2, 10, 20).tolerates = 1;
  Delete(0, 30, 0);  // never answered
  first_read = history_.operations().size();
  GetNothing(50, 60);
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey), IsEmpty());
}

TEST_F(DurabilityTest, I2WhatIsInAMemgestThatSurvivesNothingIsNotOwed) {
  Put(1, 1, 10, 20).tolerates = 0;
  const std::size_t first_read = history_.operations().size();
  GetNothing(50, 60);
  EXPECT_THAT(CheckDurability(history_, first_read, NoKey), IsEmpty());
}

}  // namespace
}  // namespace ring::sim
