// Each rule of the fence, and what happens without it. Built with the bug switches.
#include "gtest/gtest.h"
#include "ring/base/mutant.h"
#include "tests/node/fence/fence_scenarios.h"

namespace ring::node {
namespace {

class FenceScenarioTest : public ::testing::TestWithParam<FenceScenario> {
 protected:
  void TearDown() override { SetMutant(""); }
};

TEST_P(FenceScenarioTest, IsBrokenByTheMutantAlone) {
  EXPECT_FALSE(GetParam().broken());
  SetMutant(GetParam().mutant);
  EXPECT_TRUE(GetParam().broken());
}

INSTANTIATE_TEST_SUITE_P(Rules, FenceScenarioTest, ::testing::ValuesIn(kFenceScenarios),
                         [](const auto& scenario) {
                           std::string name = scenario.param.mutant;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ring::node
