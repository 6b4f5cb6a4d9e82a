// What an operator is told whose command outlives the leader that took it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/node/node_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::AnyOf;

constexpr std::uint32_t kMayBeKilled = 2;  // of five voters

// A cluster whose admin service is the leader's: it is of the first node that lives.
std::unique_ptr<testing::NodeCluster> LedByTheFirst(NodeId* leader) {
  for (;;) {
    auto cluster = std::make_unique<testing::NodeCluster>();
    EXPECT_OK(cluster->Start(/*fail_over=*/false, /*fault_injection=*/true));
    ring::testing::Await("a leader", [&] {
      cluster->Run([&] { *leader = cluster->node(0).membership().leader(); });
      return *leader != cluster::kNoNode;
    });
    if (leader->value() > kMayBeKilled) continue;  // another seed elects another one
    for (std::uint32_t id = 0; id < leader->value(); ++id) cluster->Kill(NodeId(id));
    return cluster;
  }
}

// X5: it may be done or not, and each command is idempotent: the client asks again by itself.
TEST(ClusterAdmin, X5ACommandThatOutlivesItsLeaderIsAskedAgain) {
  NodeId leader;
  const std::unique_ptr<testing::NodeCluster> cluster = LedByTheFirst(&leader);
  std::uint32_t count = 0;
  cluster->Run(
      [&] { count = static_cast<std::uint32_t>(cluster->node(0).control().node_count()); });
  for (std::uint32_t id = leader.value() + 1; id < count; ++id) {
    // One at a time, in the node's next turn.
    ring::testing::Await("the fault", [&] {
      return cluster->admin()
          .InjectFault(absl::StrCat(leader.value()), {FaultKind::kDrop, NodeId(id), kFaultMsMax})
          .ok();
    });
  }
  EXPECT_THAT(cluster->admin().RemoveNode(absl::StrCat(count - 1), /*force=*/true),
              AnyOf(StatusIs(absl::StatusCode::kUnavailable),
                    StatusIs(absl::StatusCode::kDeadlineExceeded)));
}

}  // namespace
}  // namespace ring::node
