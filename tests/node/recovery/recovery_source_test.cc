// What a member ships to who takes a shard over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "ring/base/random.h"
#include "ring/coordinator/key_hash.h"
#include "ring/node/host.h"
#include "ring/node/recovery/recovery_source.h"
#include "ring/recovery/fetch_message.h"
#include "ring/recovery/value_batch.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::StatusIs;

constexpr std::uint64_t kTimeoutNs = 30'000'000'000;

absl::StatusOr<std::string> Ask(testing::EpochCluster& cluster, NodeId source, ControlType type,
                                std::string body) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
  cluster.Run([&] {
    const NodeId asker(source == NodeId(0) ? 1 : 0);
    cluster.node(asker)->control().Call(
        source, type, std::move(body), kTimeoutNs,
        [answer](absl::StatusOr<std::string> got) { answer->set_value(std::move(got)); });
  });
  return answer->get_future().get();
}

// Who takes over asks all sources at once; when one fails it leaves what the others prepared, and
// asks again.
TEST(RecoverySource, F11WhatATakerLeftIsNotKept) {
  testing::EpochCluster cluster;
  ASSERT_OK(cluster.Start(1));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster.Connect());
  for (int i = 0; i < 2000; ++i) {  // a snapshot of more than one piece
    const std::string key = absl::StrCat(i, std::string(1000, 'k'));
    ASSERT_OK(client->Put(key, "v", {.memgest = "REP3"}).status());
  }
  const std::shared_ptr<const cluster::View> view = cluster.PresentView();
  const protocol::MemgestDescriptor& memgest = *view->FindMemgest("REP3");
  const Role role = memgest.MemberRoles(ShardId(0), view->s, view->d)[0];
  recovery::FetchRequest request;
  request.group = GroupId(0);
  request.shard = ShardId(0);
  request.epoch = view->groups[0].epoch;
  request.memgests = {memgest.id};
  for (std::size_t i = 0; i < 2 * RecoverySource::kPreparedMax; ++i) {
    const absl::StatusOr<std::string> got =
        Ask(cluster, view->groups[0].roles[role.value()], ControlType::kFetch,
            recovery::EncodeFetchRequest(request));
    ASSERT_OK(got.status()) << "fetch " << i;
    ASSERT_OK_AND_ASSIGN(const recovery::FetchAnswer shipped, recovery::DecodeFetchAnswer(*got));
    ASSERT_EQ(shipped.piece_count, 0u) << "more are to come";
  }
}

// One that is not there, or is too long to be asked for with others, takes nothing from these.
TEST(RecoverySource, S5ValuesThatAreAskedForTogetherAreAnsweredEachByItself) {
  testing::EpochCluster cluster;
  ASSERT_OK(cluster.Start(1));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster.Connect());
  const std::shared_ptr<const cluster::View> view = cluster.PresentView();
  const protocol::MemgestDescriptor& memgest = *view->FindMemgest("REP3");
  const cluster::Place place = cluster.PlaceOf("small");
  std::string long_key = "long";
  while (cluster.PlaceOf(long_key) != place) long_key += 'g';
  ASSERT_OK(client->Put("small", "bytes", {.memgest = "REP3"}).status());
  ASSERT_OK(
      client->Put(long_key, std::string(recovery::kBatchedSizeMax + 1, 'b'), {.memgest = "REP3"})
          .status());
  const cluster::GroupView& group = view->groups[place.group.value()];
  const Role role = memgest.MemberRoles(place.shard, view->s, view->d)[0];
  std::vector<recovery::FetchRequest> requests(3);
  cluster.Run([&] {
    coordinator::ShardCoordinator& shard = *cluster.node(group.roles[place.shard.value()])
                                                ->FindShard(place.group, place.shard)
                                                ->coordinator();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::string key = i == 2 ? long_key : "small";
      const std::uint32_t line =
          *shard.keys().Find(coordinator::KeyHash(key, shard.options().hash_seed), key);
      requests[i].kind = recovery::FetchKind::kValue;
      requests[i].group = place.group;
      requests[i].shard = place.shard;
      requests[i].epoch = group.epoch;
      requests[i].line = line;
      requests[i].version = Version(shard.lines().line(line).version + (i == 1 ? 1 : 0));
      requests[i].memgests = {memgest.id};
    }
  });
  std::vector<absl::StatusOr<std::string>> answers;
  // The member folds a put after it was answered.
  const auto folded = [&]() -> std::string {
    const auto& store =
        *cluster.node(group.roles[role.value()])->members().Find(place.group, place.shard)->store;
    return store.applied(memgest.id) >= 2 ? "" : "it has not folded them";
  };
  ASSERT_OK(cluster.WaitUntilNothing(folded));
  const absl::StatusOr<std::string> got =
      Ask(cluster, group.roles[role.value()], ControlType::kFetchValues,
          recovery::EncodeValueBatch(requests));
  ASSERT_OK(got.status());
  ASSERT_OK_AND_ASSIGN(answers, recovery::DecodeBatchAnswers(*got, requests.size()));
  ASSERT_OK(answers[0].status());
  ASSERT_OK_AND_ASSIGN(const recovery::FetchAnswer value, recovery::DecodeFetchAnswer(*answers[0]));
  EXPECT_EQ(value.piece, "bytes");
  EXPECT_EQ(value.piece_count, 1u);
  EXPECT_THAT(answers[1], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(answers[2], StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Ask(cluster, group.roles[role.value()], ControlType::kFetchValues, "no batch"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A start is connected to before it knows who it is, and asked for what its former one had.
TEST(RecoverySource, F4ANodeWithoutAViewIsAskedAgain) {
  BootClock clock;
  SeededRandom random(1);
  NodeOptions options;
  options.config = EmbeddedConfig();
  options.clock = &clock;
  options.random = &random;
  options.host = "here";
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Node> node, Node::Open(options));
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.epoch = Epoch(1);
  request.version = Version(1);
  request.memgests = {MemgestId(1)};
  const std::string batch = recovery::EncodeValueBatch(absl::MakeConstSpan(&request, 1));
  for (const auto& [type, body] :
       {std::pair(ControlType::kFetch, recovery::EncodeFetchRequest(request)),
        std::pair(ControlType::kFetchValues, batch)}) {
    absl::StatusOr<std::string> answer = absl::UnknownError("none came");
    node->control().Call(options.id, type, body, kTimeoutNs,
                         [&answer](absl::StatusOr<std::string> got) { answer = std::move(got); });
    // The question, and its answer, in a turn each.
    for (int i = 0; i < 100 && absl::IsUnknown(answer.status()); ++i)
      node->Progress(clock.NowNs(), /*busy=*/false);
    EXPECT_THAT(answer.status(), StatusIs(absl::StatusCode::kUnavailable));
  }
}

}  // namespace
}  // namespace ring::node
