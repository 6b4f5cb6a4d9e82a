// The operators' commands of ringctl, as processes, against the admin service over a port in
// memory.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/admin/admin_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/api/admin_fake_port.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/program.h"

namespace ring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RingctlAdminTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = admin::StartAdminServer("127.0.0.1:0", &port_);
    ASSERT_OK(server.status());
    server_ = *std::move(server);
  }
  ProgramResult Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RINGCTL_PROGRAM);
    return RunProgram(arguments, "", {absl::StrCat("RING_ADMIN=127.0.0.1:", server_->port())});
  }
  nlohmann::json RunJson(std::vector<std::string> arguments, int status = 0) {
    arguments.insert(arguments.begin(), "--json");
    const ProgramResult result = Run(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.out << result.err;
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << result.out;
    return json;
  }

  FakeAdminPort port_;
  std::unique_ptr<admin::AdminServer> server_;
};

TEST_F(RingctlAdminTest, ListsMemgestsAsTableAndJson) {
  const ProgramResult shown = Run({"memgest", "list"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, HasSubstr("ID  NAME   SCHEME    COMMIT        SURVIVES  OVERHEAD"));
  EXPECT_THAT(shown.out, HasSubstr("SRS(3,2)  all parities         2     1.67x"));
  EXPECT_THAT(shown.out, HasSubstr("default"));
  EXPECT_THAT(shown.out, Not(HasSubstr(" \n")));
  const nlohmann::json list = RunJson({"memgest", "list"})["memgests"];
  ASSERT_EQ(list.size(), 7u);
  EXPECT_EQ(list[0]["name"], "REP3");
  EXPECT_EQ(list[0]["default"], true);
}

TEST_F(RingctlAdminTest, CreatesShowsAndDeletesAMemgest) {
  const nlohmann::json created =
      RunJson({"memgest", "create", "--srs", "2,1", "--name", "cold", "--block-size", "64kb"});
  EXPECT_EQ(created["scheme"], "SRS(2,1)");
  EXPECT_EQ(created["block_size"], 65536);
  EXPECT_EQ(RunJson({"memgest", "create", "--rep", "5", "--commit", "all"})["name"], "REP5-ALL");
  port_.stats.memgests = {{MemgestId(8), 11, 12, 13, 14, 15}};
  const nlohmann::json shown = RunJson({"memgest", "show", "cold"});
  EXPECT_EQ(shown["failures_tolerated"], 1);
  EXPECT_EQ(shown["storage_overhead"], 1.5);
  EXPECT_EQ(shown["stats"]["keys"], 11);
  EXPECT_THAT(Run({"memgest", "show", "cold"}).out,
              AllOf(HasSubstr("survives      1 lost nodes"), HasSubstr("keys          11")));
  EXPECT_THAT(Run({"memgest", "show", "REP1"}).out, HasSubstr("unreliable"));
  EXPECT_EQ(Run({"memgest", "delete", "cold"}).status, 0);
  EXPECT_EQ(Run({"memgest", "show", "cold"}).status, 1);
  EXPECT_EQ(RunJson({"memgest", "list"})["memgests"].size(), 8u);
  EXPECT_EQ(RunJson({"memgest", "list", "--all"})["memgests"].size(), 9u);
}

TEST_F(RingctlAdminTest, G10RefusalsSayWhatToDo) {
  const ProgramResult refused = Run({"memgest", "delete", "REP3"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("REP3"), HasSubstr("make another one the default")));
  EXPECT_EQ(Run({"memgest", "default", "SRS32"}).status, 0);
  EXPECT_EQ(Run({"memgest", "delete", "REP3"}).status, 0);
  const nlohmann::json error = RunJson({"memgest", "create", "--srs", "4,1"}, 1)["error"];
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("k=4"));
}

TEST_F(RingctlAdminTest, ShowsTheClusterAndItsStatistics) {
  const ProgramResult shown = Run({"cluster"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("3 shards, 2 redundant"), HasSubstr("spare"),
                               HasSubstr("COORDINATORS"), HasSubstr("2 -\n"),
                               HasSubstr("warning: node 3 (n3) is down"),
                               HasSubstr("redundant roles without a node: 1")));
  const nlohmann::json view = RunJson({"cluster"});
  EXPECT_EQ(view["nodes"][3]["status"], "down");
  EXPECT_EQ(view["groups"][4]["roles"], (nlohmann::json{4, 0, 1, 2, nullptr}));
  EXPECT_EQ(view["groups"][4]["shards"][0]["memgests"][0]["complete"], (nlohmann::json{0, 3}));
  EXPECT_EQ(view["nodes"].size(), 6u);
  EXPECT_EQ(view["groups"][1]["roles"], (nlohmann::json{1, 2, 3, 4, 0}));
  EXPECT_EQ(view["nodes"][0]["host_base64"], "/2hvc3QA");
  port_.stats.memgests = {{MemgestId(1), 5, 6, 7, 8, 9}};
  node::NodeStats node;
  node.node = NodeId(2);
  node.gets = 42;
  node.transports = {"tcp", "", "shm"};
  port_.stats.nodes = {node};
  EXPECT_THAT(Run({"stats"}).out,
              AllOf(HasSubstr("REP3"), HasSubstr("42"), HasSubstr("tcp - shm")));
  const nlohmann::json stats = RunJson({"stats"});
  EXPECT_EQ(stats["memgests"][0]["name"], "REP3");
  EXPECT_EQ(stats["nodes"][0]["gets"], 42);
}

TEST_F(RingctlAdminTest, AScrubThatFindsSomethingExitsWithOne) {
  const nlohmann::json report = RunJson({"scrub"}, 1);
  EXPECT_EQ(report["mismatches"], 1);
  EXPECT_EQ(report["details"].size(), 1u);
  const ProgramResult shown = Run({"scrub"});
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.err, HasSubstr("replica 1 differs"));
  EXPECT_THAT(shown.out, HasSubstr("mismatches=1"));
}

TEST_F(RingctlAdminTest, NoServiceIsARefusalThatNamesTheAddress) {
  const ProgramResult none = RunProgram({RINGCTL_PROGRAM, "cluster"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("RING_ADMIN"));
  const ProgramResult down =
      RunProgram({RINGCTL_PROGRAM, "--admin", "127.0.0.1:1", "--timeout", "0.2", "stats"});
  EXPECT_EQ(down.status, 1);
  EXPECT_THAT(down.err, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(down.out, IsEmpty());
}

}  // namespace
}  // namespace ring::testing
