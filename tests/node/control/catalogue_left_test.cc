// What nobody's change left behind: a command of a leader that was deposed comes late.
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "ring/cluster/catalogue.h"
#include "tests/node/reactor_fixture.h"

namespace ring::node {
namespace {

using protocol::MemgestState;

class CatalogueLeftTest : public ReactorFixture {
 protected:
  Node* Leader() {
    for (const std::unique_ptr<Node>& node : reactor_->nodes()) {
      if (node->membership().leads()) return node.get();
    }
    return nullptr;
  }
  MemgestState State(MemgestId memgest) {
    return reactor_->nodes()[0]->view()->FindMemgest(memgest)->state;
  }
  // Whether it gets there within 20 s.
  bool Becomes(MemgestId memgest, MemgestState state) {
    for (int i = 0; i < 20'000 && State(memgest) != state; ++i) Turn(1'000'000);
    return State(memgest) == state;
  }
};

// The leader has no change under way that the command is of: it looks for itself.
TEST_F(CatalogueLeftTest, G10ADrainThatNobodyGoesOnWithIsUndone) {
  ASSERT_NE(Leader(), nullptr);
  const MemgestId memgest = reactor_->nodes()[0]->view()->FindMemgest("SRS21")->id;
  Leader()->membership().Propose(
      cluster::SetStateCommand({}, memgest, MemgestState::kActive, MemgestState::kDraining),
      [](const absl::StatusOr<cluster::ClusterResult>& result) { EXPECT_OK(result.status()); });
  ASSERT_TRUE(Becomes(memgest, MemgestState::kDraining));
  EXPECT_TRUE(Becomes(memgest, MemgestState::kActive));
}

}  // namespace
}  // namespace ring::node
