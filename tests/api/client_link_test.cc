// The same client over every link of the software NIC: what differs is who copies and who wakes.
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/await.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::StatusIs;
using ::ring::testing::TwinCluster;

class ClientLink : public ::testing::TestWithParam<const char*> {};

TEST_P(ClientLink, SmallAndLargeValuesGoBothWays) {
  TwinCluster cluster(2, GetParam());
  const auto client = cluster.Connect();
  SeededRandom random(testing::SeedFor(GetParam()));
  for (int i = 0; i < 200; ++i) {
    std::string value(random.Below(i % 20 == 0 ? 300000 : 9000), '\0');
    for (char& byte : value) byte = static_cast<char>(random.Next64());
    const std::string key = absl::StrCat("key", i % 17);
    ASSERT_OK(client->Put(key, value));
    ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get(key));
    ASSERT_TRUE(get.value == value) << i;
  }
  for (const NodeConnection& connection : client->Connections()) {
    EXPECT_EQ(connection.transport, GetParam());
  }
}

// Else the node would take a client that pauses for one that is stuck.
TEST_P(ClientLink, ALargeValueIsAcknowledgedThoughItsReaderDoesNothingMore) {
  TwinCluster cluster(1, GetParam());
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("key", std::string(300'000, 'v')));
  // All that went before is acknowledged.
  for (int quiet = 0, last = -1; quiet < 50; ++quiet) {
    client->WaitForProgress(absl::Milliseconds(1));
    if (const int now = cluster.node().answer_count(); now != std::exchange(last, now)) quiet = 0;
  }
  const int before = cluster.node().answer_count();
  ASSERT_OK(client->Get("key", {.value_size_hint = 300'000}).status());
  EXPECT_TRUE(testing::HoldsWithin(testing::kPatience, [&] {
    return cluster.node().answer_count() > before;
  })) << "the node still waits for the device";
}

TEST_P(ClientLink, APipelineWrapsTheRing) {
  TwinCluster cluster(1, GetParam());
  cluster.node().faults().reorder = true;
  ClientOptions options;
  options.window = 32;
  const auto client = cluster.Connect(options);
  std::vector<Completion> completions(32);
  int submitted = 0, finished = 0;
  testing::Await("1500 puts", [&] {
    while (submitted < 1500) {
      const auto token = static_cast<std::uint64_t>(submitted);
      const std::string value(static_cast<std::size_t>(submitted * 37 % 8000), 'v');
      const absl::Status status =
          client->SubmitPut(token, absl::StrCat("k", submitted % 100), value);
      if (absl::IsResourceExhausted(status)) break;
      EXPECT_OK(status);
      ++submitted;
    }
    const std::size_t count = client->PollCompletions(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) EXPECT_OK(ToStatus(completions[i]));
    finished += static_cast<int>(count);
    if (count == 0) client->WaitForProgress(absl::Seconds(1));
    return finished == 1500;
  });
  EXPECT_GT(cluster.node().pad_count(), 10);
}

TEST_P(ClientLink, X1ADisconnectIsSurvivedExactlyOnce) {
  TwinCluster cluster(1, GetParam());
  const auto client = cluster.Connect();
  for (int i = 1; i <= 3; ++i) {
    cluster.node().faults().drop_after_execute = 1;
    ASSERT_OK(client->Put("k", absl::StrCat(i)));
  }
  EXPECT_EQ(client->Get("k")->value, "3");
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 3);
}

// Neither side spins for ever: each finds the other asleep and wakes it.
TEST_P(ClientLink, SleepersAreWoken) {
  TwinCluster cluster(1, GetParam());
  ClientOptions options;
  options.spin_max = absl::ZeroDuration();
  const auto client = cluster.Connect(options);
  for (int i = 0; i < 200; ++i) {
    if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_OK(client->Put("k", absl::StrCat(i)));
    ASSERT_EQ(client->Get("k")->value, absl::StrCat(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Links, ClientLink, ::testing::Values("local", "shm", "tcp"),
                         [](const auto& link) { return std::string(link.param); });

class NamedTransport : public ::testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, NamedTransport,
                         ::testing::Values(Transport::kShm, Transport::kRdma),
                         [](const auto& transport) {
                           return transport.param == Transport::kShm ? "Shm" : "Rdma";
                         });

TEST_P(NamedTransport, ThatTheNodeDoesNotOfferIsAnErrorAndNoFallback) {
  TwinCluster cluster(1, "tcp");
  ClientOptions options;
  options.transport = GetParam();
  const auto client = cluster.Connect(options);  // the view itself comes from the seed's address
  EXPECT_THAT(client->Put("k", "v", {.deadline = absl::Milliseconds(100)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(client->Connections()[0].transport, "");
  MutexLock lock(cluster.store().mutex);
  EXPECT_EQ(cluster.store().executed_count, 0);
}

// An rdma seed is leave to use it: who cannot goes on with what comes behind it.
TEST(ClientTransport, AutoGoesOnByTcpWhereThereIsNoRdmaDevice) {
  TwinCluster cluster(1, "tcp");
  const std::string nowhere = "rdma:192.0.2.1:1";  // no machine has it, by RFC 5737
  cluster.ChangeView([&](cluster::View* view) {
    view->nodes[0].rdma_address = nowhere;
    view->nodes[0].host = "another machine";
  });
  ClientOptions options;
  options.seeds = {nowhere, cluster.node().address()};
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options));
  ASSERT_OK(client->Put("k", "v"));
  EXPECT_EQ(client->Connections()[0].transport, "tcp");
}

TEST(ClientTransport, AutoLeavesASlowSeedForANearerLink) {
  TwinCluster near(1, "local");
  // The view names a local address; the seed is the same cluster over tcp.
  const std::unique_ptr<testing::TwinNode> far =
      testing::TwinNode::Start(0, "tcp:127.0.0.1:0", &near.store());
  near.ChangeView([&](cluster::View* view) { view->nodes[0].tcp_address = far->address(); });
  ClientOptions options;
  options.seeds = {far->address()};
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options));
  ASSERT_OK(client->Put("k", "v"));
  EXPECT_EQ(client->Connections()[0].transport, "local");
}

}  // namespace
}  // namespace ring
