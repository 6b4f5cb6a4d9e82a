// Catalogue changes and statistics of a whole cluster in one process, over one reactor and over
// three.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/host.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

protocol::MemgestDescriptor Replicated(std::string name, int r) {
  protocol::MemgestDescriptor memgest;
  memgest.name = std::move(name);
  memgest.r = static_cast<std::uint8_t>(r);
  return memgest;
}

protocol::MemgestDescriptor Stretched(std::string name, int k, int m, std::uint32_t block_size) {
  protocol::MemgestDescriptor memgest;
  memgest.name = std::move(name);
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  memgest.block_size = block_size;
  return memgest;
}

class AdminCatalogueTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    HostOptions options;
    options.config = EmbeddedConfig();
    options.config.control.detect_ms = kDetectMsMax;  // nobody is lost, however busy the machine is
    options.reactor_count = GetParam();
    ASSERT_OK_AND_ASSIGN(host_, Host::Start(options));
    ASSERT_OK(host_->WaitReady(ring::testing::kPatience));
    ASSERT_OK_AND_ASSIGN(client_, Connect());
  }
  absl::StatusOr<std::unique_ptr<Client>> Connect() {
    ClientOptions client;
    client.seeds = {host_->local_seed()};
    client.transport = ring::Transport::kLocal;
    return Client::Connect(client);
  }
  AdminRequestId NextId() { return {"test", ++seq_}; }
  AdminPort& admin() { return host_->admin(); }
  const MemgestStats* StatsOf(const ClusterStats& stats, absl::string_view name) {
    const auto view = *admin().GetView();
    for (const MemgestStats& one : stats.memgests) {
      if (view->FindMemgest(one.id)->name == name) return &one;
    }
    return nullptr;
  }

  std::unique_ptr<Host> host_;
  std::unique_ptr<Client> client_;
  std::uint64_t seq_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Reactors, AdminCatalogueTest, ::testing::Values(1, 3));

TEST_P(AdminCatalogueTest, G11CreatedMemgestIsUsableOnEveryNodeWhenItIsAcknowledged) {
  for (const auto& memgest : {Replicated("new-rep", 3), Stretched("new-srs", 3, 2, 4096)}) {
    ASSERT_OK_AND_ASSIGN(const protocol::MemgestDescriptor created,
                         admin().CreateMemgest(NextId(), memgest));
    EXPECT_EQ(created.state, protocol::MemgestState::kActive);
    EXPECT_EQ(created.name, memgest.name);
    for (int i = 0; i < 100; ++i) {
      const std::string key = absl::StrCat(memgest.name, i);
      const std::string value(100 + static_cast<std::size_t>(i) * 100, 'v');
      ASSERT_OK(client_->Put(key, value, {.memgest = memgest.name}).status());
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << " " << got.status();
      EXPECT_EQ(got->value, value);
    }
  }
}

TEST_P(AdminCatalogueTest, X6RetriedCreateMakesOneMemgest) {
  const AdminRequestId id = NextId();
  ASSERT_OK_AND_ASSIGN(const protocol::MemgestDescriptor first,
                       admin().CreateMemgest(id, Replicated("once", 2)));
  ASSERT_OK_AND_ASSIGN(const protocol::MemgestDescriptor again,
                       admin().CreateMemgest(id, Replicated("once", 2)));
  EXPECT_EQ(first.id, again.id);
  EXPECT_THAT(admin().CreateMemgest(NextId(), Replicated("once", 2)).status(),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(admin().CreateMemgest(id, Replicated("other", 2)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(AdminCatalogueTest, X6AnIdThatComesWithAnotherChangeIsRefusedAndDoesNothing) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const AdminRequestId deleting = NextId();
  ASSERT_OK(admin().DeleteMemgest(deleting, "SRS21", false));
  EXPECT_THAT(admin().DeleteMemgest(deleting, "SRS31", false), StatusIs(kInvalid));
  EXPECT_THAT(admin().DeleteMemgest(deleting, "SRS21", true), StatusIs(kInvalid));
  EXPECT_THAT(admin().SetDefaultMemgest(deleting, "SRS31"), StatusIs(kInvalid));
  EXPECT_THAT(admin().CreateMemgest(deleting, Replicated("SRS21", 2)).status(),
              StatusIs(kInvalid, HasSubstr("was used for another command")));
  EXPECT_OK(admin().DeleteMemgest(deleting, "SRS21", false));
  const AdminRequestId choosing = NextId();
  ASSERT_OK(admin().SetDefaultMemgest(choosing, "SRS31"));
  EXPECT_THAT(admin().SetDefaultMemgest(choosing, "SRS32"), StatusIs(kInvalid));
  const auto view = *admin().GetView();
  EXPECT_EQ(view->FindMemgest("SRS21"), nullptr);
  EXPECT_EQ(view->FindMemgest("SRS31")->id, view->default_memgest);
  EXPECT_OK(client_->Put("k", "v", {.memgest = "SRS31"}).status());
}

TEST_P(AdminCatalogueTest, X6RetryIsAnsweredOfTheMemgestThatHadTheNameThen) {
  ASSERT_OK(admin().CreateMemgest(NextId(), Replicated("name", 2)).status());
  const AdminRequestId choosing = NextId();
  ASSERT_OK(admin().SetDefaultMemgest(choosing, "name"));
  ASSERT_OK(admin().SetDefaultMemgest(NextId(), "REP3"));
  const AdminRequestId deleting = NextId();
  ASSERT_OK(admin().DeleteMemgest(deleting, "name", false));
  ASSERT_OK(admin().CreateMemgest(NextId(), Replicated("name", 3)).status());
  EXPECT_OK(admin().SetDefaultMemgest(choosing, "name"));
  EXPECT_OK(admin().DeleteMemgest(deleting, "name", false));
  const auto view = *admin().GetView();
  EXPECT_EQ(view->FindMemgest("name")->r, 3);
  EXPECT_EQ(view->FindMemgest("REP3")->id, view->default_memgest);
}

TEST_P(AdminCatalogueTest, G10DeleteWaitsForNoKeyAndForgetsNoCompletionRecord) {
  ASSERT_OK(admin().CreateMemgest(NextId(), Stretched("gone", 2, 1, 4096)).status());
  for (int i = 0; i < 50; ++i)
    ASSERT_OK(client_->Put(absl::StrCat("k", i), "value", {.memgest = "gone"}).status());
  for (int i = 0; i < 50; ++i) {
    if (i % 2 == 0) {
      ASSERT_OK(client_->Move(absl::StrCat("k", i), "REP3").status());
    } else {
      ASSERT_OK(client_->Delete(absl::StrCat("k", i)).status());
    }
  }
  const AdminRequestId id = NextId();
  ASSERT_OK(admin().DeleteMemgest(id, "gone", false));
  EXPECT_OK(admin().DeleteMemgest(id, "gone", false));  // X6
  EXPECT_THAT(admin().DeleteMemgest(NextId(), "gone", false),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(client_->Put("k", "v", {.memgest = "gone"}).ok());
  for (int i = 0; i < 50; i += 2) ASSERT_OK(client_->Get(absl::StrCat("k", i)).status());
  ASSERT_OK_AND_ASSIGN(const ClusterStats stats, admin().GetStats());
  EXPECT_EQ(StatsOf(stats, "gone"), nullptr);
}

TEST_P(AdminCatalogueTest, G10ForceDropsTheKeysThatLiveThereAndNoOthers) {
  ASSERT_OK(admin().CreateMemgest(NextId(), Replicated("forced", 3)).status());
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(client_->Put(absl::StrCat("in", i), "value", {.memgest = "forced"}).status());
    ASSERT_OK(client_->Put(absl::StrCat("out", i), "old", {.memgest = "forced"}).status());
    // Over a weaker memgest the older version stays as a backup (G1): that goes, the newest stays.
    ASSERT_OK(client_->Put(absl::StrCat("out", i), "new", {.memgest = "REP1"}).status());
  }
  ASSERT_OK(admin().DeleteMemgest(NextId(), "forced", true));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(client_->Get(absl::StrCat("in", i)).status().code(), absl::StatusCode::kNotFound);
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(absl::StrCat("out", i)));
    EXPECT_EQ(got.value, "new");
  }
}

TEST_P(AdminCatalogueTest, G10DefaultMemgestCannotBeDeleted) {
  EXPECT_THAT(admin().DeleteMemgest(NextId(), "REP3", true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("default")));
  ASSERT_OK(admin().SetDefaultMemgest(NextId(), "SRS32"));
  EXPECT_EQ((*admin().GetView())->FindMemgest("SRS32")->id, (*admin().GetView())->default_memgest);
  EXPECT_OK(admin().DeleteMemgest(NextId(), "REP3", true));
  EXPECT_THAT(admin().SetDefaultMemgest(NextId(), "REP3"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(AdminCatalogueTest, G10MemgestComesAndGoesUnderLoad) {
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::thread load([&] {
    absl::StatusOr<std::unique_ptr<Client>> client = Connect();
    if (!client.ok()) return;
    for (int i = 0; !stop.load(); ++i) {
      const std::string key = absl::StrCat("load", i % 200);
      if (!(*client)->Put(key, std::string(1000, 'x'), {.memgest = "SRS32"}).ok()) ++failed;
      (*client)->Put(key, std::string(500, 'y'), {.memgest = "churn"}).IgnoreError();
      if (!(*client)->Get(key).ok() && i > 200) (*client)->Get(key).IgnoreError();
    }
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(admin().CreateMemgest(NextId(), Stretched("churn", 3, 1, 4096)).status());
    for (int j = 0; j < 50; ++j) client_->Put("mine", "v", {.memgest = "churn"}).IgnoreError();
    EXPECT_OK(admin().DeleteMemgest(NextId(), "churn", true));
  }
  stop.store(true);
  load.join();
  EXPECT_EQ(failed.load(), 0);
}

TEST_P(AdminCatalogueTest, StatsSumOverAllNodesAndCountEachVersionOnce) {
  for (int i = 0; i < 100; ++i)
    ASSERT_OK(
        client_->Put(absl::StrCat("s", i), std::string(1000, 's'), {.memgest = "SRS32"}).status());
  for (int i = 0; i < 40; ++i) ASSERT_OK(client_->Get(absl::StrCat("s", i)).status());
  ASSERT_OK_AND_ASSIGN(const ClusterStats stats, admin().GetStats());
  const MemgestStats* const srs = StatsOf(stats, "SRS32");
  ASSERT_NE(srs, nullptr);
  EXPECT_EQ(srs->keys, 100u);
  EXPECT_EQ(srs->versions, 100u);
  EXPECT_EQ(srs->logical_bytes, 100'000u);
  EXPECT_GE(srs->slot_bytes, 100'000u);
  EXPECT_GT(srs->resident_bytes, 100'000u);
  ASSERT_EQ(stats.nodes.size(), 6u);
  NodeStats sum;
  for (std::size_t i = 0; i < 6; ++i) {
    const NodeStats& node = stats.nodes[i];
    EXPECT_EQ(node.node, NodeId(static_cast<std::uint32_t>(i)));
    ASSERT_EQ(node.transports.size(), 6u);
    for (std::size_t j = 0; j < 6; ++j) EXPECT_EQ(node.transports[j], i == j ? "" : "local");
    sum.puts += node.puts;
    sum.gets += node.gets;
    sum.log_entries_appended += node.log_entries_appended;
    sum.log_bytes += node.log_bytes;
    sum.clients += node.clients;
  }
  EXPECT_EQ(sum.puts, 100u);
  EXPECT_EQ(sum.gets, 40u);
  EXPECT_GE(sum.log_entries_appended, 100u);
  EXPECT_GT(sum.log_bytes, 100'000u);
  EXPECT_GE(sum.clients, 1u);
}

// A deletion waits for ten seconds that the memgest becomes empty; who stops the process does not.
TEST_P(AdminCatalogueTest, WhoWaitsForTheClusterIsAnsweredWhenCallsEnd) {
  ASSERT_OK(client_->Put("key", "value", {.memgest = "REP2"}).status());
  absl::Status deleted;
  std::thread caller([&] { deleted = admin().DeleteMemgest(NextId(), "REP2", false); });
  ring::testing::Await("the deletion", [&] {
    const auto view = *admin().GetView();
    const protocol::MemgestDescriptor* const memgest = view->FindMemgest("REP2");
    return memgest != nullptr && memgest->state == protocol::MemgestState::kDraining;
  });
  admin().EndCalls();
  caller.join();
  EXPECT_THAT(deleted, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is stopping")));
  EXPECT_THAT(admin().GetStats().status(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace ring::node
