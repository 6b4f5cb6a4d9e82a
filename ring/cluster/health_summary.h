// ring/cluster/health_summary.h — what is protected, what is at risk, what does not serve, and why.
//
// What:      Summarize puts the agreed facts (status, roles, Normal records) and what each node
//            says of its shards (phase of the epoch change, values that are away, values that are
//            lost) together into a Health: for each memgest its condition, what it promised to
//            survive and what it survives now; each shard that does not serve, with the reason.
// Shape:     counts are of values that a coordinator knows; a shard that does not serve has none.
// Units:     failures; values; recovered is a share from 0 to 1.
// Ownership: values.
// Threads:   pure.
// Errors:    none: a node that does not answer is one of the findings. REQUIRES: a valid view.
// Source:    docs/GLOSSARY.md (f(M), survives now, ACTIVE, data-complete, protected);
//            rules E6, E8, L10, L11.
#ifndef RING_CLUSTER_HEALTH_SUMMARY_H_
#define RING_CLUSTER_HEALTH_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

// What a coordinator has of one memgest.
struct MemgestCounts {
  MemgestId id;
  std::uint64_t keys = 0;    // whose newest committed version is there
  std::uint64_t values = 0;  // versions
  std::uint64_t absent = 0;  // of them, bytes that are not on the node yet
  std::uint64_t lost = 0;    // of those, bytes that nobody has
  friend bool operator==(const MemgestCounts&, const MemgestCounts&) = default;
};

// How far a new parity is (S6).
struct RebuildReport {
  MemgestId memgest;
  Role role;
  std::uint64_t sent = 0;
  std::uint64_t all = 0;  // in the same unit; never 0
  friend bool operator==(const RebuildReport&, const RebuildReport&) = default;
};

// What a coordinator says of its shard.
struct ShardReport {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  bool serving = false;
  bool stopped = false;             // too little survived (E8)
  std::vector<MemgestId> lost;      // ... of these
  std::string waiting;              // for what, if it does not serve
  std::vector<MemgestNormal> sets;  // who is named in this epoch; ids ascend
  std::vector<MemgestCounts> counts;
  std::vector<RebuildReport> rebuilds;
  friend bool operator==(const ShardReport&, const ShardReport&) = default;
};

// Values that a member does not have yet.
struct MemberReport {
  GroupId group;
  ShardId shard;
  MemgestId memgest;
  std::uint64_t absent = 0;
  friend bool operator==(const MemberReport&, const MemberReport&) = default;
};

struct NodeHealth {
  NodeId node;
  std::string error;  // why it did not answer; empty: it did
  std::vector<ShardReport> shards;
  std::vector<MemberReport> members;
  friend bool operator==(const NodeHealth&, const NodeHealth&) = default;
};

// From good to bad. Travels: never renumber.
enum class Condition : std::uint8_t {
  kProtected = 1,   // survives what it promised
  kRecovering = 2,  // less, and it is being mended
  kDegraded = 3,    // less, and nobody is there to mend it
  kStopped = 4,     // some shard of it does not serve, and will not by itself
};
// Travels: never renumber.
enum class HealthLevel : std::uint8_t { kOk = 1, kWarn = 2, kFail = 3 };

struct MemgestHealth {
  MemgestId id;
  std::string name;
  std::string scheme;  // "SRS(3,2)"
  Condition condition = Condition::kProtected;
  int promised = 0;        // f(M)
  int now = 0;             // of the shard that survives least; never below 0
  double recovered = 1.0;  // of the copies that there should be
  std::uint64_t keys = 0;
  std::uint64_t keys_at_risk = 0;  // in shards that survive less than promised
  std::uint64_t keys_lost = 0;
  friend bool operator==(const MemgestHealth&, const MemgestHealth&) = default;
};

struct ShardHealth {  // of one that does not serve
  GroupId group;
  ShardId shard;
  NodeId coordinator = kNoNode;
  bool stopped = false;
  std::string reason;
  Epoch epoch;
  std::vector<MemgestId> lost;  // stopped: of which memgests something would be given up
  friend bool operator==(const ShardHealth&, const ShardHealth&) = default;
};

// A shard that stopped in an epoch, for what these memgests lost: in a later one, or of others, it
// may have lost something else (E8).
struct StoppedShard {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  std::vector<MemgestId> lost;
  friend bool operator==(const StoppedShard&, const StoppedShard&) = default;
};

struct Health {
  HealthLevel level = HealthLevel::kOk;
  std::uint32_t view_epoch = 0;
  NodeId leader = kNoNode;
  std::vector<MemgestHealth> memgests;  // not DELETED, by id
  std::vector<ShardHealth> shards;
  std::vector<std::string> warnings;
  friend bool operator==(const Health&, const Health&) = default;
};

absl::string_view ConditionName(Condition condition);
absl::string_view LevelName(HealthLevel level);

// reports: one of each node that is not removed, in any order.
Health Summarize(const View& view, NodeId leader, absl::Span<const NodeHealth> reports);

// Whether what was seen to be lost was accepted.
bool IsAccepted(const ShardView& shard, const StoppedShard& seen);
// Whether its coordinator tells that it stopped in that epoch, whatever it lost by now.
bool IsStopped(absl::Span<const NodeHealth> reports, const StoppedShard& seen);

// Whether a living node's roles can be given away without a loss. Errors: kNotFound,
// kFailedPrecondition: it is not up, no spare takes its roles, a shard of its groups is stopped, it
// is the last one that has some value; kUnavailable: a shard of its groups is between two epochs,
// try again; the message says what to do. force: values that nobody else has are given up.
absl::Status CheckDrain(const View& view, absl::Span<const NodeHealth> reports, NodeId node,
                        bool force);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_HEALTH_SUMMARY_H_
