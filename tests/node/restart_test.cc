// A cluster whose processes all stopped: what was decided is on disk, the values are gone (E8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "consensus/file/file_storage.h"
#include "tests/node/node_cluster.h"
#include "tests/support/status_matchers.h"

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
  static std::string Describe(const cluster::Health& health) {
    std::string text;
    for (const cluster::ShardHealth& shard : health.shards) {
      absl::StrAppend(&text, "g", shard.group.value(), "/s", shard.shard.value(), " of node ",
                      static_cast<int>(shard.coordinator.value()), ": ", shard.reason, "\n");
    }
    for (const std::string& warning : health.warnings) absl::StrAppend(&text, warning, "\n");
    return text;
  }
  // Until health says so of the shards that do not serve.
  void WaitFor(const std::function<bool(const cluster::Health&)>& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (;;) {
      const absl::StatusOr<cluster::Health> health = cluster_->admin().GetHealth();
      if (health.ok() && done(*health)) return;
      ASSERT_LT(absl::Now(), deadline)
          << (health.ok() ? Describe(*health) : health.status().ToString());
    }
  }
  void WaitServing() {
    WaitFor([](const cluster::Health& health) {
      return health.shards.empty() && health.leader != cluster::kNoNode;
    });
    if (client_ == nullptr) {
      ASSERT_OK_AND_ASSIGN(client_, cluster_->Connect());
    }
  }
  void WaitProtected() {
    WaitFor([](const cluster::Health& health) {
      bool all = health.shards.empty();
      for (const cluster::MemgestHealth& memgest : health.memgests)
        all &= memgest.condition == cluster::Condition::kProtected;
      return all;
    });
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
  WaitFor([](const cluster::Health& health) {
    std::size_t stopped = 0;
    for (const cluster::ShardHealth& shard : health.shards) stopped += shard.stopped ? 1 : 0;
    return stopped == 15;
  });
  ASSERT_OK_AND_ASSIGN(client_, cluster_->Connect());
  const absl::Status refused = client_->Get("key", {.deadline = absl::Seconds(2)}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused) || absl::IsDeadlineExceeded(refused)) << refused;

  // An operator's word, as often as shards stop: late starts of nodes make further epochs.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  int accepted = 0;
  for (bool serving = false; !serving;) {
    ASSERT_LT(absl::Now(), deadline);
    const absl::StatusOr<cluster::Health> health = cluster_->admin().GetHealth();
    if (!health.ok()) continue;
    std::vector<cluster::StoppedShard> stopped;
    for (const cluster::ShardHealth& shard : health->shards) {
      if (shard.stopped) stopped.push_back({shard.group, shard.shard, shard.epoch});
    }
    serving = health->shards.empty();
    const absl::StatusOr<int> count = cluster_->admin().AcceptLoss(stopped);
    accepted += count.ok() ? *count : 0;
  }
  EXPECT_GE(accepted, 15);
  EXPECT_THAT(client_->Get("key").status(), StatusIs(absl::StatusCode::kNotFound))
      << "nobody knows of it";
  WaitProtected();
  // The catalogue is as it was.
  ASSERT_OK(client_->Put("key", "again", {.memgest = "MINE"}).status());
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("key"));
  EXPECT_EQ(got.value, "again");
  // X6: the same again, once the shard has another epoch, is nobody's word for what is lost since.
  const cluster::StoppedShard seen{GroupId(0), ShardId(0), Epoch(1)};
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
  WaitProtected();
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("key"));
  EXPECT_EQ(got.value, "again");
}

}  // namespace
}  // namespace ring::node
