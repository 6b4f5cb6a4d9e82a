// Each switch of a rule of decoded blocks is noticed by the history that the rule is there for.
#include "gtest/gtest.h"
#include "ring/base/mutant.h"
#include "tests/recovery/block_harness.h"

namespace ring::recovery {
namespace {

class BlockMutants : public ::testing::Test {
 protected:
  void TearDown() override { SetMutant(""); }
};

TEST_F(BlockMutants, NoneOfThemIsNoticedWithoutASwitch) {
  EXPECT_TRUE(NewerPutSurvivesALateAnswer());
  EXPECT_TRUE(WrongBytesAreNotInstalled());
}

TEST_F(BlockMutants, S5LateAnswersAreInstalled) {
  SetMutant("S5");
  EXPECT_FALSE(NewerPutSurvivesALateAnswer());
}

TEST_F(BlockMutants, S12DecodedBytesAreNotChecked) {
  SetMutant("S12");
  EXPECT_FALSE(WrongBytesAreNotInstalled());
}

}  // namespace
}  // namespace ring::recovery
