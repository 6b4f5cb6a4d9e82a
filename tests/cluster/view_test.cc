#include "ring/cluster/view.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
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
  ExpectRefused([](View& v) { v.nodes[3].host.assign(300, 'h'); }, "host has size=300");
  ExpectRefused([](View& v) { v.groups[0].roles[0] = NodeId(6); }, "unknown node=6");
  ExpectRefused([](View& v) { v.groups[0].epoch = Epoch(0); }, "group=0 epoch=0");
  ExpectRefused([](View& v) { v.groups[4].epoch = Epoch(1u << 24); }, "group=4 epoch=16777216");
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
  view.nodes[1].admin_address = "10.0.0.2:7900";
  view.nodes[1].host = std::string("\0binary", 7);
  view.groups[2].epoch = Epoch(9);
  view.groups[2].roles[1] = NodeId(5);
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
  bytes[4] = 2;
  EXPECT_THAT(DecodeView(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version=2")));
  bytes[0] ^= 1;
  EXPECT_THAT(DecodeView(bytes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("magic")));
}

TEST(DecodeView, RefusesHugeCountsWithoutReservingMemory) {
  const std::string bytes = EncodeView(FullView());
  constexpr std::size_t kNodeCountAt = 4 + 2 + 1 + 1 + 4 + 8 + 8 + 2;
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
