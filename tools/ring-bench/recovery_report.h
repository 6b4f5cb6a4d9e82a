// tools/ring-bench/recovery_report.h — fail-overs by their phases, and what others noticed.
//
// What:      RecoveryReport: takes for each run when the node was killed, what the nodes told of
//            it, and the gets at shards that the node did not coordinate; gives tables over all.
// Shape:     a row for each phase and interval, in the order in which they came first.
// Units:     nanoseconds since 1970, and durations.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    Ring figures 12 and 13; docs/BENCHMARKS.md "Aims", P8.
#ifndef RING_TOOLS_RING_BENCH_RECOVERY_REPORT_H_
#define RING_TOOLS_RING_BENCH_RECOVERY_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ring/base/histogram.h"
#include "ring/node/events/fail_over.h"
#include "tools/ring-bench/recovery_load.h"
#include "tools/ring-bench/report.h"

namespace ring::bench {

using ShardName = std::pair<GroupId, ShardId>;

class RecoveryReport {
 public:
  // to_ns before from_ns counts as no time: two threads' clocks are read in either order.
  void Record(const std::string& phase, std::int64_t from_ns, std::int64_t to_ns);
  void RecordNever(const std::string& phase);
  // lost: the shards that the killed node coordinated; lost_bytes: of their values.
  void RecordEvents(std::int64_t killed_ns, const std::set<ShardName>& lost,
                    const node::FailOver& fail_over, std::uint64_t lost_bytes);
  // gets: as they were due. from_ns: what is due before is not counted, and neither what is while
  // the node is killed, which in one process takes the time of others and elsewhere does not.
  void RecordGets(std::int64_t from_ns, std::int64_t killed_ns, std::int64_t gone_ns,
                  const node::FailOver& fail_over, absl::Span<const RecoveryLoad::TimedGet> gets);
  std::vector<Row> PhaseRows() const;
  // What came back a second, from when all lost shards served to their last value.
  std::vector<Row> RateRows(std::uint64_t limit) const;
  std::vector<Row> GetRows() const;

 private:
  struct Series {
    Histogram times;
    int never = 0;
  };
  Series& At(const std::string& phase);
  void RecordLost(std::int64_t killed_ns, const std::set<ShardName>& lost,
                  const node::FailOver& fail_over);

  void RecordValues(std::int64_t killed_ns, std::optional<std::int64_t> served_ns,
                    std::int64_t back_ns);

  std::vector<std::string> order_;
  std::map<std::string, Series> phases_;
  std::uint64_t lost_bytes_ = 0;  // of the last kill
  std::vector<double> rates_;     // bytes a second
  Histogram before_;
  Histogram until_served_;     // from the kill until all shards served again
  Histogram until_protected_;  // from there on
};

// Whether all shards that are `lost` have their values, and whether every shard is protected.
bool ValuesAreBack(const node::FailOver& fail_over, const std::set<ShardName>& lost);
bool IsProtected(const node::FailOver& fail_over);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_RECOVERY_REPORT_H_
