// Nodes that the first view does not name.
#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/wire.h"
#include "ring/cluster/cluster_command.h"
#include "ring/cluster/cluster_state.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/cluster/cluster_state_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

using AddNodeStateTest = ClusterStateFixture;

// It is a spare from the moment on in which it registers, and gets what is vacant.
TEST_F(AddNodeStateTest, AnAddedNodeGetsTheNextIdAndIsASpareOnceItRegistered) {
  ExpectRefused(Register(9, 109), "node add", absl::StatusCode::kNotFound);
  const ClusterResult result = Do(Add(9));
  ASSERT_OK(result.status);
  EXPECT_EQ(result.node, NodeId(6));
  EXPECT_EQ(view().nodes[6].name, "n9");
  EXPECT_EQ(view().nodes[6].tcp_address, "tcp:10.0.0.10:7800");
  EXPECT_EQ(view().nodes[6].status, NodeStatus::kDown);
  EXPECT_EQ(view().spare_count(), 1);
  Fail(1, 101);
  Fail(2, 102);
  EXPECT_EQ(group(0).roles[2], kNoNode);
  ASSERT_OK(Do(Register(9, 109)).status);
  EXPECT_EQ(view().nodes[6].status, NodeStatus::kUp);
  EXPECT_EQ(group(0).roles[2], NodeId(6));
  EXPECT_EQ(group(0).incarnations[2], Incarnation(109));
}

// A log on disk may be older than rdma addresses: what it says is not forgotten.
TEST_F(AddNodeStateTest, CommandsOfVersion1AreReadAsOfNodesWithoutRdma) {
  for (const std::uint8_t kind : {std::uint8_t{1}, std::uint8_t{9}}) {
    ByteWriter out;
    out.Put(std::uint8_t{1});
    out.Put(kind);
    out.Put(std::uint32_t{7});
    out.Put(std::uint64_t{109});
    out.Put(static_cast<std::uint8_t>(NodeStatus::kUp));
    for (const char* text : {"n7", "local:7", "shm:/7", "tcp:h:7", "h:8", "host"})
      out.PutString(text);
    ASSERT_OK_AND_ASSIGN(const ClusterCommand command, DecodeClusterCommand(out.bytes()));
    const NodeInfo& info =
        kind == 1 ? std::get<RegisterNode>(command).info : std::get<AddNode>(command).info;
    EXPECT_EQ(info.id, NodeId(7));
    EXPECT_EQ(info.incarnation, Incarnation(109));
    EXPECT_EQ(info.name, "n7");
    EXPECT_EQ(info.shm_address, "shm:/7");
    EXPECT_EQ(info.tcp_address, "tcp:h:7");
    EXPECT_EQ(info.rdma_address, "");
    EXPECT_EQ(info.admin_address, "h:8");
    EXPECT_EQ(info.host, "host");
  }
  // No other kind differs.
  std::string bytes = EncodeClusterCommand(FailNode{NodeId(2), Incarnation(5), "gone"});
  bytes[0] = 1;
  ASSERT_OK_AND_ASSIGN(const ClusterCommand command, DecodeClusterCommand(bytes));
  EXPECT_EQ(std::get<FailNode>(command).reason, "gone");
  bytes[0] = 3;
  EXPECT_THAT(DecodeClusterCommand(bytes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version=3")));
}

// X6: a request that is sent again is the same request.
TEST_F(AddNodeStateTest, AddingTheSameNodeAgainChangesNothing) {
  ASSERT_OK(Do(Add(9)).status);
  EXPECT_FALSE(Do(Add(9)).changed);
  EXPECT_EQ(Do(Add(9)).node, NodeId(6));
  ASSERT_OK(Do(Register(9, 109)).status);
  EXPECT_FALSE(Do(Add(9)).changed);
  EXPECT_EQ(view().nodes[6].incarnation, Incarnation(109));
}

TEST_F(AddNodeStateTest, ANodeWhoseNameOrAddressIsTakenIsNotAdded) {
  AddNode taken = Add(9);
  taken.info.tcp_address = view().nodes[0].tcp_address;
  ExpectRefused(taken, "is that of node 0 (n0)", absl::StatusCode::kAlreadyExists);
  taken = Add(2);
  taken.info.tcp_address = "tcp:10.9.9.9:1";
  ExpectRefused(taken, "name=n2 is that of node 2", absl::StatusCode::kAlreadyExists);
  taken = Add(9);
  taken.info.name.clear();
  ExpectRefused(taken, "no name", absl::StatusCode::kInvalidArgument);
  for (int i = 6; i < static_cast<int>(kNodeCountMax); ++i) {
    AddNode one = Add(i);
    one.info.tcp_address = absl::StrCat("tcp:10.1.0.1:", i);
    ASSERT_OK(Do(one).status);
  }
  taken = Add(static_cast<int>(kNodeCountMax));
  taken.info.tcp_address = "tcp:10.1.0.1:1";
  ExpectRefused(taken, "node_count=1024", absl::StatusCode::kResourceExhausted);
}

// Its addresses are free then, and so is its name; the start that it had is over.
TEST_F(AddNodeStateTest, AnAddedNodeIsRemovedAndAddedAgainWithItsNumber) {
  ASSERT_OK(Do(Add(9)).status);
  ASSERT_OK(Do(Register(9, 109)).status);
  ASSERT_OK(Do(RemoveNode{NodeId(6)}).status);
  AddNode other = Add(8);
  other.info.tcp_address = Add(9).info.tcp_address;
  EXPECT_EQ(Do(other).node, NodeId(7));
  AddNode again = Add(9);
  again.info.tcp_address = "tcp:10.0.0.99:7800";
  EXPECT_EQ(Do(again).node, NodeId(6));
  EXPECT_EQ(view().nodes[6].tcp_address, "tcp:10.0.0.99:7800");
  EXPECT_EQ(view().nodes[6].status, NodeStatus::kDown);
  ExpectRefused(Register(9, 109), "is over", absl::StatusCode::kAborted);
  RegisterNode start = Register(9, 209);
  start.info.tcp_address = again.info.tcp_address;
  ASSERT_OK(Do(start).status);
  EXPECT_EQ(view().nodes[6].status, NodeStatus::kUp);
}

}  // namespace
}  // namespace ring::cluster
