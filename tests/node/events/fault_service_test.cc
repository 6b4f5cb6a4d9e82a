// Faults that an operator asks for: refused unless allowed, bounded, and undone by themselves.
#include "ring/node/events/fault_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Fault, TravelsWholeOrIsRefused) {
  const Fault fault{FaultKind::kDrop, NodeId(3), 500};
  const std::string bytes = EncodeFault(fault);
  ASSERT_OK_AND_ASSIGN(const Fault got, DecodeFault(bytes));
  EXPECT_EQ(got, fault);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeFault(absl::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeFault(bytes + "x").ok());
}

TEST(Fault, EachHasItsBounds) {
  EXPECT_OK(CheckFault({FaultKind::kKill, cluster::kNoNode, 0}));
  EXPECT_OK(CheckFault({FaultKind::kPause, cluster::kNoNode, kFaultMsMax}));
  const auto refused = [](const Fault& fault, const char* field) {
    EXPECT_THAT(CheckFault(fault), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  };
  refused({FaultKind::kPause, cluster::kNoNode, 0}, "duration_ms=0");
  refused({FaultKind::kPause, cluster::kNoNode, kFaultMsMax + 1}, "duration_ms=60001");
  refused({FaultKind::kDrop, cluster::kNoNode, 10}, "peer");
  refused({FaultKind::kBreak, cluster::kNoNode, 0}, "peer");
  refused({FaultKind::kCut, cluster::kNoNode, 10}, "peer");
  refused({FaultKind::kCut, NodeId(1), 0}, "duration_ms=0");
  refused({static_cast<FaultKind>(0), cluster::kNoNode, 0}, "kind=0");
  refused({static_cast<FaultKind>(9), cluster::kNoNode, 0}, "kind=9");
}

TEST(FaultService, RefusesUnlessTheConfigurationAllowsIt) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start());
  EXPECT_THAT(cluster.admin().InjectFault("n1", {FaultKind::kKill, cluster::kNoNode, 0}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fault_injection")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster.Connect());
  EXPECT_OK(client->Put("key", "value").status());
}

TEST(FaultService, AKilledNodesRolesAreTakenOver) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start(/*fail_over=*/true, /*fault_injection=*/true));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster.Connect());
  ASSERT_OK(client->Put("key", "value").status());
  ASSERT_OK_AND_ASSIGN(const WhereResult where, client->Where("key"));
  const std::string victim = absl::StrCat(where.node.value());
  ASSERT_OK(cluster.admin().InjectFault(victim, {FaultKind::kKill, cluster::kNoNode, 0}));
  Await("the victim's loss", [&] {
    return (*cluster.admin().GetView())->nodes[where.node.value()].status !=
           cluster::NodeStatus::kUp;
  });
  absl::StatusOr<GetResult> got;
  ring::testing::AwaitOk("the value", [&] { return (got = client->Get("key")).status(); });
  EXPECT_EQ(got->value, "value");
}

TEST(FaultService, ABrokenConnectionIsMadeAgain) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start(false, /*fault_injection=*/true));
  // 0 while there is none.
  const auto connection = [&] {
    std::uint32_t generation = 0;
    cluster.Run([&] {
      const ControlPort& control = cluster.node(1).control();
      if (control.connected(NodeId(4))) generation = control.generation(NodeId(4));
    });
    return generation;
  };
  const std::uint32_t before = connection();
  ASSERT_GT(before, 0u);
  ASSERT_OK(cluster.admin().InjectFault("n1", {FaultKind::kBreak, NodeId(4), 0}));
  Await("another connection", [&] { return connection() > before; });
}

TEST(FaultService, DroppedMessagesAreLostForAWhileOnly) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start(false, /*fault_injection=*/true));
  const auto silent = [&] {  // node 0 asks all for their health
    const absl::StatusOr<cluster::Health> health = cluster.admin().GetHealth();
    return !health.ok() || !health->warnings.empty();
  };
  absl::Time again = absl::InfinitePast();
  Await("a node's silence", [&] {
    const absl::Time now = absl::Now();
    // Nobody was asked in the while that is over.
    if (now >= again &&
        cluster.admin().InjectFault("n0", {FaultKind::kDrop, NodeId(4), 1000}).ok()) {
      again = now + absl::Seconds(2);
    }
    return silent();
  });
  Await("its answers", [&] { return !silent(); });
}

// Who connects is one of the two, so both are asked; a connection ends with its next message.
TEST(FaultService, F6NodesThatAreCutOffReachEachOtherAgainLater) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start(false, /*fault_injection=*/true));
  const auto connected = [&](std::uint32_t node, std::uint32_t peer) {
    cluster.admin().GetHealth().IgnoreError();  // node 0 asks all
    bool up = false;
    cluster.Run([&] { up = cluster.node(node).control().connected(NodeId(peer)); });
    return up;
  };
  ASSERT_OK(cluster.admin().InjectFault("n4", {FaultKind::kCut, NodeId(0), kFaultMsMax}));
  ASSERT_OK(cluster.admin().InjectFault("n0", {FaultKind::kCut, NodeId(4), kFaultMsMax}));
  Await("the end of their connection", [&] { return !connected(0, 4) && !connected(4, 0); });
  EXPECT_TRUE(connected(0, 3));
  EXPECT_TRUE(connected(1, 4));
  EXPECT_FALSE(connected(0, 4));
  ASSERT_OK(cluster.admin().InjectFault("n0", {FaultKind::kClear, cluster::kNoNode, 0}));
  Await("their connection", [&] { return connected(0, 4) && connected(4, 0); });
  ASSERT_OK(cluster.admin().InjectFault("n4", {FaultKind::kClear, cluster::kNoNode, 0}));
}

TEST(FaultService, APeerMustBeAnotherNodeAndTheNodeKnown) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start(false, /*fault_injection=*/true));
  EXPECT_THAT(cluster.admin().InjectFault("n1", {FaultKind::kBreak, NodeId(1), 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("peer=1")));
  EXPECT_THAT(cluster.admin().InjectFault("n1", {FaultKind::kBreak, NodeId(99), 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("peer=99")));
  EXPECT_THAT(cluster.admin().InjectFault("n9", {FaultKind::kKill, cluster::kNoNode, 0}),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ring::node
