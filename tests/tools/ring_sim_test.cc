// ring-sim's command line: what it refuses, and its exit status. Seeds are other tests' business.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/program.h"

namespace ring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProgramResult RingSim(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RING_SIM_PROGRAM);
  return RunProgram(arguments);
}

std::string Joined(const std::vector<std::string>& arguments) {
  std::string all;
  for (const std::string& one : arguments) all += one + " ";
  return all;
}

TEST(RingSim, OneSeedWithNothingWrongExitsWithZero) {
  for (const std::vector<std::string>& right :
       std::vector<std::vector<std::string>>{{"--seeds", "1", "--operations", "100"},
                                             {"--consensus", "--seeds", "1"},
                                             {"--list-faults", "--workload", "damage"},
                                             {"--help"}}) {
    const ProgramResult result = RingSim(right);
    EXPECT_EQ(result.status, 0) << Joined(right) << result.out << result.err;
    EXPECT_FALSE(result.out.empty()) << Joined(right);
  }
}

TEST(RingSim, BothSummariesBeginAlike) {
  for (const std::vector<std::string>& mode : std::vector<std::vector<std::string>>{
           {"--seeds", "1", "--operations", "100"}, {"--consensus", "--seeds", "1"}}) {
    const std::string out = RingSim(mode).out;
    const auto json = nlohmann::json::parse(out.substr(out.find('{')));
    EXPECT_EQ(json["seeds"], 1) << out;
    EXPECT_EQ(json["failed_seeds"], 0) << out;
    EXPECT_EQ(json["violations"], nlohmann::json::object()) << out;
    EXPECT_EQ(json["trace_hash"].get<std::string>().size(), 16u) << out;
    EXPECT_GT(json["simulated_seconds"], 0) << out;
    EXPECT_GT(json["wall_seconds"], 0) << out;
  }
}

// Hash tables iterate in another order in each process. With a piece for each record, what goes
// over tells of orders.
TEST(RingSim, ASeedIsTheSameRunInEachProcess) {
  const auto hash = [] {
    const std::string out =
        RingSim({"--seeds", "1..10", "--operations", "400", "--fault", "slow_recovery_one_in=1"})
            .out;
    return nlohmann::json::parse(out.substr(out.find('{')))["trace_hash"].get<std::string>();
  };
  EXPECT_EQ(hash(), hash());
}

TEST(RingSim, SaysItsVersionAndItsOptionsByGroup) {
  EXPECT_EQ(RingSim({"--version"}).out, "ring-sim 0.1.0\n");
  const std::string help = RingSim({"--help"}).out;
  for (const char* const word :
       {"Clusters:", "Faults:", "Bug switches", "Consensus:", "EXAMPLES", "EXIT STATUS"})
    EXPECT_THAT(help, HasSubstr(word));
}

TEST(RingSim, AnOptionThatTheModeDoesNotLookAtIsRefused) {
  struct Refused {
    std::vector<std::string> arguments;
    const char* option;
    const char* mode;
  };
  for (const Refused& one : std::vector<Refused>{
           {{"--consensus", "--history", "f"}, "--history", "--consensus"},
           {{"--consensus", "--fault", "think_max_ns=1"}, "--fault", "--consensus"},
           {{"--consensus", "-v"}, "--verbose", "--consensus"},
           {{"--consensus", "--each-workload"}, "--each-workload", "--consensus"},
           {{"--consensus", "--mutants"}, "--mutants", "--consensus"},
           {{"--mutants", "--seeds", "1"}, "--seeds", "--mutants"},
           {{"--mutants", "--mutant", "V1"}, "--mutant ", "--mutants"},
           {{"--mutants", "--probe", "V1"}, "--probe", "--mutants"},
           {{"--consensus", "--probe", "V1"}, "--probe", "--consensus"},
           {{"--mutants", "--history", "f"}, "--history", "--mutants"},
           {{"--mutant", "V1", "--survivors"}, "--survivors", "--mutant without --seeds"},
           {{"--mutant", "V1", "--seeds", "1", "--budget", "2"}, "--budget", "--mutant with seeds"},
           {{"--seeds", "1", "--table", "f"}, "--table", "clusters from seeds"},
           {{"--no-clusters"}, "--no-clusters", "clusters from seeds"},
           {{"--each-workload", "--json", "f"}, "--json", "--each-workload"},
           {{"--trace", "1", "--seeds", "1..2"}, "--seeds", "--trace"},
           {{"--list-faults", "--operations", "5"}, "--operations", "--list-faults"}}) {
    const ProgramResult result = RingSim(one.arguments);
    EXPECT_EQ(result.status, 2) << Joined(one.arguments) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr(one.option), HasSubstr(one.mode)))
        << Joined(one.arguments);
    EXPECT_THAT(result.out, IsEmpty()) << Joined(one.arguments);
  }
}

TEST(RingSim, ACommandLineThatIsWrongExitsWithTwo) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--bogus"},
                                             {"--seeds", "2..1"},
                                             {"--seeds", "many"},
                                             {"--trace", "x"},
                                             {"--workload", "none"},
                                             {"--fault", "nothing=1"},
                                             {"--logs", "--seeds", "1"},
                                             {"--mutant", "no-such-switch"},
                                             {"--mutant", "no-such-switch", "--seeds", "1"},
                                             {"--probe", "no-such-switch", "--seeds", "1"}}) {
    const ProgramResult result = RingSim(wrong);
    EXPECT_EQ(result.status, 2) << Joined(wrong) << result.out;
    EXPECT_FALSE(result.err.empty()) << Joined(wrong);
  }
}

TEST(RingSim, AFileThatCannotBeWrittenExitsWithTwo) {
  const TestFolder folder;
  const std::string nowhere = folder / "none/file";
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--seeds", "1", "--operations", "100", "--json", nowhere},
           {"--seeds", "1", "--operations", "100", "--json", "/dev/full"},
           {"--seeds", "1", "--operations", "100", "--history", nowhere},
           {"--consensus", "--seeds", "1", "--json", nowhere},
           {"--consensus", "--seeds", "1", "--json", "/dev/full"}}) {
    const ProgramResult result = RingSim(wrong);
    EXPECT_EQ(result.status, 2) << Joined(wrong);
    EXPECT_THAT(result.err, HasSubstr(wrong.back())) << Joined(wrong);
  }
}

}  // namespace
}  // namespace ring::testing
