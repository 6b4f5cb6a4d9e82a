// tests/sim/checkers/metadata_checker.h — members know what their coordinator knows.
//
// What:      CheckMetadata compares, of every memgest, what each member that counts has folded with
//            what the coordinator holds: lines with keys, granules, ranges, and completion records.
//            What differs is lost, comes back or runs twice as soon as the coordinator is gone: by
//            then it would be hard to see why.
// Shape:     in each run but those that lost too much (F3). REQUIRES: protected again, and no
//            operation is under way.
// Ownership: borrows the cluster, and lets its time pass until what was committed is folded.
// Threads:   one.
// Errors:    a Violation for each difference, a few of each member.
// Source:    rules E9, G2, X2, X4.
#ifndef RING_TESTS_SIM_CHECKERS_METADATA_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_METADATA_CHECKER_H_

#include <cstdint>
#include <vector>

#include "tests/sim/sim_cluster.h"

namespace ring::sim {

struct MetadataResult {
  std::uint64_t lines = 0;    // compared, each with each member
  std::uint64_t records = 0;  // ...
  std::vector<Violation> violations;
};

MetadataResult CheckMetadata(SimCluster* cluster);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_METADATA_CHECKER_H_
