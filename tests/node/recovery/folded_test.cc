// What a member says of a log that it has not folded yet: E3, E6.
#include <future>

#include "ring/recovery/fetch_message.h"
#include "ring/recovery/join_message.h"
#include "tests/node/recovery/decode_fixture.h"
#include "tests/support/await.h"

namespace ring::node {
namespace {

class FoldedTest : public testing::DecodeFixture {
 protected:
  // The coordinator of shard 0 asks the redundant node whose folds HoldFolds holds.
  absl::StatusOr<std::string> Ask(ControlType type, const std::string& body) {
    auto done = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    cluster_.Run([&] {
      const cluster::GroupView& group = cluster_.view().groups[kGroup.value()];
      Node* const asking = cluster_.node(group.roles[0]);
      asking->control().Call(
          group.roles[static_cast<std::size_t>(cluster_.view().s)], type, body, 5'000'000'000,
          [done](absl::StatusOr<std::string> answer) { done->set_value(std::move(answer)); });
    });
    return done->get_future().get();
  }
};

TEST_F(FoldedTest, E3AValueWhoseEntryIsNotFoldedIsToComeAndNotMissing) {
  Start(0, testing::SmallBlocks);
  ASSERT_OK(cluster_.WaitProtected());
  const std::string key = KeyOf(0, "k", 0);
  HoldFolds(/*parity=*/0, /*shard=*/0, true);
  ASSERT_NO_FATAL_FAILURE(Put(key, "REP3", 700));
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.group = kGroup;
  cluster_.Run([&] {
    coordinator::ShardCoordinator& shard = *Shard(0)->coordinator();
    const std::uint32_t line =
        *shard.keys().Find(coordinator::KeyHash(key, shard.options().hash_seed), key);
    request.epoch = cluster_.view().groups[kGroup.value()].epoch;
    request.line = line;
    request.version = Version(shard.lines().line(line).version);
    request.memgests = {cluster_.view().FindMemgest("REP3")->id};
    request.index = MemgestAt(0, "REP3").next_index() - 1;
  });
  EXPECT_TRUE(absl::IsUnavailable(
      Ask(ControlType::kFetch, recovery::EncodeFetchRequest(request)).status()));
  HoldFolds(0, 0, false);
  absl::StatusOr<std::string> bytes;
  ring::testing::Await("the value", [&] {
    bytes = Ask(ControlType::kFetch, recovery::EncodeFetchRequest(request));
    return !absl::IsUnavailable(bytes.status());
  });
  ASSERT_OK(bytes.status());
  ASSERT_OK_AND_ASSIGN(const recovery::FetchAnswer answer, recovery::DecodeFetchAnswer(*bytes));
  EXPECT_EQ(answer.piece, values_[key]);
  // With the log folded, what it has not it has not.
  request.version = Version(Epoch(1), ~std::uint32_t{0});
  EXPECT_TRUE(
      absl::IsNotFound(Ask(ControlType::kFetch, recovery::EncodeFetchRequest(request)).status()));
}

// A value that came in PARTs before a snapshot is not counted as absent before its FINAL is folded:
// so a member says how far it is.
TEST_F(FoldedTest, E6AMemberTellsHowFarItsLogsAreFolded) {
  Start(0, testing::SmallBlocks);
  ASSERT_OK(cluster_.WaitProtected());
  HoldFolds(/*parity=*/0, /*shard=*/0, true);
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0, "k", 0), "REP3", 700));
  recovery::ProgressRequest request;
  MemgestId memgest;
  std::uint64_t end = 0;
  cluster_.Run([&] {
    request = {kGroup, ShardId(0), cluster_.view().groups[kGroup.value()].epoch};
    memgest = cluster_.view().FindMemgest("REP3")->id;
    end = MemgestAt(0, "REP3").next_index() - 1;
  });
  const auto applied = [&]() -> std::uint64_t {
    const absl::StatusOr<std::string> bytes =
        Ask(ControlType::kProgress, recovery::EncodeProgressRequest(request));
    EXPECT_OK(bytes.status());
    const absl::StatusOr<std::vector<recovery::ValuesToCome>> answer =
        recovery::DecodeProgressAnswer(*bytes);
    EXPECT_OK(answer.status());
    for (const recovery::ValuesToCome& values : *answer) {
      EXPECT_EQ(values.absent, 0u);
      if (values.memgest == memgest) return values.applied;
    }
    ADD_FAILURE() << "nothing is said of the memgest";
    return end;
  };
  EXPECT_LT(applied(), end);
  HoldFolds(0, 0, false);
  ring::testing::Await("the fold", [&] { return applied() >= end; });
}

}  // namespace
}  // namespace ring::node
