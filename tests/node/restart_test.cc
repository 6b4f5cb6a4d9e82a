// A cluster whose processes all stopped: what was decided is on disk, the values are gone (E8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "consensus/file/file_storage.h"
#include "ring/base/status.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/protection.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : folder_(absl::StrCat(::testing::TempDir(), "/ring-restart-", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~RestartTest() override {
    client_.reset();
    cluster_.reset();
    std::filesystem::remove_all(folder_);
  }

  // All nodes are started, with the folder of the last time.
  void Start(cluster::OverrunPolicy overrun) {
    client_.reset();
    cluster_ = std::make_unique<testing::NodeCluster>();
    ASSERT_OK(cluster_->Begin(/*fail_over=*/true, /*fault_injection=*/false, FenceKind::kLease,
                              [&](NodeConfig* config) {
                                config->cluster_name = absl::StrCat("restart-", getpid());
                                config->control.data_dir = folder_;
                                config->control.overrun = overrun;
                              }));
  }
  void Stop() {
    client_.reset();
    cluster_.reset();
  }
  // Until health says so of the shards that do not serve.
  void WaitFor(absl::string_view what, const std::function<bool(const cluster::Health&)>& done) {
    ring::testing::AwaitOk(what, [&]() -> absl::Status {
      RING_ASSIGN_OR_RETURN(const cluster::Health health, cluster_->admin().GetHealth());
      return done(health) ? absl::OkStatus() : absl::UnavailableError(tools::Unprotected(health));
    });
  }
  void WaitServing() {
    WaitFor("shards that serve, and a leader", [](const cluster::Health& health) {
      return health.shards.empty() && health.leader != cluster::kNoNode;
    });
    if (client_ == nullptr) {
      ASSERT_OK_AND_ASSIGN(client_, cluster_->Connect());
    }
  }

  std::string folder_;
  std::unique_ptr<testing::NodeCluster> cluster_;
  std::unique_ptr<Client> client_;
};

TEST_F(RestartTest, E8AClusterThatRestartsStopsUntilTheLossIsAccepted) {
  Start(cluster::OverrunPolicy::kStop);
  WaitServing();
  protocol::MemgestDescriptor descriptor;
  descriptor.name = "MINE";
  descriptor.r = 3;
  ASSERT_OK(cluster_->admin().CreateMemgest({"test", 1}, descriptor).status());
  ASSERT_OK(client_->Put("key", "value", {.memgest = "MINE"}).status());
  Stop();

  Start(cluster::OverrunPolicy::kStop);
  WaitFor("shards that stopped", [](const cluster::Health& health) {
    std::size_t stopped = 0;
    for (const cluster::ShardHealth& shard : health.shards) stopped += shard.stopped ? 1 : 0;
    return stopped == 15;
  });
  ASSERT_OK_AND_ASSIGN(client_, cluster_->Connect());
  const absl::Status refused = client_->Get("key", {.deadline = absl::Seconds(2)}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused) || absl::IsDeadlineExceeded(refused)) << refused;

  // An operator's word, as often as shards stop: late starts of nodes make further epochs.
  WaitFor("shards that serve", [&](const cluster::Health& health) {
    std::vector<cluster::StoppedShard> stopped;
    for (const cluster::ShardHealth& shard : health.shards) {
      if (shard.stopped) stopped.push_back({shard.group, shard.shard, shard.epoch, shard.lost});
    }
    // E8: of a memgest that nobody was told of nothing is given up.
    std::vector<cluster::StoppedShard> unseen = stopped;
    for (cluster::StoppedShard& shard : unseen) shard.lost.clear();
    EXPECT_EQ(cluster_->admin().AcceptLoss(unseen).value_or(0), 0);
    cluster_->admin().AcceptLoss(stopped).IgnoreError();  // ... it is said again
    return health.shards.empty();
  });
  EXPECT_THAT(client_->Get("key").status(), StatusIs(absl::StatusCode::kNotFound))
      << "nobody knows of it";
  cluster_->AwaitProtected();
  // The catalogue is as it was.
  ASSERT_OK(client_->Put("key", "again", {.memgest = "MINE"}).status());
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("key"));
  EXPECT_EQ(got.value, "again");
  // X6: the same again, once the shard has another epoch, is nobody's word for what is lost since.
  const cluster::StoppedShard seen{GroupId(0), ShardId(0), Epoch(1), {MemgestId(1)}};
  EXPECT_THAT(cluster_->admin().AcceptLoss(absl::MakeConstSpan(&seen, 1)),
              ::ring::testing::IsOkAndHolds(0));
}

// The last start of some voters ended between their ids and the first configuration.
TEST_F(RestartTest, R10_6AnIdAloneIsNoMemoryAndTheClusterIsFounded) {
  for (const int voters : {1, 3}) {
    SCOPED_TRACE(voters);
    const std::string folder = absl::StrCat(folder_, "/", voters);
    client_.reset();
    cluster_ = std::make_unique<testing::NodeCluster>();
    ASSERT_OK(cluster_->Begin(
        /*fail_over=*/true, /*fault_injection=*/false, FenceKind::kLease, [&](NodeConfig* config) {
          config->cluster_name = absl::StrCat("founded-", getpid());
          config->control.data_dir = folder;
          config->control.voters = voters;
          std::filesystem::create_directories(folder);
          for (int i = 0; i < voters; ++i) {
            const auto node = static_cast<std::uint16_t>(i);
            EXPECT_OK(
                consensus::FileStorage::Open(absl::StrCat(folder, "/", config->nodes[node].name),
                                             consensus::MakeServerId(node, 1))
                    .status());
          }
        }));
    WaitServing();
    ASSERT_OK(client_->Put("key", "value").status());
  }
}

TEST_F(RestartTest, E8WithThePolicyToContinueItServesAgainAsEmpty) {
  Start(cluster::OverrunPolicy::kContinue);
  WaitServing();
  ASSERT_OK(client_->Put("key", "value").status());
  Stop();
  Start(cluster::OverrunPolicy::kContinue);
  WaitServing();
  EXPECT_THAT(client_->Get("key").status(), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK(client_->Put("key", "again").status());
  cluster_->AwaitProtected();
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("key"));
  EXPECT_EQ(got.value, "again");
}

}  // namespace
}  // namespace ring::node
