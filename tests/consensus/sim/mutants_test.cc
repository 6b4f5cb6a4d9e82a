// Each rule of the consensus (10.1 and on) that a switch can break is broken, and the simulation
// must notice within 200 seeds. Prints which seed did.
#include <cstdint>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "ring/base/mutant.h"
#include "tests/consensus/scenarios.h"
#include "tests/consensus/sim/world.h"

namespace ring::consensus::sim {
namespace {

// In the core, by ring/base/mutant.h.
constexpr const char* kMutants[] = {
    "P101SendBeforePersist",
    "P102NoNoop",
    "P102CommitOldTermsByCounting",
    "P103NoPreVote",
    "P103NoStickiness",
    "P103NoCheckQuorum",
    "P104SeveralChangesAtOnce",
    "P104ChangeBeforeNoop",
    "P104NoRollbackOfChange",
    "P104ChangeTwoVoters",
    "P105ReadWithoutRound",
    "P105ReadBeforeNoop",
    "P105RetryKeepsReadIndex",
    "P105ReadJoinsRoundUnderWay",
    "P106ForgetVote",
    "P107GoOnAfterFailedPersist",
    "P107TimeoutNowWhileUnpersisted",
    "P107CampaignOnUnpersisted",
};
// In the surroundings.
constexpr char kAmnesiac[] = "P106AmnesiacKeepsItsId";
constexpr char kNoDeduplication[] = "P108NoDeduplication";

std::string Catch(const std::string& name, const WorldBugs& world_bugs) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Result result = RunSeed(seed, world_bugs);
    if (result.violation.empty()) continue;
    std::printf("%s: seed=%llu: %s\n", name.c_str(), static_cast<unsigned long long>(seed),
                result.violation.c_str());
    return result.violation;
  }
  return {};
}

class MutantTest : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { SetMutant(""); }
};

TEST_P(MutantTest, IsNoticedWithin200Seeds) {
  SetMutant(GetParam());
  EXPECT_NE(Catch(GetParam(), {}), "");
}

INSTANTIATE_TEST_SUITE_P(Rules, MutantTest, ::testing::ValuesIn(kMutants),
                         [](const auto& mutant) { return std::string(mutant.param); });

TEST(Mutants, P106AmnesiacKeepsItsIdIsNoticedWithin200Seeds) {
  EXPECT_NE(Catch(kAmnesiac, {.amnesiac_keeps_its_id = true}), "");
}

TEST(Mutants, P108NoDeduplicationIsNoticedWithin200Seeds) {
  EXPECT_NE(Catch(kNoDeduplication, {.no_deduplication = true}), "");
}

// Why the rule is there: the history in which something committed is lost without it. Seeds notice
// the breach itself (checker.h), and meet such a history once in thousands.
struct Scenario {
  const char* mutant;
  bool (*broken)();
};
const Scenario kScenarios[] = {
    {"P102CommitOldTermsByCounting", Figure8CommitsWhatIsReplaced},
    {"P104ChangeBeforeNoop", ChangesOfTwoTermsCommitApart},
    {"P104NoRollbackOfChange", ReplacedChangeStillHolds},
    {"P104ChangeTwoVoters", TwoVotersChangeAtOnce},
    {"P105ReadJoinsRoundUnderWay", EarlierRoundAnswersARead},
};

class ScenarioTest : public ::testing::TestWithParam<Scenario> {
 protected:
  void TearDown() override { SetMutant(""); }
};

TEST_P(ScenarioTest, IsBrokenByTheMutantAlone) {
  EXPECT_FALSE(GetParam().broken());
  SetMutant(GetParam().mutant);
  EXPECT_TRUE(GetParam().broken());
}

INSTANTIATE_TEST_SUITE_P(Rules, ScenarioTest, ::testing::ValuesIn(kScenarios),
                         [](const auto& scenario) { return std::string(scenario.param.mutant); });

TEST(Mutants, WithoutOneNothingIsFound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(RunSeed(seed).violation, "") << seed;
}

}  // namespace
}  // namespace ring::consensus::sim
