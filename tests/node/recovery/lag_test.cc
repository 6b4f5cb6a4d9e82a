// A member stands still, and nobody takes it for dead: the others go on without it (E5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "memgest/member_shard.h"
#include "ring/base/crc32c.h"
#include "ring/cluster/routing.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr std::uint32_t kStill = 4;  // holds role 4 of group 0

class LagTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.PutApart(NodeId(kStill));
    // It is silent for longer than the test lasts, and it does not vote.
    ASSERT_OK(cluster_.Start(/*fail_over=*/true, /*fault_injection=*/false, FenceKind::kLease,
                             [](NodeConfig* config) {
                               config->control.voters = 1;
                               config->control.detect_ms = kDetectMsMax;
                             }));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
    const std::shared_ptr<const cluster::View> view = *cluster_.admin().GetView();
    ASSERT_EQ(view->groups[0].roles[4], NodeId(kStill));
    first_epoch_ = view->groups[0].epoch;
  }
  // Of group 0, so many bytes that several rings were full.
  void Put(const std::string& prefix, int count) {
    const cluster::Routing routing(3, 2);
    for (int i = 0, done = 0; done < count; ++i) {
      const std::string key = absl::StrCat(prefix, i);
      if (routing.OfKey(key).group != GroupId(0)) continue;
      const std::string value(8000, static_cast<char>('a' + i % 26));
      ASSERT_OK(client_->Put(key, value, {.memgest = "REP3"}).status()) << key;
      values_[key] = value;
      ++done;
    }
  }

  testing::NodeCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
  Epoch first_epoch_;
};

TEST_F(LagTest, E5PutsGoOnWithoutAMemberThatStandsStillAndItJoinsAgain) {
  Put("before/", 10);
  {
    const testing::NodeCluster::Still still = cluster_.StandStill();
    Put("while/", 300);
    const std::shared_ptr<const cluster::View> view = *cluster_.admin().GetView();
    EXPECT_EQ(view->nodes[kStill].status, cluster::NodeStatus::kUp) << "it was not taken for dead";
    EXPECT_GT(view->groups[0].epoch, first_epoch_);
    EXPECT_EQ(view->groups[0].demoted, 1u << 4);
    EXPECT_EQ(view->groups[0].roles[4], NodeId(kStill)) << "it keeps its role";
  }
  // Everything it lacks goes to it.
  cluster_.AwaitProtected();
  EXPECT_EQ((*cluster_.admin().GetView())->groups[0].roles[4], NodeId(kStill));
  Put("after/", 100);
  for (const auto& [key, value] : values_) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
  }
}

// The record says that node 3 has everything; since then the bytes of a value came to it damaged,
// and nobody has given them to it yet: without the member that lags they are at the coordinator
// alone.
TEST_F(LagTest, F10AMemberThatStandsStillIsKeptAsLongAsAnotherLacksAValue) {
  Put("before/", 10);
  constexpr GroupId kGroup(0);
  const std::string bytes(64, 'd');
  memgest::EntryView entry;
  entry.key = "damaged";
  entry.payload = reinterpret_cast<const std::byte*>(bytes.data());
  entry.payload_crc = 1;  // not theirs
  entry.header.line = 1u << 12;
  entry.header.offset_cells = 1u << 16;
  entry.header.size_class = 2;
  entry.header.key_length = 7;
  entry.header.version = Version(first_epoch_, 1u << 30).bits();
  entry.header.value_length = entry.header.payload_length = 64;
  entry.header.value_crc = Crc32c(bytes.data(), bytes.size());
  const auto store = [&]() -> memgest::MemberShard& {
    return *cluster_.FindNode(NodeId(3))->members().Find(kGroup, ShardId(0))->store;
  };
  cluster_.Run([&] {
    const MemgestId rep3 = cluster_.node(0).view()->FindMemgest("REP3")->id;
    entry.header.memgest = rep3.value();
    entry.header.index = store().applied(rep3) + 1;
    EXPECT_OK(store().FoldShipped(entry));
    EXPECT_EQ(store().absent_count(), 1u);
  });
  const testing::NodeCluster::Still still = cluster_.StandStill();
  std::thread writer([this] { Put("while/", 300); });
  const auto refused = [&] {
    std::uint64_t count = 0;
    cluster_.Run([&] {
      for (std::uint32_t id = 0; id < 3; ++id) {
        for (const auto& shard : cluster_.FindNode(NodeId(id))->shards())
          count += shard->group() == kGroup ? shard->demotion_check().refused() : 0;
      }
    });
    return count;
  };
  EXPECT_TRUE(ring::testing::HoldsWithin(ring::testing::kPatience, [&] { return refused() >= 3; }))
      << refused() << " refusals";
  EXPECT_EQ((*cluster_.admin().GetView())->groups[0].epoch, first_epoch_);
  cluster_.Run([&] {
    EXPECT_OK(store().InstallValue(entry.header.line, Version(entry.header.version),
                                   {entry.payload, bytes.size()}));
  });
  writer.join();
  EXPECT_EQ((*cluster_.admin().GetView())->groups[0].demoted, 1u << kStill);
}

}  // namespace
}  // namespace ring::node
