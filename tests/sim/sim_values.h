// tests/sim/sim_values.h — one client's values on a simulated cluster, for directed tests.
//
// What:      SimValues puts sixty values, and says whether all that was acknowledged is there.
// Shape:     what befalls the cluster in between is the test's business.
// Threads:   one.
// Errors:    told to gtest.
#ifndef RING_TESTS_SIM_SIM_VALUES_H_
#define RING_TESTS_SIM_SIM_VALUES_H_

#include <vector>

#include "gtest/gtest.h"
#include "ring/cluster/routing.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class SimValues {
 public:
  static constexpr std::uint64_t kMs = 1'000'000;
  static constexpr int kFirstKey = 100;
  static constexpr int kKeyCount = 60;

  explicit SimValues(const ClusterOptions& options) : cluster_(options) {}

  void Start() {
    ASSERT_TRUE(cluster_.Open().ok());
    ASSERT_TRUE(cluster_.AddClient(4, 0, false).ok());
    PutAll();
  }
  void PutAll() {
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
  // Every value that was acknowledged is there.
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
  // Until the condition holds, for at most a minute.
  bool Await(absl::FunctionRef<bool()> condition) {
    return cluster_.RunUntil(cluster_.network().now_ns() + 60'000 * kMs, condition);
  }
  void Pass(std::uint64_t ns) {
    cluster_.RunUntil(
        cluster_.network().now_ns() + ns, [] { return false; }, ns);
  }

  SimCluster& cluster() { return cluster_; }
  SimClient& client() { return *cluster_.clients()[0]; }
  cluster::Place PlaceOf(int key) {
    return cluster::Routing(cluster_.view().s, cluster_.view().d).OfKey(KeyName(key));
  }

 private:
  bool AwaitAnswers() {
    return Await([this] { return client().idle(); });
  }

  SimCluster cluster_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_VALUES_H_
