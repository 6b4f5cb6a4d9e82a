// More is lost than a memgest survives (F3), and another one of the shard has an older version.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/routing.h"
#include "tests/sim/checkers/resurrection_checker.h"
#include "tests/sim/protection.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

using ::testing::IsEmpty;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMs;
constexpr int kKey = 5;
constexpr ValueId kOlder = 1;
constexpr ValueId kNewer = 2;

ClusterOptions Options(cluster::OverrunPolicy overrun) {
  ClusterOptions options;
  options.seed = 31;
  options.overrun = overrun;
  return options;
}

class SimOverrun {
 public:
  explicit SimOverrun(cluster::OverrunPolicy overrun) : cluster_(Options(overrun)) {}

  SimCluster& cluster() { return cluster_; }

  void Start() {
    ASSERT_TRUE(cluster_.Open().ok());
    ASSERT_TRUE(cluster_.AddClient(1, /*operations=*/0, /*sleeps=*/false).ok());
  }

  void Put(ValueId value, const std::string& memgest, int key = kKey) {
    Operation put;
    put.key = key;
    put.kind = OpKind::kPut;
    put.value = value;
    put.size = 100;
    for (const protocol::MemgestDescriptor& one : cluster_.view().memgests) {
      if (one.name == memgest) put.memgest = one.id;
    }
    ASSERT_NE(put.memgest, MemgestId(0)) << memgest;
    ASSERT_EQ(Ask(put).result, OpResult::kOk);
  }

  Operation Get() {
    Operation get;
    get.key = kKey;
    return Ask(get);
  }

  // SRS31 has lost all who had the shard's entries; SRS32 has its second parity left.
  void LoseCoordinatorAndFirstParity() {
    const cluster::View view = cluster_.view();
    const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(kKey));
    const std::vector<NodeId>& roles = view.groups[place.group.value()].roles;
    cluster_.Overrun();
    cluster_.CrashNode(roles[place.shard.value()]);
    cluster_.CrashNode(roles[static_cast<std::size_t>(view.s)]);
  }
  // All members have the entries; the blocks of a row that are left are fewer than SRS31 needs.
  void LoseTwoCoordinators() {
    const std::vector<NodeId> roles = cluster_.view().groups[0].roles;
    cluster_.Overrun();
    cluster_.CrashNode(roles[1]);
    cluster_.CrashNode(roles[2]);
  }

 private:
  // At once goes on with the answer: what was replaced is not collected yet.
  Operation Ask(Operation op) {
    constexpr std::uint64_t kStepNs = 1000;
    op.patience_ns = 4 * kSecond;
    const std::size_t at = cluster_.history().operations().size();
    cluster_.clients().front()->Ask(op);
    const auto answered = [&] {
      const std::vector<Operation>& operations = cluster_.history().operations();
      return operations.size() > at && operations[at].result != OpResult::kPending;
    };
    cluster_.RunUntil(cluster_.network().now_ns() + 5 * kSecond, answered, kStepNs);
    return cluster_.history().operations()[at];
  }

  SimCluster cluster_;
};

TEST(SimOverrunTest, E8WhatVanishedWithItsMemgestShowsWhatASturdierOneHasBelow) {
  SimOverrun run(cluster::OverrunPolicy::kContinue);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  ASSERT_NO_FATAL_FAILURE(run.Put(kOlder, "SRS32"));
  ASSERT_NO_FATAL_FAILURE(run.Put(kNewer, "SRS31"));
  run.LoseCoordinatorAndFirstParity();
  const Operation get = run.Get();
  ASSERT_EQ(get.result, OpResult::kOk) << Describe(get);
  EXPECT_EQ(get.value, kOlder);
  EXPECT_THAT(CheckResurrection(run.cluster().history()), IsEmpty());
  EXPECT_THAT(run.cluster().versions().violations(), IsEmpty());
}

// Of who accepted the loss nothing is left but its record.
TEST(SimOverrunTest, X7WhoTakesOverBehindALossKnowsWhoseRecordsItTook) {
  SimOverrun run(cluster::OverrunPolicy::kContinue);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  ASSERT_NO_FATAL_FAILURE(run.Put(kOlder, "SRS32"));
  ASSERT_NO_FATAL_FAILURE(run.Put(kNewer, "SRS31"));
  run.LoseCoordinatorAndFirstParity();
  ASSERT_EQ(run.Get().result, OpResult::kOk);
  const cluster::Place place = cluster::Routing(3, 2).OfKey(KeyName(kKey));
  const auto lost = [&run, &place] {
    const NodeId owner = run.cluster().view().Coordinator(place.group, place.shard);
    node::CoordinatedShard& shard =
        *run.cluster().nodes()[owner.value()]->node().FindShard(place.group, place.shard);
    std::vector<std::string> names;
    for (const protocol::MemgestDescriptor& one : run.cluster().view().memgests) {
      if (shard.coordinator()->LostRecordsOf(one.id)) names.push_back(one.name);
    }
    return names;
  };
  const NodeId first = run.cluster().view().Coordinator(place.group, place.shard);
  const std::vector<std::string> known = lost();
  ASSERT_THAT(known, ::testing::Contains("SRS31"));
  ASSERT_THAT(known, ::testing::Not(::testing::Contains("SRS32")));
  run.cluster().CrashNode(first);
  ASSERT_EQ(run.Get().result, OpResult::kOk);
  ASSERT_NE(run.cluster().view().Coordinator(place.group, place.shard), first);
  EXPECT_EQ(lost(), known);
}

// The blocks that are gone with a memgest stay Lost; another one that lost nothing is whole again.
TEST(SimOverrunTest, E8WhatALostMemgestLacksDoesNotKeepAnotherOneUnprotected) {
  SimOverrun run(cluster::OverrunPolicy::kContinue);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  for (int key = 0; key < 150; ++key)
    ASSERT_NO_FATAL_FAILURE(
        run.Put(static_cast<ValueId>(1000 + key), key % 2 == 0 ? "SRS31" : "SRS32", key));
  run.LoseTwoCoordinators();
  std::string missing;
  const bool whole = run.cluster().RunUntil(run.cluster().network().now_ns() + 20 * kSecond, [&] {
    missing = absl::StrJoin(Unprotected(run.cluster(),
                                        [](const protocol::MemgestDescriptor& memgest) {
                                          return memgest.name != "SRS32" &&
                                                 memgest.FailuresTolerated() < 2;
                                        }),
                            "; ");
    return missing.empty();
  });
  EXPECT_TRUE(whole) << missing;
}

TEST(SimOverrunTest, E8AShardThatStopsShowsNothingOlderAndCheckersForgiveNothing) {
  SimOverrun run(cluster::OverrunPolicy::kStop);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  ASSERT_NO_FATAL_FAILURE(run.Put(kOlder, "SRS32"));
  ASSERT_NO_FATAL_FAILURE(run.Put(kNewer, "SRS31"));
  run.LoseCoordinatorAndFirstParity();
  const Operation get = run.Get();
  EXPECT_NE(get.result, OpResult::kOk) << Describe(get);
  EXPECT_NE(get.result, OpResult::kNotFound);
  for (const Loss& loss : run.cluster().history().losses()) EXPECT_FALSE(loss.everything);
}

}  // namespace
}  // namespace ring::sim
