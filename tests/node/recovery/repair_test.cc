// Lost blocks come back along every repair graph, in one process (rules S2, S7, S12).
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "ring/recovery/partial_message.h"
#include "tests/node/recovery/decode_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using protocol::RepairScheme;
using ring::testing::StatusIs;

class RepairTest : public testing::DecodeFixture,
                   public ::testing::WithParamInterface<RepairScheme> {
 protected:
  void StartWith(std::size_t spares, const std::function<void(NodeConfig*)>& change) {
    Start(spares, [&](NodeConfig* config) {
      change(config);
      for (protocol::MemgestDescriptor& memgest : config->memgests) {
        if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon) memgest.repair = GetParam();
      }
    });
  }
};

TEST_P(RepairTest, AllBlocksComeBackInTheBackground) {
  StartWith(1, testing::SmallBlocks);
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) Load(memgest, 40);
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) WaitPresent(1, memgest);
  ExpectEverything();
}

TEST_P(RepairTest, S2BlocksComeBackUnderPutsIntoTheirRows) {
  StartWith(1, testing::SmallBlocksSlowly);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  EXPECT_TRUE(AnyLost(1, "SRS32"));
  for (const std::uint16_t other : {std::uint16_t{0}, std::uint16_t{2}})
    ASSERT_NO_FATAL_FAILURE(PutAgain(other, "SRS32", 40));
  ExpectEverything();
}

TEST_P(RepairTest, S7TwoDataNodesAtOnce) {
  StartWith(2, testing::SmallBlocks);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(Lose({1, 2}));
  ExpectEverything();
  WaitPresent(1, "SRS32");
  WaitPresent(2, "SRS32");
}

TEST_P(RepairTest, S7ASecondLossInTheMiddleOfTheRepair) {
  StartWith(2, testing::SmallBlocksSlowly);
  Load("SRS32", 40);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  EXPECT_TRUE(AnyLost(1, "SRS32"));
  ASSERT_NO_FATAL_FAILURE(Lose({2}));
  ExpectEverything();
}

INSTANTIATE_TEST_SUITE_P(Schemes, RepairTest,
                         ::testing::Values(RepairScheme::kPpr, RepairScheme::kEcPipe,
                                           RepairScheme::kTriEc),
                         [](const auto& scheme) {
                           return std::string(protocol::RepairName(scheme.param));
                         });

// What is not frozen may be written while it is read.
TEST_F(RepairTest, S2NoSumIsMadeOfABlockThatIsNotFrozenForItsReader) {
  Start(0, testing::SmallBlocks);
  Load("SRS32", 10);
  recovery::FreezeRequest freeze;
  recovery::PartialRequest partial;
  NodeId reader, owner;
  cluster_.Run([&] {
    const cluster::View& view = cluster_.view();
    reader = view.groups[kGroup.value()].roles[static_cast<std::size_t>(view.s)];
    owner = view.Coordinator(kGroup, ShardId(1));
    freeze.log = {kGroup, ShardId(1), view.FindMemgest("SRS32")->id};
    freeze.epoch = view.groups[kGroup.value()].epoch;
    freeze.token = 77;
    freeze.held = true;
    partial.group = kGroup;
    partial.memgest = freeze.log.memgest;
    partial.epoch = freeze.epoch;
    partial.reader = reader;
    partial.token = freeze.token;
    partial.length = 4096;
    partial.steps = {{ShardId(1), 0, 1, 0}};
  });
  const auto ask = [&](ControlType type, const std::string& body) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    cluster_.Run([&] {
      cluster_.node(reader)->control().Call(
          owner, type, body, 20'000'000'000,
          [answer](absl::StatusOr<std::string> bytes) { answer->set_value(std::move(bytes)); });
    });
    return answer->get_future().get();
  };
  const std::string sum = Encode(partial);
  EXPECT_THAT(ask(ControlType::kPartial, sum), StatusIs(absl::StatusCode::kAborted));
  ASSERT_OK(ask(ControlType::kFreeze, Encode(freeze)).status());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ask(ControlType::kPartial, sum));
  EXPECT_EQ(bytes.size(), 4096u);
  recovery::PartialRequest another = partial;
  another.token = 78;
  EXPECT_THAT(ask(ControlType::kPartial, Encode(another)), StatusIs(absl::StatusCode::kAborted));
  std::string thaw(sizeof(freeze.token), '\0');
  std::memcpy(thaw.data(), &freeze.token, sizeof(freeze.token));
  ASSERT_OK(ask(ControlType::kThaw, thaw).status());
  EXPECT_THAT(ask(ControlType::kPartial, sum), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace ring::node
