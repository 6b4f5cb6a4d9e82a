// Nodes that the configuration does not name: they join a running cluster, take over, and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/status.h"
#include "ring/cluster/health.h"
#include "tests/node/recovery/fail_over_fixture.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/free_ports.h"

namespace ring::node {
namespace {

using ::ring::testing::AwaitOk;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

class AddNodeTest : public testing::FailOverFixture {
 protected:
  // Until `done` of the view that was agreed upon.
  void WaitFor(const std::function<bool(const cluster::View&)>& done) {
    AwaitOk("the agreed view that the test needs", [&]() -> absl::Status {
      RING_ASSIGN_OR_RETURN(const auto view, cluster_.admin().GetView());
      if (done(*view)) return absl::OkStatus();
      return absl::UnavailableError(
          absl::StrCat(view->nodes.size(), " nodes, ", view->spare_count(), " spares; ",
                       absl::StrJoin(cluster::HealthWarnings(*view), "; ")));
    });
  }
  void WaitReady(NodeId id) {
    AwaitOk(absl::StrCat("node ", id.value()), [&] {
      absl::Status status;
      cluster_.Run([&] {
        Node* const node = cluster_.FindNode(id);
        if (!node->ready()) status = absl::UnavailableError(node->Missing());
      });
      return status;
    });
  }
  static cluster::NodeStatus StatusOf(const cluster::View& view, std::size_t node) {
    return node < view.nodes.size() ? view.nodes[node].status : cluster::NodeStatus::kRemoved;
  }
};

// The spare of the file goes first; what is lost then, only the added node can have.
TEST_F(AddNodeTest, AnAddedNodeTakesOverWhatIsLost) {
  Load("REP3", 60);
  Load("SRS32", 30);
  ASSERT_OK_AND_ASSIGN(const NodeId added, cluster_.Add("n6"));
  EXPECT_EQ(added, NodeId(6));
  WaitFor([](const cluster::View& view) {
    return StatusOf(view, 6) == cluster::NodeStatus::kUp && view.spare_count() == 2;
  });
  WaitReady(NodeId(6));
  cluster_.Kill(NodeId(5));
  WaitFor(
      [](const cluster::View& view) { return StatusOf(view, 5) == cluster::NodeStatus::kDown; });
  cluster_.Kill(NodeId(2));
  ExpectEverything();
  WaitFor([](const cluster::View& view) {
    return view.HoldsRole(NodeId(6)) && !view.HoldsRole(NodeId(2));
  });
  cluster_.AwaitProtected();
  Load("REP4", 30);
  ExpectEverything();
}

// It leads its shards to a node that was added behind it.
TEST_F(AddNodeTest, AddedNodesTakeOverFromEachOtherAndAreRemoved) {
  Load("REP3", 60);
  ASSERT_OK_AND_ASSIGN(const NodeId first, cluster_.Add("n6"));
  ASSERT_OK_AND_ASSIGN(const NodeId second, cluster_.Add("n7"));
  EXPECT_EQ(first, NodeId(6));
  EXPECT_EQ(second, NodeId(7));
  WaitFor([](const cluster::View& view) { return view.spare_count() == 3; });
  ASSERT_OK(cluster_.admin().RemoveNode("n5", false));
  ASSERT_OK(cluster_.admin().DrainNode("n2", false));
  WaitFor([](const cluster::View& view) { return view.HoldsRole(NodeId(6)); });
  ExpectEverything();
  cluster_.AwaitProtected();
  ASSERT_OK(cluster_.admin().DrainNode("n6", false));
  ExpectEverything();
  cluster_.AwaitProtected();
  AwaitOk("its removal", [&] { return cluster_.admin().RemoveNode("n6", false); });
  cluster_.Kill(NodeId(6));
  EXPECT_TRUE((*cluster_.admin().GetView())->HoldsRole(NodeId(7)));
  // Who was removed is asked for nothing any more, and is waited for by nobody.
  ASSERT_OK(cluster_.admin().GetStats().status());
  WaitReady(NodeId(7));
  WaitReady(NodeId(0));
  ExpectEverything();
}

TEST_F(AddNodeTest, ANodeThatWasNeverStartedHoldsNothingUp) {
  cluster::NodeInfo info;
  info.name = "n6";
  info.tcp_address = "tcp:127.0.0.1:1";
  ASSERT_OK_AND_ASSIGN(const NodeId added, cluster_.admin().AddNode(info));
  EXPECT_EQ(added, NodeId(6));
  ASSERT_OK_AND_ASSIGN(const NodeId again, cluster_.admin().AddNode(info));
  EXPECT_EQ(again, NodeId(6));
  WaitFor([](const cluster::View& view) { return view.nodes.size() == 7; });
  EXPECT_EQ((*cluster_.admin().GetView())->spare_count(), 1);
  ASSERT_OK(cluster_.admin().GetStats().status());
  protocol::MemgestDescriptor descriptor;
  descriptor.name = "MORE";
  descriptor.r = 2;
  ASSERT_OK(cluster_.admin().CreateMemgest({"test", 1}, descriptor).status());
  Load("MORE", 5);
  ASSERT_OK_AND_ASSIGN(const cluster::Health health, cluster_.admin().GetHealth());
  EXPECT_THAT(health.warnings, ::testing::Contains(HasSubstr("node 6 (n6) is down")));
  ASSERT_OK(cluster_.admin().RemoveNode("n6", false));
  EXPECT_EQ(StatusOf(**cluster_.admin().GetView(), 6), cluster::NodeStatus::kRemoved);
  info.tcp_address = "tcp:127.0.0.1:2";
  EXPECT_THAT(cluster_.admin().AddNode(info), ::ring::testing::IsOkAndHolds(NodeId(6)));
}

TEST_F(AddNodeTest, WhatCannotBeIsRefusedWithItsField) {
  const auto add = [this](const std::string& name, const std::string& tcp,
                          const std::string& shm = "", const std::string& admin = "",
                          const std::string& rdma = "") {
    cluster::NodeInfo info;
    info.name = name;
    info.tcp_address = tcp;
    info.shm_address = shm;
    info.admin_address = admin;
    info.rdma_address = rdma;
    return cluster_.admin().AddNode(info).status();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(add("", "tcp:127.0.0.1:1"), StatusIs(kInvalid, HasSubstr("name has size=0")));
  EXPECT_THAT(add(std::string(256, 'n'), "tcp:127.0.0.1:1"),
              StatusIs(kInvalid, HasSubstr("name has size=256")));
  EXPECT_THAT(add("n6", ""), StatusIs(kInvalid, HasSubstr("no data address")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1"), StatusIs(kInvalid, HasSubstr("data=127.0.0.1")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1:0"), StatusIs(kInvalid, HasSubstr("data=127.0.0.1:0")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1:1", "shm:relative"),
              StatusIs(kInvalid, HasSubstr("shm=relative")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1:1", "", "127.0.0.1"),
              StatusIs(kInvalid, HasSubstr("admin=127.0.0.1")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1:1", "", "", "rdma:127.0.0.1"),
              StatusIs(kInvalid, HasSubstr("rdma=127.0.0.1")));
  EXPECT_THAT(add("n6", "tcp:127.0.0.1:1", "", "", "tcp:127.0.0.1:2"),
              StatusIs(kInvalid, HasSubstr("is no RDMA address")));
  EXPECT_THAT(add("n2", "tcp:127.0.0.1:1"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("name=n2")));
  const std::string taken = (*cluster_.admin().GetView())->nodes[1].tcp_address;
  ASSERT_NE(taken, "");
  EXPECT_THAT(add("n6", taken),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is that of node 1 (n1)")));
  EXPECT_EQ((*cluster_.admin().GetView())->nodes.size(), 6u);
}

// Every node dials it, on the thread that serves: nobody looks a name up there.
TEST_F(AddNodeTest, ANameIsAgreedUponAsANumber) {
  cluster::NodeInfo info;
  info.name = "n6";
  info.tcp_address = "tcp:localhost:1";
  ASSERT_OK(cluster_.admin().AddNode(info).status());
  WaitFor([](const cluster::View& view) { return view.nodes.size() == 7; });
  EXPECT_THAT((*cluster_.admin().GetView())->nodes[6].tcp_address,
              ::testing::AnyOf("tcp:127.0.0.1:1", "tcp:[::1]:1"));
  EXPECT_THAT(cluster_.admin().AddNode(info), ::ring::testing::IsOkAndHolds(NodeId(6)));
  info.name = "n7";
  info.tcp_address = "tcp:nobody.invalid:1";
  EXPECT_THAT(std::string(cluster_.admin().AddNode(info).status().message()),
              HasSubstr("data=nobody.invalid:1: "));
}

// Nodes that take each other for those of other processes: what one knows of another's address is
// its configuration, and what was agreed upon.
class MovedNodeTest : public AddNodeTest {
 protected:
  void SetUp() override {
    cluster_.HideLocal();
    ASSERT_OK(cluster_.Start(/*fail_over=*/true, /*fault_injection=*/false, FenceKind::kLease,
                             [](NodeConfig* config) {
                               for (NodeEntry& node : config->nodes) node.shm.clear();
                             }));
  }
  void Remove(NodeId id) {
    cluster_.Kill(id);
    WaitFor([id](const cluster::View& view) {
      return view.nodes[id.value()].status == cluster::NodeStatus::kDown;
    });
    ASSERT_OK(cluster_.admin().RemoveNode(absl::StrCat("n", id.value()), false));
  }
};

// Of its addresses nothing is agreed upon any more, and only others can connect to it.
TEST_F(MovedNodeTest, ARemovedNodeOfTheFileComesBackWhenItIsStartedAgain) {
  Remove(NodeId(5));
  WaitFor([](const cluster::View& view) { return view.nodes[5].tcp_address.empty(); });
  ASSERT_OK(cluster_.Restart(NodeId(5), nullptr));
  WaitFor([](const cluster::View& view) {
    return StatusOf(view, 5) == cluster::NodeStatus::kUp && view.spare_count() == 1;
  });
  WaitReady(NodeId(5));
}

// The others' configuration still has the former address.
TEST_F(MovedNodeTest, ANodeThatWasAddedElsewhereIsReachedThere) {
  const std::string former = (*cluster_.admin().GetView())->nodes[5].tcp_address;
  Remove(NodeId(5));
  ASSERT_OK_AND_ASSIGN(const std::vector<int> ports, tools::FreePorts(1));
  cluster::NodeInfo info;
  info.name = "n5";
  info.tcp_address = absl::StrCat("tcp:127.0.0.1:", ports[0]);
  ASSERT_NE(info.tcp_address, former);
  EXPECT_THAT(cluster_.admin().AddNode(info), ::ring::testing::IsOkAndHolds(NodeId(5)));
  WaitFor([&](const cluster::View& view) { return view.nodes[5].tcp_address == info.tcp_address; });
  ASSERT_OK(cluster_.Restart(NodeId(5), nullptr, absl::StrCat("127.0.0.1:", ports[0])));
  WaitFor([](const cluster::View& view) {
    return StatusOf(view, 5) == cluster::NodeStatus::kUp && view.spare_count() == 1;
  });
  WaitReady(NodeId(5));
}

}  // namespace
}  // namespace ring::node
