// The operators' commands of ringctl, as processes, against the admin service over a port in
// memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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
  const nlohmann::json created = RunJson({"memgest", "create", "--srs", "2,1", "--name", "cold",
                                          "--block-size", "64kb", "--repair", "ppr"});
  EXPECT_EQ(created["repair"], "ppr");
  EXPECT_EQ(created["scheme"], "SRS(2,1)");
  EXPECT_EQ(created["block_size"], 65536);
  EXPECT_EQ(RunJson({"memgest", "create", "--rep", "5", "--commit", "all"})["name"], "REP5-ALL");
  port_.stats.memgests = {{MemgestId(8), 11, 12, 13, 14, 15}};
  const nlohmann::json shown = RunJson({"memgest", "show", "cold"});
  EXPECT_EQ(shown["failures_promised"], 1);
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

TEST_F(RingctlAdminTest, JsonOfAChangeNamesTheMemgestAndWhatBecameOfIt) {
  EXPECT_EQ(RunJson({"memgest", "default", "SRS32"}),
            (nlohmann::json{{"name", "SRS32"}, {"default", true}}));
  const nlohmann::json list = RunJson({"memgest", "list"})["memgests"];
  for (const nlohmann::json& one : list) EXPECT_EQ(one["default"], one["name"] == "SRS32") << one;
  EXPECT_EQ(RunJson({"memgest", "delete", "REP3"}),
            (nlohmann::json{{"name", "REP3"}, {"deleted", true}}));
  EXPECT_EQ(RunJson({"memgest", "delete", "REP3"}, 1)["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(RunJson({"memgest", "default", "nope"}, 1)["error"]["code"], "NOT_FOUND");
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
  EXPECT_EQ(view["nodes"][3]["node"], 3);
  EXPECT_EQ(view["nodes"][3]["node_name"], "n3");
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
  node.fence = "check";
  port_.stats.nodes = {node};
  EXPECT_THAT(Run({"stats"}).out,
              AllOf(HasSubstr("REP3"), HasSubstr("42"), HasSubstr("check  tcp - shm")));
  // The others did not say.
  EXPECT_THAT(Run({"cluster"}).out, AllOf(HasSubstr("PEERS BY"), HasSubstr("shm 1, tcp 1\n")));
  const nlohmann::json linked = RunJson({"cluster"});
  EXPECT_EQ(linked["nodes"][2]["transports"], (nlohmann::json{"tcp", "", "shm"}));
  EXPECT_EQ(linked["nodes"][1]["transports"], nlohmann::json::array());
  EXPECT_EQ(linked["nodes"][1]["rdma"], "");
  const nlohmann::json stats = RunJson({"stats"});
  EXPECT_EQ(stats["memgests"][0]["name"], "REP3");
  EXPECT_EQ(stats["nodes"][0]["gets"], 42);
  EXPECT_EQ(stats["nodes"][0]["node"], 2);
  EXPECT_EQ(stats["nodes"][0]["node_name"], "n2");
  EXPECT_EQ(stats["nodes"][0]["fence"], "check");
}

TEST_F(RingctlAdminTest, HealthsExitStatusIsItsLevel) {
  port_.health.memgests = {
      {MemgestId(1), "REP3", "Rep(3)", cluster::Condition::kProtected, 1, 1, 1.0, 100, 0, 0}};
  port_.health.leader = NodeId(2);
  const ProgramResult well = Run({"health"});
  EXPECT_EQ(well.status, 0);
  EXPECT_THAT(well.out, AllOf(HasSubstr("health OK"), HasSubstr("leader 2"), HasSubstr("protected"),
                              Not(HasSubstr("NOT SERVING"))));
  port_.health.level = cluster::HealthLevel::kWarn;
  port_.health.memgests[0].condition = cluster::Condition::kRecovering;
  port_.health.memgests[0].now = 0;
  port_.health.memgests[0].recovered = 0.999;
  port_.health.memgests[0].keys_at_risk = 40;
  port_.health.warnings = {"node 3 (n3) is down"};
  const ProgramResult mending = Run({"health"});
  EXPECT_EQ(mending.status, 1);
  EXPECT_THAT(mending.out, AllOf(HasSubstr("health WARN"), HasSubstr("recovering 99 %"),
                                 HasSubstr("warning: node 3 (n3) is down")));
  port_.health.level = cluster::HealthLevel::kFail;
  port_.health.shards = {{GroupId(1), ShardId(2), cluster::kNoNode, true, "no node", Epoch(3), {}}};
  EXPECT_EQ(Run({"health"}).status, 2);
  const nlohmann::json json = RunJson({"health"}, 2);
  EXPECT_EQ(json["level"], "FAIL");
  EXPECT_EQ(json["memgests"][0]["condition"], "recovering");
  EXPECT_EQ(json["memgests"][0]["failures_promised"], 1);
  EXPECT_EQ(json["memgests"][0]["failures_survived"], 0);
  EXPECT_EQ(json["memgests"][0]["keys_at_risk"], 40);
  EXPECT_EQ(json["leader"], 2);
  EXPECT_EQ(json["shards_not_serving"][0]["coordinator"], nullptr);
  EXPECT_EQ(json["shards_not_serving"][0]["reason"], "no node");
  EXPECT_EQ(json["warnings"], nlohmann::json::array({"node 3 (n3) is down"}));
  // People get it escaped, programs as it is.
  port_.health.warnings = {"node \\3\t\u00fc"};
  EXPECT_EQ(RunJson({"health"}, 2)["warnings"], nlohmann::json::array({"node \\3\t\u00fc"}));
}

TEST_F(RingctlAdminTest, HealthThatNobodyTellsIsNoFinding) {
  port_.fail_next = {absl::FailedPreconditionError("no view yet")};
  const ProgramResult unknown = Run({"health"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, HasSubstr("no view yet"));
  EXPECT_EQ(RunProgram({RINGCTL_PROGRAM, "health"}).status, 3) << "no address";
  EXPECT_EQ(Run({"health", "--admin-token-file", "/nowhere"}).status, 3);
}

// 1 and 2 would be read as WARN and FAIL.
TEST_F(RingctlAdminTest, HealthThatIsAskedForWronglyIsNoFinding) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"health", "--bogus"},
                                             {"--bogus", "health"},
                                             {"health", "extra"},
                                             {"health", "--count", "2"},
                                             {"health", "--timeout", "soon"},
                                             {"health", "--timeout", "61"}}) {
    const ProgramResult result = Run(wrong);
    EXPECT_EQ(result.status, 4) << wrong[0] << " " << wrong[1] << result.out << result.err;
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_EQ(Run({"health", "--help"}).status, 0);
}

TEST_F(RingctlAdminTest, NoCallIsWaitedForLongerThanItsTimeout) {
  const ProgramResult refused = Run({"stats", "--timeout", "61"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--timeout"), HasSubstr("60")));
  EXPECT_EQ(Run({"stats", "--timeout", "60"}).status, 0);
}

TEST_F(RingctlAdminTest, AWatchGivesOneLineARound) {
  const ProgramResult health =
      Run({"--json", "health", "--watch", "--interval", "0.05", "--count", "3"});
  EXPECT_EQ(health.status, 0);
  EXPECT_EQ(std::count(health.out.begin(), health.out.end(), '\n'), 3);
  const ProgramResult cluster =
      Run({"--json", "cluster", "--watch", "--interval", "0.05", "--count", "2"});
  EXPECT_EQ(cluster.status, 0);
  EXPECT_EQ(std::count(cluster.out.begin(), cluster.out.end(), '\n'), 2);
  EXPECT_EQ(Run({"cluster", "--count", "2"}).status, 2);  // needs --watch
}

TEST_F(RingctlAdminTest, EventsAreShownInTheirOrder) {
  node::Event failed;
  failed.number = 1;
  failed.time_ns = 2'000'000;
  failed.kind = node::EventKind::kFailed;
  failed.subject = NodeId(3);
  node::Event begun;
  begun.number = 1;
  begun.time_ns = 3'000'000;
  begun.kind = node::EventKind::kEpochBegun;
  begun.group = 4;
  begun.shard = 1;
  begun.epoch = Epoch(2);
  node::Event normal = begun;
  normal.number = 2;
  normal.time_ns = 4'500'000;
  normal.kind = node::EventKind::kNormal;
  port_.events = {{NodeId(5), Incarnation(1), 0, {begun, normal}},
                  {NodeId(0), Incarnation(1), 0, {failed}}};
  const ProgramResult shown = Run({"events"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_LT(shown.out.find("failed  of node 3"),
            shown.out.find("epoch-begun  group 4 shard 1 epoch 2"))
      << shown.out;
  const nlohmann::json events = RunJson({"events"})["events"];
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["event"], "failed");
  EXPECT_EQ(events[0]["subject"], 3);
  EXPECT_EQ(events[2]["node"], 5);
  EXPECT_EQ(events[2]["node_name"], "n5");
  EXPECT_EQ(events[2]["unix_ns"], 4'500'000);
  // With --follow nothing comes twice.
  const ProgramResult followed =
      Run({"--json", "events", "--follow", "--interval", "0.05", "--count", "3"});
  EXPECT_EQ(std::count(followed.out.begin(), followed.out.end(), '\n'), 3) << followed.out;
  const nlohmann::json fail_overs = RunJson({"events", "--fail-overs"})["fail_overs"];
  ASSERT_EQ(fail_overs.size(), 1u);
  EXPECT_EQ(fail_overs[0]["node"], 3);
  EXPECT_EQ(fail_overs[0]["node_name"], "n3");
  EXPECT_EQ(fail_overs[0]["shards"][0]["node_name"], "n5");
  EXPECT_EQ(fail_overs[0]["shards"][0]["since_agreed_ns"]["normal"], 2'500'000);
  EXPECT_THAT(Run({"events", "--fail-overs"}).out,
              AllOf(HasSubstr("failure of node 3"), HasSubstr("g4/s1")));
}

TEST_F(RingctlAdminTest, ADrainedNodeCanBeRemoved) {
  const nlohmann::json drained = RunJson({"node", "drain", "n1"});
  EXPECT_EQ(drained["node"], 1);
  EXPECT_EQ(drained["drained"], true);
  EXPECT_EQ(RunJson({"node", "remove", "n1"}),
            (nlohmann::json{{"node", 1}, {"node_name", "n1"}, {"removed", true}}));
  EXPECT_EQ(Run({"node", "remove", "--force", "n2"}).status, 0);
  EXPECT_THAT(port_.node_changes,
              ::testing::ElementsAre("drain n1", "remove n1", "remove n2 force"));
}

// As the service takes it, and what waits for the end of it finds the same node.
TEST_F(RingctlAdminTest, ANodeMayBeWrittenAsAnyNumberThatIsIts) {
  EXPECT_EQ(RunJson({"node", "drain", "01", "--wait", "20"}),
            (nlohmann::json{{"node", 1}, {"node_name", "n1"}, {"drained", true}}));
  EXPECT_EQ(RunJson({"node", "drain", "02", "--no-wait"}),
            (nlohmann::json{{"node", 2}, {"node_name", "n2"}, {"draining", true}}));
  EXPECT_EQ(RunJson({"fault", "break", "01", "04"}),
            (nlohmann::json{{"node", 1}, {"node_name", "n1"}, {"fault", "break"}}));
  EXPECT_EQ(port_.faults.back().second.peer, NodeId(4));
  EXPECT_EQ(RunJson({"fault", "status", "2"})["node_name"], "n2");
  EXPECT_EQ(RunJson({"node", "remove", "99"}, 1)["error"]["code"], "NOT_FOUND");
}

TEST_F(RingctlAdminTest, ANodeIsAddedWithItsAddresses) {
  const nlohmann::json added = RunJson({"node", "add", "n9", "--data", "10.0.0.9:7800", "--shm",
                                        "/run/n9.sock", "--admin", "10.0.0.9:7900"});
  EXPECT_EQ(added["node"], (*port_.GetView())->nodes.size());
  EXPECT_EQ(added["node_name"], "n9");
  const ProgramResult shown = Run({"node", "add", "n9", "--data", "10.0.0.9:7800"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, HasSubstr("ringd --config FILE --node n9 --added"));
  EXPECT_EQ(Run({"node", "add", "n9", "--rdma", "10.1.0.9:7801"}).status, 0);
  EXPECT_THAT(port_.node_changes,
              ::testing::ElementsAre("add n9 tcp:10.0.0.9:7800 shm:/run/n9.sock 10.0.0.9:7900",
                                     "add n9 tcp:10.0.0.9:7800  ", "add n9    rdma:10.1.0.9:7801"));
  port_.fail_next = {absl::AlreadyExistsError("name=n1 is that of node 1, which has others")};
  const ProgramResult refused = Run({"node", "add", "n1", "--data", "10.0.0.9:7800"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("name=n1 is that of node 1"));
  EXPECT_EQ(Run({"node", "add"}).status, 2);
}

TEST_F(RingctlAdminTest, E8LossesAreAcceptedOnlyWithAWordForIt) {
  for (const bool yes : {false, true}) {
    const ProgramResult none = yes ? Run({"accept-loss", "--yes"}) : Run({"accept-loss"});
    EXPECT_EQ(none.status, 0);
    EXPECT_THAT(none.out, HasSubstr("no shard is stopped"));
  }
  EXPECT_EQ(RunJson({"accept-loss"}), (nlohmann::json{{"stopped", nlohmann::json::array()}}));
  EXPECT_EQ(RunJson({"accept-loss", "--yes"})["shards"], 0);
  // The last one has a coordinator that is down: to bring it back is what helps.
  port_.health.shards = {
      {GroupId(1), ShardId(2), NodeId(5), true, "too few survivors", Epoch(3), {MemgestId(9)}},
      {GroupId(0), ShardId(1), NodeId(4), false, "fetches metadata", Epoch(3), {}},
      {GroupId(0), ShardId(2), NodeId(6), true, "is down and keeps the role", Epoch(3), {}}};
  const ProgramResult shown = Run({"accept-loss"});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("group 1 shard 2"), HasSubstr("memgest 9"),
                    HasSubstr("too few survivors"), HasSubstr("--yes"), Not(HasSubstr("group 0"))));
  const nlohmann::json stopped = {{"group", 1},
                                  {"shard", 2},
                                  {"coordinator", 5},
                                  {"lost", {9}},
                                  {"reason", "too few survivors"}};
  EXPECT_EQ(RunJson({"accept-loss"})["stopped"], nlohmann::json::array({stopped}));
  EXPECT_THAT(port_.node_changes, ::testing::IsEmpty());
  EXPECT_EQ(RunJson({"accept-loss", "--yes"})["shards"], 1);
  EXPECT_THAT(port_.node_changes, ::testing::ElementsAre("accept-loss"));
}

TEST_F(RingctlAdminTest, ADrainThatIsNotDoneInTimeSaysWhatIsLeft) {
  port_.health.shards = {
      {GroupId(1), ShardId(2), NodeId(5), false, "fetches metadata", Epoch(3), {}}};
  const ProgramResult waiting = Run({"node", "drain", "n1", "--wait", "0.1"});
  EXPECT_EQ(waiting.status, 1);
  EXPECT_THAT(waiting.err, HasSubstr("shards that do not serve yet: 1"));
  EXPECT_EQ(Run({"node", "drain", "n1", "--no-wait"}).status, 0);
  port_.health.shards.clear();
  cluster::MemgestHealth degraded_memgest;
  degraded_memgest.name = "REP3";
  degraded_memgest.condition = cluster::Condition::kDegraded;
  port_.health.memgests = {degraded_memgest};
  const ProgramResult degraded = Run({"node", "drain", "n1", "--wait", "0.1"});
  EXPECT_EQ(degraded.status, 1);
  EXPECT_THAT(degraded.err, HasSubstr("is degraded"));
}

TEST_F(RingctlAdminTest, RefusalsOfNodeChangesNameTheNode) {
  EXPECT_THAT(Run({"node", "drain", "nobody"}).err, HasSubstr("no node is named nobody"));
  port_.fail_next = {absl::FailedPreconditionError("no spare takes the roles of node 1 (n1)")};
  const ProgramResult refused = Run({"node", "drain", "n1"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("no spare"));
  EXPECT_EQ(Run({"node", "drain"}).status, 2);
  EXPECT_EQ(Run({"node"}).status, 2);
}

TEST_F(RingctlAdminTest, FaultsArriveAndTheirBoundsAreChecked) {
  EXPECT_EQ(RunJson({"fault", "pause", "n1", "--ms", "250"})["fault"], "pause");
  EXPECT_EQ(Run({"fault", "drop", "n1", "3", "--ms", "60000"}).status, 0);
  EXPECT_EQ(Run({"fault", "break", "n1", "n2"}).status, 0);  // a name is as good as a number
  EXPECT_EQ(Run({"fault", "cut", "n1", "2", "--ms", "700"}).status, 0);
  EXPECT_EQ(Run({"fault", "kill", "n4"}).status, 0);
  using node::Fault;
  using node::FaultKind;
  EXPECT_THAT(port_.faults,
              ::testing::ElementsAre(
                  std::pair<std::string, Fault>("n1", {FaultKind::kPause, cluster::kNoNode, 250}),
                  std::pair<std::string, Fault>("n1", {FaultKind::kDrop, NodeId(3), 60000}),
                  std::pair<std::string, Fault>("n1", {FaultKind::kBreak, NodeId(2), 0}),
                  std::pair<std::string, Fault>("n1", {FaultKind::kCut, NodeId(2), 700}),
                  std::pair<std::string, Fault>("n4", {FaultKind::kKill, cluster::kNoNode, 0})));
  EXPECT_EQ(Run({"fault", "pause", "n1", "--ms", "60001"}).status, 2);
  EXPECT_EQ(Run({"fault", "pause", "n1"}).status, 2);
  EXPECT_EQ(Run({"fault", "cut", "n1", "2"}).status, 2);
  const ProgramResult nobody = Run({"fault", "break", "n1", "nobody"});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_THAT(nobody.err, HasSubstr("no node is named nobody"));
  port_.fail_next = {absl::FailedPreconditionError("set fault_injection = \"on\"")};
  const ProgramResult refused = Run({"fault", "kill", "n1"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("fault_injection"));
}

TEST_F(RingctlAdminTest, DeviceFaultsArriveWithTheirBoundsAndAreTold) {
  using rdma::DeviceFaultKind;
  EXPECT_EQ(
      Run({"fault", "fail", "n1", "--count", "3", "--one-in", "100", "--status", "rnr"}).status, 0);
  EXPECT_EQ(RunJson({"fault", "late", "2", "--ms", "50", "--delay-us", "700"})["fault"], "late");
  EXPECT_EQ(Run({"fault", "no-qp", "n1", "--count", "1", "--ms", "9"}).status, 0);
  EXPECT_EQ(Run({"fault", "clear", "n1"}).status, 0);
  ASSERT_EQ(port_.faults.size(), 4u);
  const auto device = [this](std::size_t i) { return port_.faults[i].second.device; };
  EXPECT_EQ(port_.faults[0].second.kind, node::FaultKind::kDevice);
  EXPECT_EQ(device(0), (rdma::DeviceFault{DeviceFaultKind::kFail, 3, 0, 100, 0,
                                          rdma::WcStatus::kRnrRetryExceeded}));
  EXPECT_EQ(port_.faults[1].first, "n2");
  EXPECT_EQ(device(1), (rdma::DeviceFault{DeviceFaultKind::kLate, 0, 50, 1, 700}));
  EXPECT_EQ(device(2), (rdma::DeviceFault{DeviceFaultKind::kNoQueuePair, 1, 9, 1, 0}));
  EXPECT_EQ(port_.faults[3].second.kind, node::FaultKind::kClear);

  rdma::DeviceFaultStatus flip;
  flip.fault = {DeviceFaultKind::kFlip, 9, 0, 1, 0};
  flip.active = true;
  flip.left = 5;
  flip.injected = 4;
  port_.device_faults = {flip};
  const nlohmann::json told = RunJson({"fault", "status", "n1"});
  ASSERT_EQ(told["faults"].size(), 1u);
  EXPECT_EQ(told["faults"][0]["fault"], "flip");
  EXPECT_EQ(told["faults"][0]["injected"], 4);
  EXPECT_EQ(told["faults"][0]["left"], 5);
  EXPECT_EQ(told["faults"][0]["active"], true);
  EXPECT_THAT(Run({"fault", "status", "n1"}).out, HasSubstr("5 times"));
}

TEST_F(RingctlAdminTest, DeviceFaultsWithoutAnEndOrOutOfBoundsAreRefused) {
  EXPECT_THAT(Run({"fault", "tear", "n1"}).err, HasSubstr("--count or --ms"));
  EXPECT_EQ(Run({"fault", "tear", "n1"}).status, 2);
  EXPECT_EQ(Run({"fault", "late", "n1", "--count", "1"}).status, 2);
  EXPECT_EQ(Run({"fault", "flip", "n1", "--ms", "60001"}).status, 2);
  EXPECT_EQ(Run({"fault", "fail", "n1", "--count", "1", "--status", "success"}).status, 2);
  EXPECT_TRUE(port_.faults.empty());
  port_.fail_next = {absl::FailedPreconditionError("set fault_injection = \"on\"")};
  const ProgramResult refused = Run({"fault", "status", "n1"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("fault_injection"));
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

TEST_F(RingctlAdminTest, AScrubEndsWhenItsTimeoutPasses) {
  port_.endless_scrub = true;
  // A busy machine needs more than the first for the scrub to begin.
  for (const auto& [timeout, shown] : {std::pair("0.5", "500ms"), {"3", "3s"}, {"20", "20s"}}) {
    const ProgramResult late = Run({"scrub", "--timeout", timeout});
    EXPECT_EQ(late.status, 1);
    EXPECT_THAT(late.err, HasSubstr("(deadline_exceeded)"));
    if (!absl::StrContains(late.err, "checked=") && timeout != std::string("20")) continue;
    EXPECT_THAT(late.err, HasSubstr(absl::StrCat("scrub: not done within ", shown, ": checked=")));
    break;
  }
  EXPECT_EQ(RunJson({"scrub", "--timeout", "0.5"}, 1)["error"]["code"], "DEADLINE_EXCEEDED");
}

TEST(RingctlAdminUsage, AnAdminAddressThatIsNoneExitsWithTwo) {
  for (const std::string wrong : {"nowhere", "127.0.0.1:x", ":7900", "127.0.0.1:7900,nowhere"}) {
    for (const char* const command : {"cluster", "stats", "scrub", "events", "accept-loss"}) {
      const ProgramResult bad = RunProgram({RINGCTL_PROGRAM, command}, "", {"RING_ADMIN=" + wrong});
      EXPECT_EQ(bad.status, 2) << wrong;
      EXPECT_THAT(bad.err, AllOf(HasSubstr(command), HasSubstr("must be HOST:PORT"))) << wrong;
    }
    EXPECT_EQ(RunProgram({RINGCTL_PROGRAM, "health", "--admin", wrong}).status, 4) << wrong;
    EXPECT_EQ(RunProgram({RINGCTL_PROGRAM, "memgest", "list", "--admin", wrong}).status, 2);
  }
}

TEST_F(RingctlAdminTest, NoServiceIsARefusalThatNamesTheAddress) {
  const ProgramResult none = RunProgram({RINGCTL_PROGRAM, "cluster"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("RING_ADMIN"), HasSubstr("(failed_precondition)")));
  const ProgramResult down =
      RunProgram({RINGCTL_PROGRAM, "--admin", "127.0.0.1:1", "--timeout", "0.2", "stats"});
  EXPECT_EQ(down.status, 1);
  EXPECT_THAT(down.err, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(down.out, IsEmpty());
}

}  // namespace
}  // namespace ring::testing
