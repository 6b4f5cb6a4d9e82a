// Failures, one at a time: what is retried, what is told, and what never happens twice.
#include <algorithm>
#include <string>
#include <utility>

#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/api/jumping_clock.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::StatusIs;
using ::ring::testing::TwinCluster;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ClientRetry, X1ALostAnswerIsRetriedUnderTheSameNumberAndExecutedOnce) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  for (int i = 1; i <= 5; ++i) {
    cluster.node().faults().drop_after_execute = 1;
    ASSERT_OK(client->Put("k", absl::StrCat(i)));
    MutexLock lock(cluster.store().mutex);
    EXPECT_EQ(cluster.store().executed_count, i);
    EXPECT_EQ(cluster.store().duplicate_count, i);
  }
  EXPECT_EQ(client->Get("k")->value, "5");
}

TEST(ClientRetry, X1ManyInFlightWritesSurviveADisconnectExactlyOnce) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  int ok = 0;
  for (int round = 0; round < 5; ++round) {
    cluster.node().faults().drop_after_execute = 1;
    for (int i = 0; i < 50; ++i) {
      client->PutAsync(absl::StrCat("k", i), absl::StrCat(round, std::string(500, 'v')), {},
                       [&ok](absl::StatusOr<WriteResult> put) { ok += put.ok() ? 1 : 0; });
    }
    ASSERT_OK(client->Wait(testing::kPatience));
  }
  EXPECT_EQ(ok, 250);
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 250);
}

TEST(ClientRetry, X5AWriteWithoutAnAnswerIsUnknownAndAReadIsJustLate) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("k", "v"));
  cluster.node().faults().silent = true;
  const auto put = client->Put("k", "w", {.deadline = absl::Milliseconds(50)});
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("key=\"k\"")));
  EXPECT_TRUE(IsUnknownOutcome(put.status()));
  const auto get = client->Get("k", {.deadline = absl::Milliseconds(50)});
  EXPECT_THAT(get, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(IsUnknownOutcome(get.status()));
  cluster.node().faults().silent = false;
  EXPECT_OK(client->Put("k", "x"));  // and the late answers disturb nothing
  EXPECT_EQ(client->Get("k")->value, "x");
}

// Executed, and the connection ends before the answer: nobody may say that it failed.
TEST(ClientRetry, X5AWriteWhoseConnectionEndsIsUnknown) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("k", "v"));
  cluster.node().faults().drop_after_execute = 1;
  absl::StatusOr<WriteResult> put;
  client->PutAsync("k", "w", {.deadline = absl::Milliseconds(100)},
                   [&put](absl::StatusOr<WriteResult> result) { put = std::move(result); });
  client->Poll();
  testing::Await("the write", [&] { return cluster.node().faults().drop_after_execute == 0; });
  cluster.node().faults().silent = true;  // before the client can come again
  ASSERT_OK(client->Wait(testing::kPatience));
  EXPECT_TRUE(IsUnknownOutcome(put.status())) << put.status();
  cluster.node().faults().silent = false;
  EXPECT_EQ(client->Get("k")->value, "w");
}

TEST(ClientRetry, X5AWriteThatCouldNotBeSentIsNotApplied) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  cluster.Stop(0);
  // The lost connection is noticed before anything is sent.
  testing::Await("the loss of the connection", [&] {
    client->WaitForProgress(absl::Milliseconds(5));
    return client->Connections()[0].transport == "";
  });
  const auto put = client->Put("k", "v", {.deadline = absl::Milliseconds(50)});
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("nothing was applied")));
  EXPECT_FALSE(IsUnknownOutcome(put.status()));
}

TEST(ClientRetry, X5AnOutcomeOfALaterReleaseIsUnknownForAWrite) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  for (const int code : {15, 128, 129, 255}) {  // the client's own codes do not travel
    cluster.node().faults().refuse_with = static_cast<protocol::Outcome>(code);
    cluster.node().faults().refuse_count = 1;
    EXPECT_TRUE(IsUnknownOutcome(client->Put("k", "v").status())) << code;
    cluster.node().faults().refuse_count = 1;
    EXPECT_THAT(client->Get("k"), StatusIs(absl::StatusCode::kUnavailable));
  }
}

TEST(ClientRetry, ResourceExhaustionIsTheCallersToWaitOut) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  cluster.node().faults().refuse_with = protocol::Outcome::kResourceExhausted;
  cluster.node().faults().refuse_count = 1;
  EXPECT_THAT(client->Put("k", "v"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(client->Put("k", "v"));
}

TEST(ClientRetry, AValueWithAWrongCheckSumIsNeverDelivered) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  for (const std::size_t size : {std::size_t{100}, std::size_t{100000}}) {
    const std::string value(size, 'v');
    ASSERT_OK(client->Put("k", value));
    cluster.node().faults().damage_value_count = 2;
    EXPECT_EQ(client->Get("k")->value, value);  // read again until it is whole
    EXPECT_EQ(cluster.node().faults().damage_value_count, 0);
    cluster.node().faults().damage_value_count = 1000;
    EXPECT_THAT(client->Get("k"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("key=\"k\"")));
    std::string buffer(size, '.');
    EXPECT_THAT(client->GetInto("k", absl::MakeSpan(buffer)),
                StatusIs(absl::StatusCode::kDataLoss));
    cluster.node().faults().damage_value_count = 0;
  }
}

TEST(ClientRetry, ANewViewSendsEveryKeyToItsNewOwner) {
  TwinCluster cluster(3);
  const auto client = cluster.Connect();
  for (int i = 0; i < 30; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "v"));
  // Groups rotate: whoever is asked first refuses with WRONG_OWNER.
  cluster.ChangeView([](cluster::View* view) {
    for (cluster::GroupView& group : view->groups) {
      std::rotate(group.roles.begin(), group.roles.begin() + 1, group.roles.end());
      group.epoch = Epoch(group.epoch.value() + 1);
    }
  });
  for (int i = 0; i < 30; ++i) {
    ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get(absl::StrCat("k", i)));
    ASSERT_OK(client->Put(absl::StrCat("k", i), "w"));
  }
  EXPECT_EQ(client->view_epoch(), 2u);
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 60);
}

TEST(ClientRetry, X3ASilentOwnerIsReplacedByTheOneThatALaterViewNames) {
  TwinCluster cluster(2);
  const auto client = cluster.Connect();
  for (int i = 0; i < 20; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "v"));
  cluster.node(0).faults().silent = true;
  cluster.ChangeView([](cluster::View* view) {
    for (cluster::GroupView& group : view->groups) group.roles = {NodeId(1), NodeId(0)};
  });
  for (int i = 0; i < 20; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "w"));
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 40);
}

// No view that the client could be given names the owner; who serves the shard says so itself.
TEST(ClientRetry, X3WhoServesTheShardIsFoundThoughEveryViewNamesAnother) {
  TwinCluster cluster(3);
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("k", "v"));
  const NodeId owner = client->Where("k")->node;
  cluster.ChangeView([&](cluster::View* view) {
    view->epoch -= 1;  // nothing of this is in a view that a client adopts
    for (cluster::GroupView& group : view->groups)
      std::rotate(group.roles.begin(), group.roles.begin() + 1, group.roles.end());
  });
  cluster.Stop(static_cast<int>(owner.value()));
  ASSERT_OK(client->Put("k", "w"));
  EXPECT_NE(client->Where("k")->node, owner);
  EXPECT_EQ(client->view_epoch(), 1u);
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 2);
}

// All nodes of the client's view are gone, or do not know: a seed names the promoted spare.
TEST(ClientRetry, X3APromotedSpareOutsideTheClientsViewIsFoundThroughASeed) {
  TwinCluster cluster(3);
  cluster::View whole;
  {
    MutexLock lock(cluster.store().mutex);
    whole = cluster.store().view;
    // What the client begins with: two nodes.
    cluster.store().view =
        cluster::InitialView(1, 1, {whole.nodes[0], whole.nodes[1]}, whole.memgests);
  }
  const auto client = cluster.Connect();
  for (int i = 0; i < 10; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "v"));
  ASSERT_EQ(client->Connections().size(), 2u);
  cluster.Stop(0);
  cluster.Stop(1);
  cluster.ChangeView([&](cluster::View* view) {
    view->nodes = whole.nodes;
    for (cluster::GroupView& group : view->groups) group.roles = {NodeId(2), cluster::kNoNode};
  });
  for (int i = 0; i < 10; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "w"));
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 20);
}

// The owner named by a refusal is asked at once; the node that refused is not asked again.
TEST(ClientRetry, X3AMisdirectedRequestGoesToTheOwnerThatTheRefusalNames) {
  TwinCluster cluster(2);
  const auto client = cluster.Connect();
  for (int i = 0; i < 20; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "v"));
  cluster.ChangeView([](cluster::View* view) {
    for (cluster::GroupView& group : view->groups) std::swap(group.roles[0], group.roles[1]);
  });
  for (int i = 0; i < 20; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "w"));
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 40);
  EXPECT_EQ(cluster.store().duplicate_count, 0);
}

TEST(ClientRetry, X3ADeadOwnerIsAskedForUntilAViewNamesAnother) {
  TwinCluster cluster(2);
  const auto client = cluster.Connect();
  for (int i = 0; i < 20; ++i) ASSERT_OK(client->Put(absl::StrCat("k", i), "v"));
  cluster.Stop(0);
  int ok = 0;
  for (int i = 0; i < 20; ++i) {
    client->PutAsync(absl::StrCat("k", i), "w", {},
                     [&ok](absl::StatusOr<WriteResult> put) { ok += put.ok() ? 1 : 0; });
  }
  // Long after the connection was lost, and the view asked for in vain, the cluster decides.
  const absl::Status stuck = client->Wait(absl::Milliseconds(150));
  EXPECT_THAT(stuck, StatusIs(absl::StatusCode::kDeadlineExceeded));
  cluster.ChangeView([](cluster::View* view) {
    for (cluster::GroupView& group : view->groups) group.roles = {NodeId(1), NodeId(0)};
  });
  ASSERT_OK(client->Wait(testing::kPatience));
  EXPECT_EQ(ok, 20);
}

TEST(ClientRetry, L10AShardWithoutACoordinatorIsUnavailableAndNamedUntilOneIsThere) {
  TwinCluster cluster(2);
  testing::JumpingClock clock;
  const auto client = cluster.Connect({}, &clock);
  ASSERT_OK(client->Put("k", "v"));
  cluster.ChangeView([](cluster::View* view) {
    for (cluster::GroupView& group : view->groups) group.roles[0] = cluster::kNoNode;
  });
  // Their deadlines come once the client knows that there is nobody to ask.
  const auto wait = [&] {
    testing::Await("the end of an operation", [&] {
      client->WaitForProgress(absl::Milliseconds(5));
      if (client->view_epoch() == 2) clock.Jump(absl::Seconds(20));
      return client->outstanding() == 0;
    });
  };
  absl::Status get, put;
  client->GetAsync("k", {}, [&](absl::StatusOr<GetResult> done) { get = done.status(); });
  wait();
  EXPECT_THAT(get, StatusIs(absl::StatusCode::kUnavailable,
                            AllOf(HasSubstr("group="), HasSubstr("shard=0 has no coordinator"))));
  client->PutAsync("k", "w", {}, [&](absl::StatusOr<WriteResult> done) { put = done.status(); });
  wait();
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has no coordinator")));
  EXPECT_FALSE(IsUnknownOutcome(put));
  // Who waits longer is served when a node joins.
  int ok = 0;
  client->PutAsync("k", "x", {.deadline = absl::Minutes(10)},
                   [&ok](absl::StatusOr<WriteResult> done) { ok += done.ok() ? 1 : 0; });
  EXPECT_THAT(client->Wait(absl::Milliseconds(50)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  cluster.ChangeView([](cluster::View* view) {
    for (std::uint32_t g = 0; g < view->groups.size(); ++g) view->groups[g].roles[0] = NodeId(g);
  });
  ASSERT_OK(client->Wait(testing::kPatience));
  EXPECT_EQ(ok, 1);
}

TEST(ClientRetry, ARestartedNodeIsFoundAgain) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("k", "v"));
  const std::string address = cluster.node().address();
  for (int i = 0; i < 3; ++i) {
    cluster.Stop(0);
    cluster.Restart(0, address);
    ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get("k"));
    EXPECT_EQ(get.value, "v");
  }
}

TEST(ClientRetry, OperationsThatWereGivenUpDoNotCloseTheWindow) {
  TwinCluster cluster(2);
  ClientOptions options;
  options.window = 4;
  const auto client = cluster.Connect(options);
  std::string here, there;
  for (int i = 0; here.empty() || there.empty(); ++i) {
    const std::string key = absl::StrCat("k", i);
    ASSERT_OK(client->Put(key, "v"));
    (client->Where(key)->node == NodeId(0) ? here : there) = key;
  }
  cluster.node(0).faults().silent = true;
  for (int i = 0; i < 4; ++i) {
    client->PutAsync(here, "w", {.deadline = absl::Milliseconds(20)},
                     [](absl::StatusOr<WriteResult> put) { EXPECT_FALSE(put.ok()); });
  }
  ASSERT_OK(client->Wait(testing::kPatience));
  for (int i = 0; i < 50; ++i) ASSERT_OK(client->Get(there));
  cluster.node(0).faults().silent = false;
}

// Nothing but the waiting calls makes a step here: one that finds every place taken by what was
// given up must make some, too.
TEST(ClientRetry, AWaitingCallFindsRoomBehindOperationsThatWereGivenUp) {
  TwinCluster cluster;
  ClientOptions options;
  options.window = 1;
  const auto client = cluster.Connect(options);
  ASSERT_OK(client->Put("k", "v"));
  cluster.node().faults().silent = true;
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(client->Get("k", {.deadline = absl::Milliseconds(10)}).ok());
  EXPECT_EQ(client->outstanding(), 0u);
  cluster.node().faults().silent = false;
  ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get("k"));
  EXPECT_EQ(get.value, "v");
}

TEST(ClientRetry, DestroyingTheClientEndsEveryCallbackOnce) {
  TwinCluster cluster;
  auto client = cluster.Connect();
  cluster.node().faults().silent = true;
  int unknown = 0, late = 0;
  client->PutAsync("k", "v", {}, [&](absl::StatusOr<WriteResult> put) {
    unknown += IsUnknownOutcome(put.status()) ? 1 : 0;
  });
  client->GetAsync("k", {}, [&](absl::StatusOr<GetResult> get) { late += get.ok() ? 0 : 1; });
  client->Poll();
  client.reset();
  EXPECT_EQ(unknown, 1);
  EXPECT_EQ(late, 1);
}

}  // namespace
}  // namespace ring
