// What a node that its file does not name starts from.
#include "ring/node/config/added_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ring/cluster/cluster_state.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kFile[] = R"(
[cluster]
name = "c"
s = 1
d = 1
[[nodes]]
name = "a"
data = "10.0.0.1:1"
[[nodes]]
name = "b"
data = "10.0.0.2:1"
)";

class AddedConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(config_, ParseNodeConfig(kFile, "f.toml", "x", SelfIs::kAdded));
    state_.emplace(config_.InitialView());
  }
  void Add(const std::string& name, const std::string& tcp) {
    cluster::AddNode command;
    command.info.name = name;
    command.info.tcp_address = tcp;
    ASSERT_OK(state_->Apply(command).status);
  }
  absl::Status Join(const std::string& name) {
    return JoinConfig(*state_->view(), name, "machine", &config_);
  }

  NodeConfig config_;
  std::optional<cluster::ClusterState> state_;
};

TEST_F(AddedConfigTest, TheFilesNodesStayTheFirstAndTheOthersFollow) {
  Add("w", "tcp:10.0.0.3:1");
  EXPECT_THAT(Join("x"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ringctl node add x")));
  Add("x", "tcp:10.0.0.4:1");
  Add("y", "tcp:10.0.0.5:1");
  ASSERT_OK(Join("x"));
  EXPECT_EQ(config_.self, NodeId(3));
  EXPECT_EQ(config_.added_count, 3u);
  ASSERT_EQ(config_.nodes.size(), 5u);
  EXPECT_EQ(config_.nodes[2].data, "10.0.0.3:1");
  EXPECT_EQ(config_.self_entry().data, "10.0.0.4:1");
  EXPECT_EQ(config_.self_entry().host, "machine");
  EXPECT_OK(config_.InitialView().Validate());
  // The number of voters is that of the file.
  EXPECT_EQ(config_.voter_count(), 1);
  // A further look, with one more node, is as good as the first.
  Add("z", "tcp:10.0.0.6:1");
  ASSERT_OK(Join("x"));
  EXPECT_EQ(config_.nodes.size(), 6u);
  EXPECT_EQ(config_.added_count, 4u);
}

TEST_F(AddedConfigTest, AnAddedNodeHasTheAddressesThatItWasAddedWith) {
  cluster::AddNode command;
  command.info.name = "x";
  command.info.tcp_address = "tcp:10.0.0.4:1";
  command.info.rdma_address = "rdma:10.1.0.4:1";
  ASSERT_OK(state_->Apply(command).status);
  ASSERT_OK(Join("x"));
  EXPECT_EQ(config_.self_entry().rdma, "10.1.0.4:1");
  EXPECT_EQ(config_.InitialView().nodes[2].rdma_address, "rdma:10.1.0.4:1");
  EXPECT_OK(CheckAddedNode(command.info, Transport::kRdma));
  command.info.tcp_address.clear();
  EXPECT_OK(CheckAddedNode(command.info, Transport::kRdma));
  EXPECT_THAT(CheckAddedNode(command.info, Transport::kAuto),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no data address")));
  command.info.rdma_address.clear();
  EXPECT_THAT(CheckAddedNode(command.info, Transport::kRdma),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("by rdma only")));
}

TEST_F(AddedConfigTest, ARemovedNodeAndAnotherClusterAreRefused) {
  Add("x", "tcp:10.0.0.4:1");
  ASSERT_OK(state_->Apply(cluster::RemoveNode{NodeId(2)}).status);
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(Join("x"), StatusIs(kRefused, HasSubstr("was removed")));
  config_.nodes[1].name = "other";
  EXPECT_THAT(Join("x"), StatusIs(kRefused, HasSubstr("its node 1 is other, not b")));
  config_.cluster_name = "d";
  EXPECT_THAT(Join("x"), StatusIs(kRefused, HasSubstr("another cluster")));
}

TEST_F(AddedConfigTest, ANameOfTheFileIsNotAnAddedOne) {
  EXPECT_THAT(ParseNodeConfig(kFile, "f.toml", "b", SelfIs::kAdded),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without --added")));
  EXPECT_THAT(ParseNodeConfig(kFile, "f.toml", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("with --added")));
}

}  // namespace
}  // namespace ring::node
