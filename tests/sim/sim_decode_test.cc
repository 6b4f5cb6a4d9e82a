// Coordinators of coded values that die in the midst of a put: S1.
#include <algorithm>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "ring/cluster/routing.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr int kFirstKey = 100;
constexpr int kKeyCount = 60;

class SimDecode {
 public:
  explicit SimDecode(std::uint64_t seed) : cluster_(Options(seed)) {}

  void Start() {
    ASSERT_TRUE(cluster_.Open().ok());
    ASSERT_TRUE(cluster_.AddClient(4, 0, false).ok());
    for (int key = kFirstKey; key < kFirstKey + kKeyCount; ++key) Put(key);
    ASSERT_TRUE(AwaitAnswers());
  }

  void Put(int key) {
    Operation put;
    put.kind = OpKind::kPut;
    put.key = key;
    put.value = cluster_.workload().NextValue();
    put.size = 3000;
    client().Ask(put);
  }

  // The key's coordinator dies when the put's entry has come to these parities and no further.
  void DieInAPut(int key, std::uint32_t parities) {
    const cluster::View& view = cluster_.view();
    const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(key));
    const std::vector<NodeId>& roles = view.groups[place.group.value()].roles;
    SimNode& owner = *cluster_.nodes()[roles[place.shard.value()].value()];
    for (std::size_t j = 0; j < 2; ++j) {
      if ((parities >> j & 1) != 0) continue;
      SimNode& parity = *cluster_.nodes()[roles[3 + j].value()];
      cluster_.network().SetBlocked(owner.host(), parity.host(), true);
    }
    Put(key);
    Pass(2 * kMs);
    owner.Crash();
    cluster_.network().HealAll();
  }

  // Every value that was acknowledged is there, the neighbours' of the torn put too.
  void ExpectEverything() {
    for (int key = kFirstKey; key < kFirstKey + kKeyCount; ++key) {
      Operation get;
      get.key = key;
      client().Ask(get);
    }
    ASSERT_TRUE(AwaitAnswers());
    const std::vector<Operation>& operations = cluster_.history().operations();
    for (auto op = operations.end() - kKeyCount; op != operations.end(); ++op)
      EXPECT_EQ(op->result, OpResult::kOk) << Describe(*op);
    cluster_.versions().Finish();
    for (const Violation& violation : cluster_.versions().violations())
      ADD_FAILURE() << violation.kind << ": " << violation.detail;
    for (const Violation& violation : cluster_.violations())
      ADD_FAILURE() << violation.kind << ": " << violation.detail;
  }

 private:
  static ClusterOptions Options(std::uint64_t seed) {
    ClusterOptions options;
    options.seed = seed;
    options.node_count = 6;
    options.block_size = 16 * 1024;
    protocol::MemgestDescriptor memgest;
    memgest.name = "SRS32";
    memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
    memgest.r = 0;
    memgest.k = 3;
    memgest.m = 2;
    options.memgests = {memgest};
    return options;
  }
  SimClient& client() { return *cluster_.clients()[0]; }
  void Pass(std::uint64_t ns) {
    cluster_.RunUntil(
        cluster_.network().now_ns() + ns, [] { return false; }, ns);
  }
  bool AwaitAnswers() {
    return cluster_.RunUntil(cluster_.network().now_ns() + 60'000 * kMs,
                             [this] { return client().idle(); });
  }

  SimCluster cluster_;
};

TEST(SimDecodeTest, S1_APutThatReachedSomeParitiesDoesNotTearItsNeighbours) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (std::uint32_t parities = 0; parities < 4; ++parities) {
      SCOPED_TRACE(testing::Message() << "seed=" << seed << " parities=" << parities);
      SimDecode run(seed);
      ASSERT_NO_FATAL_FAILURE(run.Start());
      run.DieInAPut(kFirstKey + static_cast<int>(seed), parities);
      ASSERT_NO_FATAL_FAILURE(run.ExpectEverything());
    }
  }
}

}  // namespace
}  // namespace ring::sim
