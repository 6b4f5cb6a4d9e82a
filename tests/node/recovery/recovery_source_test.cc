// What a member ships to who takes a shard over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "ring/node/recovery/recovery_source.h"
#include "ring/recovery/fetch_message.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kTimeoutNs = 30'000'000'000;

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
    auto answer = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    cluster.Run([&] {
      cluster.node(view->groups[0].roles[0])
          ->control()
          .Call(view->groups[0].roles[role.value()], ControlType::kFetch,
                recovery::EncodeFetchRequest(request), kTimeoutNs,
                [answer](absl::StatusOr<std::string> got) { answer->set_value(std::move(got)); });
    });
    const absl::StatusOr<std::string> got = answer->get_future().get();
    ASSERT_OK(got.status()) << "fetch " << i;
    ASSERT_OK_AND_ASSIGN(const recovery::FetchAnswer shipped, recovery::DecodeFetchAnswer(*got));
    ASSERT_GT(shipped.piece_count, 1u);
  }
}

}  // namespace
}  // namespace ring::node
