// A node that has not heard of what the cluster agreed upon: what it is asked for is decided by the
// agreement (G11).
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/routing.h"
#include "tests/node/hostile/hostile_client.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using protocol::MemgestState;
using protocol::Outcome;
using ::ring::testing::Await;

constexpr std::uint64_t kForEver = ~std::uint64_t{0};

// A memgest is agreed upon behind the back of one node, which is not the leader.
class UnknownMemgestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start());
    cluster_.Run([&] {
      for (std::uint32_t i = 0; i < 5; ++i) {
        if (cluster_.node(i).membership().leads()) leader_ = i;
      }
      address_ = cluster_.node(lagging()).info().local_address;
    });
  }
  std::uint32_t lagging() const { return leader_ == 4 ? 3 : 4; }
  // Whether nothing of the consensus comes to the node, nor from it.
  void Cut(bool cut) {
    cluster_.Run([&] {
      for (std::uint32_t i = 0; i < 6; ++i)
        cluster_.node(lagging()).control().DropUntil(NodeId(i), cut ? kForEver : 0);
    });
  }
  void Apply(const cluster::CatalogueCommand& command) {
    std::optional<absl::Status> status;
    cluster_.Run([&] {
      cluster_.node(leader_).membership().Propose(
          command, [&](const auto& result) { status = result.status(); });
    });
    Await("the leader's answer", [&] {
      bool done = false;
      cluster_.Run([&] { done = status.has_value(); });
      return done;
    });
    ASSERT_OK(*status);
  }
  // What a node knows of it.
  std::optional<MemgestState> StateAt(std::uint32_t node, MemgestId id) {
    std::optional<MemgestState> state;
    cluster_.Run([&] {
      const auto* const found = cluster_.node(node).view()->FindMemgest(id);
      if (found != nullptr) state = found->state;
    });
    return state;
  }
  void AwaitState(std::uint32_t node, MemgestId id, MemgestState state) {
    Await(absl::StrCat("the memgest's state at node ", node),
          [&] { return StateAt(node, id) == state; });
  }
  void AwaitOthers(MemgestId id, MemgestState state) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      if (i != lagging()) AwaitState(i, id, state);
    }
  }
  MemgestId Create() {
    protocol::MemgestDescriptor memgest;
    memgest.name = "made";
    memgest.r = 2;
    Apply(cluster::CreateCommand({"test", 1}, memgest));
    MemgestId id;
    cluster_.Run([&] { id = cluster_.node(leader_).view()->FindMemgest("made")->id; });
    return id;
  }
  void Activate(MemgestId id) {
    Apply(
        cluster::SetStateCommand({"test", 2}, id, MemgestState::kCreating, MemgestState::kActive));
    AwaitOthers(id, MemgestState::kActive);
  }
  // A key that the lagging node coordinates.
  std::string Key() {
    std::shared_ptr<const cluster::View> view;
    cluster_.Run([&] { view = cluster_.node(lagging()).view(); });
    const cluster::Routing routing(view->s, view->d);
    for (int i = 0;; ++i) {
      const std::string key = absl::StrCat("k", i);
      const cluster::Place at = routing.OfKey(key);
      if (view->Coordinator(at.group, at.shard) == NodeId(lagging())) return key;
    }
  }
  // Cut off for longer than an election it hears of a leader first.
  Outcome AskUntilDecided(HostileClient& client, MemgestId id, std::uint64_t* seq) {
    Outcome outcome = Outcome::kUnavailable;
    Await("a decision", [&] {
      outcome = client.Ask(MakePut(Key(), "value", id, ++*seq));
      return outcome != Outcome::kUnavailable;
    });
    return outcome;
  }

  testing::NodeCluster cluster_;
  std::uint32_t leader_ = 0;
  std::string address_;
};

TEST_F(UnknownMemgestTest, G11ACoordinatorThatLagsRefusesNoIdThatWasAgreedUpon) {
  HostileClient client("late");
  ASSERT_TRUE(client.Connect(address_)) << client.reason();
  std::uint64_t seq = 0;
  Cut(true);
  const MemgestId id = Create();
  AwaitOthers(id, MemgestState::kCreating);
  Activate(id);
  EXPECT_EQ(StateAt(lagging(), id), std::nullopt);
  // Nobody can say: it may be asked again.
  EXPECT_EQ(client.Ask(MakePut(Key(), "value", id, ++seq)), Outcome::kUnavailable);
  EXPECT_EQ(StateAt(lagging(), id), std::nullopt);
  Cut(false);
  EXPECT_EQ(AskUntilDecided(client, id, &seq), Outcome::kOk);
}

TEST_F(UnknownMemgestTest, G11ACoordinatorThatKnowsOfAMemgestAsksWhetherItIsActive) {
  HostileClient client("late");
  ASSERT_TRUE(client.Connect(address_)) << client.reason();
  std::uint64_t seq = 0;
  const MemgestId id = Create();
  AwaitState(lagging(), id, MemgestState::kCreating);
  EXPECT_EQ(client.Ask(MakePut(Key(), "value", id, ++seq)), Outcome::kMemgestNotWritable);
  Cut(true);
  Activate(id);
  EXPECT_EQ(StateAt(lagging(), id), MemgestState::kCreating);
  Cut(false);
  EXPECT_EQ(AskUntilDecided(client, id, &seq), Outcome::kOk);
}

}  // namespace
}  // namespace ring::node
