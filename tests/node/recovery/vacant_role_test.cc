// Lost blocks whose rows have another one of a shard without coordinator (S7).
#include <gtest/gtest.h>

#include <string>

#include "tests/node/recovery/decode_fixture.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::Await;
using testing::KeepOnly;
using testing::SmallBlocksSlowly;

class VacantRoleTest : public testing::DecodeFixture {
 protected:
  static constexpr int kCount = 30;

  void LoadShard(std::uint16_t shard) {
    for (int i = 0; i < kCount; ++i) Put(KeyOf(shard, "k", i), "SRS32", 4000);
  }
  // Shard 1 serves without its blocks, and its rows have blocks of shard 2; both parities have
  // folded all.
  void StartWithoutBlocks(std::size_t spare_count) {
    Start(spare_count, [](NodeConfig* config) {
      KeepOnly(config, "REP4", "SRS32");
      SmallBlocksSlowly(config);
    });
    LoadShard(1);
    LoadShard(2);
    for (const int parity : {0, 1}) ASSERT_NO_FATAL_FAILURE(WaitFolded(parity, "SRS32"));
    ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
    ASSERT_TRUE(AnyLost(1, "SRS32"));
  }
  void ExpectShardOne() {
    for (int i = 0; i < kCount; ++i) {
      const std::string key = KeyOf(1, "k", i);
      const absl::StatusOr<GetResult> got = Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_EQ(got->value, values_[key]) << key;
    }
  }
};

// A node that was only silent has its blocks yet: while nobody has its role, a row that needs them
// is away, not gone, and comes when the node is back.
TEST_F(VacantRoleTest, S7ABlockIsNotGoneWhileARoleIsOnlyVacant) {
  Start(1, [](NodeConfig* config) {
    KeepOnly(config, "REP4", "SRS21");
    SmallBlocksSlowly(config);
  });
  for (int i = 0; i < 60; ++i) Put(KeyOf(1, "k", i), "SRS21", 4000);
  for (int i = 0; i < 60; ++i) Put(KeyOf(2, "k", i), "SRS21", 4000);
  ASSERT_NO_FATAL_FAILURE(LoseAndLeaveLost({1}));
  ASSERT_TRUE(AnyLost(1, "SRS21"));
  const NodeId silent(2);
  ASSERT_OK(cluster_.Fail(silent));  // it lives, and nobody takes its role
  const auto serves = [this] {
    bool is = false;
    cluster_.Run([&] {
      is = Shard(1) != nullptr && Shard(1)->serving() &&
           cluster_.view().IsNormal(kGroup, ShardId(1));
    });
    return is;
  };
  Await("shard 1 to serve", serves);
  GetOptions soon;
  soon.deadline = absl::Milliseconds(50);
  int away = 0;
  for (int i = 0; i < 60; ++i) {
    const absl::Status status = client_->Get(KeyOf(1, "k", i), soon).status();
    ASSERT_FALSE(absl::IsDataLoss(status)) << i << ": " << status;
    away += status.ok() ? 0 : 1;
  }
  EXPECT_GT(away, 0) << "all had come before the role was vacant";
  ASSERT_OK(cluster_.RegisterAgain(silent));
  ASSERT_NO_FATAL_FAILURE(WaitServing());
  ExpectEverything();
}

// The coordinator of a shard dies before it told both parities how far its log is committed, and
// nobody has its role: what one of them folded the other one folds, too, or no row of theirs fits.
TEST_F(VacantRoleTest, S7ParitiesAgreeOnTheLogOfAShardWithoutCoordinator) {
  constexpr int kBehind = 1;
  ASSERT_NO_FATAL_FAILURE(StartWithoutBlocks(1));
  HoldFolds(kBehind, 2, true);
  LoadShard(2);
  ASSERT_NO_FATAL_FAILURE(WaitFolded(0, "SRS32"));
  cluster_.Kill(NodeId(2));
  cluster_.Run([&] {
    const cluster::View& view = cluster_.view();
    const NodeId parity = view.groups[0].roles[static_cast<std::size_t>(view.s + kBehind)];
    MemberPort::HeldShard& ring = *cluster_.node(parity)->members().Find(kGroup, ShardId(2));
    // As if the last control words had not come.
    *reinterpret_cast<std::uint64_t*>(ring.ring.address) = ring.store->reader()->folded_position();
  });
  HoldFolds(kBehind, 2, false);
  ASSERT_OK(cluster_.Fail(NodeId(2)));
  ASSERT_NO_FATAL_FAILURE(ExpectShardOne());
}

// A shard may have a coordinator for long that gives nothing: the others go on without (L10).
TEST_F(VacantRoleTest, S7AShardThatDoesNotServeIsOneMoreLostBlock) {
  ASSERT_NO_FATAL_FAILURE(StartWithoutBlocks(2));
  cluster_.LoseNormals(true, ShardId(2));
  cluster_.Kill(NodeId(2));
  ASSERT_OK(cluster_.Fail(NodeId(2)));
  ASSERT_NO_FATAL_FAILURE(ExpectShardOne());
  cluster_.Run([&] { EXPECT_FALSE(Shard(2) != nullptr && Shard(2)->serving()); });
}

}  // namespace
}  // namespace ring::node
