#include "ring/cluster/view.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/limits.h"
#include "ring/base/random.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The view with one thing changed is refused, and the message names the thing.
void ExpectRefused(const std::function<void(View&)>& change, const std::string& message) {
  View view = TestView();
  change(view);
  EXPECT_THAT(view.Validate(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
}

TEST(InitialView, L10RotatesTheRolesOfEachGroup) {
  const View view = TestView();
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.epoch, 1u);
  EXPECT_EQ(view.spare_count(), 1);
  ASSERT_EQ(view.groups.size(), 5u);
  for (std::uint32_t g = 0; g < 5; ++g) {
    EXPECT_EQ(view.groups[g].epoch, Epoch(1));
    for (std::uint32_t x = 0; x < 5; ++x) {
      EXPECT_EQ(view.groups[g].roles[x], NodeId((g + x) % 5)) << "g=" << g << " x=" << x;
    }
  }
  EXPECT_EQ(view.Coordinator(GroupId(3), ShardId(2)), NodeId(0));
}

TEST(InitialView, NumbersMemgestsFromOneAndTakesTheFirstAsDefault) {
  const View view = TestView();
  ASSERT_EQ(view.memgests.size(), 2u);
  EXPECT_EQ(view.memgests[0].id, MemgestId(1));
  EXPECT_EQ(view.memgests[1].id, MemgestId(2));
  EXPECT_EQ(view.default_memgest, MemgestId(1));
  EXPECT_EQ(view.FindMemgest(MemgestId(0)), nullptr);
  EXPECT_EQ(view.FindMemgest(MemgestId(3)), nullptr);
  EXPECT_EQ(view.FindMemgest(MemgestId(2))->name, "SRS32");
  EXPECT_EQ(view.FindMemgest("SRS32")->id, MemgestId(2));
  EXPECT_EQ(view.FindMemgest("srs32"), nullptr);
}

TEST(View, V2KeepsDeletedMemgestsButNotTheirNames) {
  View view = TestView();
  view.memgests[1].state = protocol::MemgestState::kDeleted;
  view.memgests.push_back(Srs("SRS32", 3, 2));
  view.memgests.back().id = MemgestId(7);
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.FindMemgest("SRS32")->id, MemgestId(7));
  EXPECT_EQ(view.FindMemgest(MemgestId(2))->state, protocol::MemgestState::kDeleted);
}

TEST(View, L10RefusesTwoRolesOfAGroupOnOneNode) {
  ExpectRefused([](View& v) { v.groups[2].roles[4] = v.groups[2].roles[0]; },
                "group=2 has two roles on node=2");
}

TEST(View, RefusesAnImpossibleShape) {
  ExpectRefused([](View& v) { v.s = 0; }, "s=0");
  ExpectRefused([](View& v) { v.s = 17; }, "s=17");
  ExpectRefused([](View& v) { v.d = 5; }, "d=5");
  ExpectRefused([](View& v) { v.d = -1; }, "d=-1");
  ExpectRefused([](View& v) { v.value_size_max = 0; }, "value_size_max=0");
  ExpectRefused([](View& v) { v.value_size_max = kValueSizeMax + 1; }, "value_size_max=16777217");
  ExpectRefused([](View& v) { v.nodes.resize(4); }, "node_count=4");
  ExpectRefused([](View& v) { v.groups.pop_back(); }, "group_count=4");
  ExpectRefused([](View& v) { v.groups[1].roles.pop_back(); }, "group=1 role_count=4");
}

TEST(View, RefusesImpossibleNodesAndRoles) {
  ExpectRefused([](View& v) { v.nodes[3].id = NodeId(9); }, "node=9 stands at index=3");
  ExpectRefused([](View& v) { v.nodes[3].name = "n1"; }, "name=n1");
  ExpectRefused([](View& v) { v.nodes[3].name.clear(); }, "node=3 has no name");
  ExpectRefused([](View& v) { v.nodes[3].tcp_address = v.nodes[0].tcp_address; },
                "address=tcp:10.0.0.1:7800");
  ExpectRefused([](View& v) { v.nodes[3].rdma_address = v.nodes[0].rdma_address = "rdma:h:1"; },
                "address=rdma:h:1");
  ExpectRefused([](View& v) { v.nodes[3].rdma_address.assign(300, 'h'); },
                "rdma_address has size=300");
  ExpectRefused([](View& v) { v.nodes[3].host.assign(300, 'h'); }, "host has size=300");
  ExpectRefused([](View& v) { v.groups[0].roles[0] = NodeId(6); }, "unknown node=6");
  ExpectRefused([](View& v) { v.groups[0].epoch = Epoch(0); }, "group=0 epoch=0");
  ExpectRefused([](View& v) { v.groups[4].epoch = Epoch(1u << 24); }, "group=4 epoch=16777216");
}

TEST(View, KnowsVacantRolesAndWhoHoldsNone) {
  View view = TestView();
  view.groups[0].roles[0] = kNoNode;
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.Coordinator(GroupId(0), ShardId(0)), kNoNode);
  EXPECT_TRUE(view.HoldsRole(NodeId(0)));
  EXPECT_FALSE(view.HoldsRole(NodeId(5)));
  view.nodes[5].status = NodeStatus::kDown;
  EXPECT_EQ(view.spare_count(), 0);
  EXPECT_EQ(view.FindNode("n3")->id, NodeId(3));
  EXPECT_EQ(view.FindNode("nobody"), nullptr);
}

TEST(View, FindsANodeAsOperatorsWriteIt) {
  View view = TestView();
  EXPECT_EQ(view.FindNodeByText("n3")->id, NodeId(3));
  EXPECT_EQ(view.FindNodeByText("3")->id, NodeId(3));
  EXPECT_EQ(view.FindNodeByText("03")->id, NodeId(3));
  EXPECT_EQ(view.FindNodeByText("6"), nullptr) << "there are 0 to 5";
  EXPECT_EQ(view.FindNodeByText("-1"), nullptr);
  EXPECT_EQ(view.FindNodeByText("3x"), nullptr);
  EXPECT_EQ(view.FindNodeByText(""), nullptr);
  view.nodes[5].name = "3";
  EXPECT_EQ(view.FindNodeByText("3")->id, NodeId(5)) << "names come first";
  EXPECT_EQ(view.FindNodeByText("03")->id, NodeId(3));
}

// Who asks all nodes, for their counts or to scrub, asks these.
TEST(View, NobodyWaitsForANodeWhoseWorkOthersDo) {
  View view = TestView();
  view.nodes[1].incarnation = Incarnation(7);
  view.nodes[1].status = NodeStatus::kDown;
  EXPECT_TRUE(view.IsAwaited(NodeId(1))) << "its roles are nobody else's";
  view.fail_over = true;
  EXPECT_FALSE(view.IsAwaited(NodeId(1)));
  EXPECT_TRUE(view.IsAwaited(NodeId(0)));
  view.nodes[0].status = NodeStatus::kRemoved;
  EXPECT_FALSE(view.IsAwaited(NodeId(0)));
  EXPECT_FALSE(view.IsAwaited(NodeId(1000)));
}

TEST(View, L8ARoleIsTheStartsThatHoldsIt) {
  View view = TestView();
  view.fail_over = true;
  const GroupId group(1);
  const NodeId node(3);  // role 2 of group 1
  EXPECT_EQ(view.RoleOf(group, node, Incarnation(7)), Role(2)) << "not heard of yet";
  view.groups[1].incarnations[2] = Incarnation(7);
  EXPECT_EQ(view.RoleOf(group, node, Incarnation(7)), Role(2));
  EXPECT_EQ(view.RoleOf(group, node, Incarnation(8)), std::nullopt);
  EXPECT_EQ(view.RoleOf(group, NodeId(5), Incarnation(7)), std::nullopt) << "a spare";
  view.fail_over = false;
  EXPECT_EQ(view.RoleOf(group, node, Incarnation(8)), Role(2)) << "roles stay";
}

TEST(View, RefusesImpossibleHoldersAndPolicies) {
  ExpectRefused([](View& v) { v.groups[0].incarnations.pop_back(); }, "incarnation_count=4");
  ExpectRefused(
      [](View& v) {
        v.groups[1].roles[2] = kNoNode;
        v.groups[1].incarnations[2] = Incarnation(3);
      },
      "group=1 role=2 is vacant");
  ExpectRefused([](View& v) { v.groups[0].demoted = 1u << 5; }, "demoted=32");
  ExpectRefused([](View& v) { v.groups[0].shards.pop_back(); }, "shard_count=2");
  ExpectRefused([](View& v) { v.nodes[0].status = static_cast<NodeStatus>(9); }, "status=9");
  ExpectRefused([](View& v) { v.voter_count = 0; }, "voter_count=0");
  ExpectRefused([](View& v) { v.overrun = static_cast<OverrunPolicy>(0); }, "overrun=0");
}

// A valid view whose group 0, shard 1 is normal.
View NormalView() {
  View view = TestView();
  NormalRecord& normal = view.groups[0].shards[1].normal;
  normal.epoch = Epoch(1);
  for (std::size_t x = 0; x < 5; ++x) {
    normal.holders.push_back({view.groups[0].roles[x], Incarnation(x + 1)});
  }
  normal.memgests = {{MemgestId(1), 0b11010, 0b10010, false, {}},
                     {MemgestId(2), 0b11010, 0b11010, false, {{Role(4), 3}}}};
  return view;
}

void ExpectNormalRefused(const std::function<void(ShardView&)>& change, const std::string& what) {
  View view = NormalView();
  change(view.groups[0].shards[1]);
  EXPECT_THAT(view.Validate(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr(what), HasSubstr("group=0 shard=1"))));
}

TEST(View, RefusesAnImpossibleNormalRecord) {
  const View view = NormalView();
  ASSERT_OK(view.Validate());
  EXPECT_TRUE(view.IsNormal(GroupId(0), ShardId(1)));
  EXPECT_FALSE(view.IsNormal(GroupId(0), ShardId(0)));
  ExpectNormalRefused([](ShardView& v) { v.normal.epoch = Epoch(2); }, "ahead of epoch=1");
  ExpectNormalRefused([](ShardView& v) { v.normal.epoch = Epoch(0); }, "Normal of no epoch");
  ExpectNormalRefused([](ShardView& v) { v.normal.holders.pop_back(); }, "holder_count=4");
  ExpectNormalRefused([](ShardView& v) { v.normal.holders[0].node = NodeId(6); }, "node=6");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[0].id = MemgestId(2); }, "ascend");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[1].id = MemgestId(3); }, "unknown");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[0].active = 1u << 5; }, "active=32");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[0].complete = 1; }, "complete=1");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[1].active_from[0].extent = 0; },
                      "active_from of role=4");
  ExpectNormalRefused([](ShardView& v) { v.normal.memgests[1].active_from[0].role = Role(2); },
                      "active_from of role=2");
  ExpectNormalRefused([](ShardView& v) { v.overrun_epoch = Epoch(1); }, "overrun epoch=1");
  ExpectNormalRefused(
      [](ShardView& v) {
        v.overrun_epoch = Epoch(1);
        v.overrun = {MemgestId(2), MemgestId(1)};
      },
      "overrun names memgest=1");
}

TEST(View, RefusesAnImpossibleCatalogue) {
  ExpectRefused([](View& v) { v.memgests[1].id = MemgestId(1); }, "memgest=1 follows 1");
  ExpectRefused([](View& v) { v.memgests[0].id = MemgestId(0); }, "memgest=0");
  ExpectRefused([](View& v) { v.memgests[1].name = "REP3"; }, "name=REP3");
  ExpectRefused([](View& v) { v.memgests[1].k = 4; }, "k=4");
  ExpectRefused([](View& v) { v.default_memgest = MemgestId(3); }, "default memgest=3");
  ExpectRefused([](View& v) { v.memgests[0].state = protocol::MemgestState::kDraining; },
                "default memgest=1");
  ExpectRefused([](View& v) { v.memgests.clear(); }, "default memgest=1");
}

TEST(ClusterHash, TellsNamesAndShapesApart) {
  EXPECT_EQ(ClusterHash("a", 3, 2), ClusterHash("a", 3, 2));
  EXPECT_NE(ClusterHash("a", 3, 2), ClusterHash("b", 3, 2));
  EXPECT_NE(ClusterHash("a", 3, 2), ClusterHash("a", 2, 3));
}

View FullView() {
  View view = TestView();
  view.epoch = 77;
  view.cluster = ClusterHash("full", 3, 2);
  view.default_memgest = MemgestId(2);
  view.value_size_max = 123456;
  view.nodes[1].incarnation = Incarnation(0x1122334455667788);
  view.nodes[1].local_address = "local:n1";
  view.nodes[1].shm_address = "shm:/run/ring/n1";
  view.nodes[1].rdma_address = "rdma:10.1.0.2:7801";
  view.nodes[1].admin_address = "10.0.0.2:7900";
  view.nodes[1].host = std::string("\0binary", 7);
  view.voter_count = 3;
  view.overrun = OverrunPolicy::kContinue;
  view.fail_over = true;
  view.weak_past.was_alone = true;
  view.nodes[3].status = NodeStatus::kDown;
  GroupView& group = view.groups[2];
  group.epoch = Epoch(9);
  group.roles[1] = NodeId(5);
  group.incarnations[1] = Incarnation(77);
  group.roles[3] = kNoNode;
  group.demoted = 0b10000;
  NormalRecord& normal = group.shards[1].normal;
  normal.epoch = Epoch(8);
  normal.holders = {{NodeId(2), Incarnation(1)},
                    {NodeId(3), Incarnation(2)},
                    {NodeId(4), Incarnation(3)},
                    {kNoNode, Incarnation()},
                    {NodeId(1), Incarnation(4)}};
  normal.memgests = {{MemgestId(1), 0b00110, 0b00010, false, {}},
                     {MemgestId(2), 0b11010, 0b00010, true, {{Role(3), 5}, {Role(4), 6}}, true}};
  group.shards[2].overrun_epoch = Epoch(9);
  group.shards[2].overrun = {MemgestId(1), MemgestId(2)};
  return view;
}

TEST(DecodeView, GivesBackWhatWasEncoded) {
  const View view = FullView();
  ASSERT_OK_AND_ASSIGN(const View decoded, DecodeView(EncodeView(view)));
  EXPECT_EQ(decoded, view);
}

TEST(DecodeView, RefusesEveryTruncationAndAnyTrailingByte) {
  const std::string bytes = EncodeView(FullView());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeView(absl::string_view(bytes).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "size=" << size;
  }
  EXPECT_THAT(DecodeView(bytes + '\0'),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("trailing_bytes=1")));
}

TEST(DecodeView, RefusesOtherMagicAndVersion) {
  std::string bytes = EncodeView(FullView());
  bytes[4] = 1;
  EXPECT_THAT(DecodeView(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version=1")));
  bytes[0] ^= 1;
  EXPECT_THAT(DecodeView(bytes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("magic")));
}

TEST(DecodeView, RefusesHugeCountsWithoutReservingMemory) {
  const std::string bytes = EncodeView(FullView());
  constexpr std::size_t kNodeCountAt = 4 + 2 + 1 + 1 + 4 + 8 + 8 + 8 + 3 + 2;
  for (const int high : {0x7f, 0xff, 0x80}) {
    std::string huge = bytes;
    huge[kNodeCountAt + 3] = static_cast<char>(high);
    EXPECT_THAT(DecodeView(huge),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node_count")));
  }
}

// Whatever arrives: a status, or a view that is valid and encodes to the same bytes.
TEST(DecodeView, OfMutatedBytesIsAValidViewOrAnError) {
  SeededRandom random(testing::SeedFor("view"));
  const std::string bytes = EncodeView(FullView());
  int decoded_count = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string mutated = bytes;
    for (std::uint64_t flips = 1 + random.Next64() % 3; flips > 0; --flips) {
      mutated[random.Next64() % mutated.size()] = static_cast<char>(random.Next64());
    }
    const absl::StatusOr<View> view = DecodeView(mutated);
    if (!view.ok()) continue;
    ++decoded_count;
    ASSERT_OK(view->Validate());
    ASSERT_EQ(EncodeView(*view), mutated);
  }
  EXPECT_GT(decoded_count, 0);
}

}  // namespace
}  // namespace ring::cluster
