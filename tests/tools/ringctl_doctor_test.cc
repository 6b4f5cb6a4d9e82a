// ringctl doctor as a process, on machines that are trees of files.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/program.h"

namespace ring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kConfig[] = R"([cluster]
name = "c"
s = 1
d = 0
[node]
name = "a"
arena_size_max = "64MiB"
client_max = 16
[[nodes]]
name = "a"
data = "127.0.0.1:7800"
)";

class DoctorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.Write("proc/meminfo", "MemAvailable: 8388608 kB\n");
    const std::string clock = "sys/devices/system/clocksource/clocksource0/";
    tree_.Write(clock + "current_clocksource", "tsc\n");
  }
  ProgramResult Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {RINGCTL_PROGRAM, "doctor", "--root", tree_.path()});
    return RunProgram(arguments);
  }

  TestFolder tree_;
};

TEST_F(DoctorTest, ShowsATableAndWhatMendsIt) {
  tree_.Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const ProgramResult result = Run({});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("CHECK"));
  EXPECT_THAT(result.out, HasSubstr("rdma device"));
  EXPECT_THAT(result.out, HasSubstr("WARN huge pages: echo madvise | sudo tee"));
}

TEST_F(DoctorTest, SomethingThatFailsExitsWithOne) {
  const ProgramResult refused = Run({"--config", tree_.Write("bad.toml", "[cluster]\ns = 0\n")});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.out, HasSubstr("bad.toml:2:5"));
  EXPECT_EQ(Run({"--config", tree_ / "none.toml"}).status, 1);
}

TEST_F(DoctorTest, JudgesByTheConfiguration) {
  const std::string config = tree_.Write("ring.toml", kConfig);
  const ProgramResult good = Run({"--config", config, "--json"});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  const auto json = nlohmann::json::parse(good.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << good.out;
  EXPECT_NE(json["level"], "FAIL");
  EXPECT_EQ(json["findings"][0]["check"], "configuration");
  EXPECT_EQ(json["findings"][0]["level"], "OK");
  EXPECT_EQ(json["findings"][0]["remedy"], "");
  // 64 MiB that are not there.
  tree_.Write("proc/meminfo", "MemAvailable: 32768 kB\n");
  const ProgramResult small = Run({"--config", config, "--node", "a"});
  EXPECT_EQ(small.status, 0) << small.out;
  EXPECT_THAT(small.out, HasSubstr("WARN memory: set arena_size_max = \"32MiB\""));
  tree_.Write("proc/meminfo", "MemAvailable: 1024 kB\n");
  EXPECT_EQ(Run({"--config", config}).status, 1);
}

TEST_F(DoctorTest, ANodeThatWasAddedIsJudgedByWhatIsForAllNodes) {
  const std::string config = tree_.Write("ring.toml", kConfig);
  const ProgramResult added = Run({"--config", config, "--node", "b", "--added"});
  EXPECT_EQ(added.status, 0) << added.out << added.err;
  EXPECT_THAT(added.out, HasSubstr("configuration"));
  const ProgramResult unknown = Run({"--config", config, "--node", "b"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.out, HasSubstr("--added"));
  const ProgramResult named = Run({"--config", config, "--node", "a", "--added"});
  EXPECT_EQ(named.status, 1);
  EXPECT_THAT(named.out, HasSubstr("is among [[nodes]]"));
}

TEST_F(DoctorTest, ACommandLineThatIsWrongExitsWithTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"extra"},
                                             {"--node", "a"},
                                             {"--reactors", "0"},
                                             {"--bogus"},
                                             {"--config"},
                                             {"--added"},
                                             {"--config", "/dev/null", "--added"}}) {
    EXPECT_EQ(Run(arguments).status, 2) << arguments[0];
  }
}

TEST_F(DoctorTest, TheMachineItselfCanBeLookedAt) {
  const ProgramResult result = RunProgram({RINGCTL_PROGRAM, "doctor", "--json"});
  EXPECT_NE(result.status, 2) << result.err;
  EXPECT_TRUE(nlohmann::json::accept(result.out)) << result.out;
  EXPECT_THAT(result.out, Not(HasSubstr("\"found\":\"\"")));
}

}  // namespace
}  // namespace ring::testing
