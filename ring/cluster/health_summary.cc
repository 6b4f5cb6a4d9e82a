#include "ring/cluster/health_summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/health.h"

namespace ring::cluster {
namespace {

using protocol::MemgestDescriptor;

struct ShardName {
  GroupId group;
  ShardId shard;
  friend auto operator<=>(const ShardName&, const ShardName&) = default;
};

// Every shard of the view.
std::vector<ShardName> ShardsOf(const View& view) {
  std::vector<ShardName> shards;
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (int i = 0; i < view.s; ++i)
      shards.push_back(
          {GroupId(static_cast<std::uint16_t>(g)), ShardId(static_cast<std::uint16_t>(i))});
  }
  return shards;
}

// One memgest in one shard.
struct Part {
  Condition condition = Condition::kProtected;
  int now = 0;
  std::uint64_t keys = 0;
  std::uint64_t lost = 0;
  std::uint64_t copies_wanted = 0;
  std::uint64_t copies_there = 0;
};

class Summary {
 public:
  Summary(const View& view, absl::Span<const NodeHealth> reports) : view_(view) {
    for (const NodeHealth& report : reports) {
      for (const ShardReport& shard : report.shards) {
        // A node that has not heard of its successor says nothing that counts.
        if (shard.group.value() >= view.groups.size() || shard.shard.value() >= view.s) continue;
        if (view.Coordinator(shard.group, shard.shard) != report.node) continue;
        shards_[{shard.group, shard.shard}] = &shard;
      }
      for (const MemberReport& member : report.members) {
        absent_[{report.node.value(), member.group.value(), member.shard.value(),
                 member.memgest.value()}] = member.absent;
      }
      if (!report.error.empty()) errors_[report.node.value()] = &report.error;
    }
  }

  const ShardReport* Report(const ShardName& name) const {
    const auto found = shards_.find(name);
    return found == shards_.end() ? nullptr : found->second;
  }

  // Why the shard does not serve; false: it does.
  bool NotServing(const ShardName& name, ShardHealth* out) const {
    const ShardReport* const report = Report(name);
    const Epoch epoch = GroupOf(name).epoch;
    if (report != nullptr && report->serving && report->epoch == epoch) return false;
    out->group = name.group;
    out->shard = name.shard;
    out->epoch = epoch;
    out->coordinator = view_.Coordinator(out->group, out->shard);
    if (out->coordinator == kNoNode) {
      out->stopped = true;
      out->reason = "no node coordinates it: add a node, or restart a lost one";
      return true;
    }
    const NodeInfo& node = view_.nodes[out->coordinator.value()];
    if (node.status == NodeStatus::kDown) {
      out->stopped = true;
      out->reason = absl::StrCat("its coordinator, node ", node.id.value(), " (", node.name,
                                 "), is down and keeps the role");
    } else if (const auto error = errors_.find(node.id.value()); error != errors_.end()) {
      out->reason = absl::StrCat("its coordinator does not answer: ", *error->second);
    } else if (report == nullptr || report->epoch != epoch) {
      out->reason =
          absl::StrCat("node ", node.id.value(), " has not begun epoch ", epoch.value(), " yet");
    } else {
      out->stopped = report->stopped;
      out->reason = report->waiting;
      out->lost = report->lost;
    }
    return true;
  }

  Part Look(const MemgestDescriptor& memgest, const ShardName& name) const;

 private:
  enum class Copy : std::uint8_t { kThere, kComing, kMissing };
  const GroupView& GroupOf(const ShardName& name) const { return view_.groups[name.group.value()]; }
  std::uint64_t Rebuilt(const ShardName& name, MemgestId memgest, Role role,
                        std::uint64_t values) const;
  Copy CopyAt(const ShardName& name, Role role, const MemgestNormal& set, std::uint64_t values,
              std::uint64_t* have) const;

  const View& view_;
  std::map<ShardName, const ShardReport*> shards_;
  std::map<std::array<std::uint32_t, 4>, std::uint64_t> absent_;
  std::map<std::uint32_t, const std::string*> errors_;
};

// Of a parity that is rebuilt: as many of the values as of the bytes that it is to be sent. An
// estimate: values differ in size, and what was sent may not be folded yet.
std::uint64_t Summary::Rebuilt(const ShardName& name, MemgestId memgest, Role role,
                               std::uint64_t values) const {
  for (const RebuildReport& one : Report(name)->rebuilds) {
    if (one.memgest != memgest || one.role != role) continue;
    const double share = static_cast<double>(one.sent) / static_cast<double>(one.all);
    return std::min(values, static_cast<std::uint64_t>(share * static_cast<double>(values)));
  }
  return 0;
}

// Whether a role has all of the values of set.id in the shard, and how many of them.
Summary::Copy Summary::CopyAt(const ShardName& name, Role role, const MemgestNormal& set,
                              std::uint64_t values, std::uint64_t* have) const {
  *have = 0;
  const NodeId holder = GroupOf(name).roles[role.value()];
  if (holder == kNoNode) return Copy::kMissing;
  const NodeInfo& node = view_.nodes[holder.value()];
  if (node.status == NodeStatus::kDown || node.status == NodeStatus::kRemoved) {
    return Copy::kMissing;
  }
  const bool active = Has(set.active, role);
  const bool rebuilt = std::any_of(set.active_from.begin(), set.active_from.end(),
                                   [role](const ActiveFrom& one) { return one.role == role; });
  if (active && rebuilt) *have = Rebuilt(name, set.id, role, values);
  if (!active || rebuilt) return Copy::kComing;
  const auto found =
      absent_.find({holder.value(), name.group.value(), name.shard.value(), set.id.value()});
  const std::uint64_t absent = found == absent_.end() ? 0 : found->second;
  *have = values - std::min(values, absent);
  const bool complete = Has(set.complete, role);
  return complete && absent == 0 ? Copy::kThere : Copy::kComing;
}

Part Summary::Look(const MemgestDescriptor& memgest, const ShardName& name) const {
  const int promised = memgest.FailuresTolerated();
  Part part;
  ShardHealth why;
  if (NotServing(name, &why)) {
    part.condition = why.stopped ? Condition::kStopped : Condition::kRecovering;
    return part;
  }
  const ShardReport& report = *Report(name);
  MemgestCounts counts;
  for (const MemgestCounts& one : report.counts) {
    if (one.id == memgest.id) counts = one;
  }
  part.keys = counts.keys;
  part.lost = counts.lost;
  NormalRecord normal;
  normal.memgests = report.sets;
  MemgestNormal set;
  if (const MemgestNormal* const named = normal.Find(memgest.id); named != nullptr) set = *named;
  set.id = memgest.id;
  set.active = ActiveFor(normal, memgest, name.shard, view_.s, view_.d);
  set.complete = CompleteFor(normal, memgest, name.shard, view_.s, view_.d);
  int missing = 0;
  bool mended = true;
  for (const Role role : memgest.MemberRoles(name.shard, view_.s, view_.d)) {
    if (role.value() == name.shard.value()) continue;
    std::uint64_t have = 0;
    const Copy copy = CopyAt(name, role, set, counts.values, &have);
    missing += copy == Copy::kThere ? 0 : 1;
    mended &= copy != Copy::kMissing;
    part.copies_wanted += counts.values;
    part.copies_there += copy == Copy::kThere ? counts.values : have;
  }
  // The coordinator knows best what it has: its record is renewed later than its values come.
  const std::uint64_t away = counts.absent;
  missing += away > 0 ? 1 : 0;
  part.copies_wanted += counts.values;
  part.copies_there += counts.values - std::min(counts.values, away);
  part.now = std::max(0, promised - missing);
  const bool whole = missing == 0 || (promised == 0 && away == 0);
  if (!whole) part.condition = mended ? Condition::kRecovering : Condition::kDegraded;
  return part;
}

MemgestHealth SummarizeMemgest(const View& view, const Summary& summary,
                               const MemgestDescriptor& memgest) {
  MemgestHealth health;
  health.id = memgest.id;
  health.name = memgest.name;
  health.scheme = memgest.SchemeName();
  health.promised = memgest.FailuresTolerated();
  health.now = health.promised;
  std::uint64_t wanted = 0;
  std::uint64_t there = 0;
  for (const ShardName& name : ShardsOf(view)) {
    const Part part = summary.Look(memgest, name);
    health.condition = std::max(health.condition, part.condition);
    health.now = std::min(health.now, part.now);
    health.keys += part.keys;
    health.keys_at_risk += part.now < health.promised ? part.keys : 0;
    health.keys_lost += part.lost;
    wanted += part.copies_wanted;
    there += part.copies_there;
  }
  if (wanted > 0) health.recovered = static_cast<double>(there) / static_cast<double>(wanted);
  return health;
}

HealthLevel LevelOf(const Health& health) {
  HealthLevel level = health.warnings.empty() ? HealthLevel::kOk : HealthLevel::kWarn;
  for (const MemgestHealth& memgest : health.memgests) {
    if (memgest.condition == Condition::kStopped || memgest.keys_lost > 0) {
      return HealthLevel::kFail;
    }
    if (memgest.condition != Condition::kProtected) level = HealthLevel::kWarn;
  }
  return level;
}

struct Drained {
  std::string node;  // for people
  Role role;
  bool force = false;
};

// Whether a role of one shard can be given away: what its holder has, others must have too.
absl::Status CheckDrainOfRole(const View& view, const Summary& summary, const ShardName& name,
                              const Drained& drained) {
  const std::string where =
      absl::StrCat("group ", name.group.value(), " shard ", name.shard.value());
  ShardHealth why;
  if (summary.NotServing(name, &why)) {
    const std::string what = absl::StrCat(where, " does not serve: ", why.reason);
    if (why.stopped) return absl::FailedPreconditionError(what);
    return absl::UnavailableError(absl::StrCat(what, ": wait until it does"));
  }
  for (const MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted || drained.force) continue;
    const bool member = Has(MembersOf(memgest, name.shard, view.s, view.d), drained.role);
    const Part part = summary.Look(memgest, name);
    if (!member || part.now > 0 || part.keys == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "values of memgest ", memgest.name, " may be nowhere but on ", drained.node, ": ", where,
        " has ", part.keys, " keys that survive no loss now: ",
        memgest.FailuresTolerated() == 0 ? "move them to another memgest" : "wait for health",
        ", or give them up by force"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ConditionName(Condition condition) {
  switch (condition) {
    case Condition::kProtected:
      return "protected";
    case Condition::kRecovering:
      return "recovering";
    case Condition::kDegraded:
      return "degraded";
    case Condition::kStopped:
      return "stopped";
  }
  return "unknown";
}

absl::string_view LevelName(HealthLevel level) {
  switch (level) {
    case HealthLevel::kOk:
      return "OK";
    case HealthLevel::kWarn:
      return "WARN";
    case HealthLevel::kFail:
      return "FAIL";
  }
  return "unknown";
}

Health Summarize(const View& view, NodeId leader, absl::Span<const NodeHealth> reports) {
  const Summary summary(view, reports);
  Health health;
  health.view_epoch = view.epoch;
  health.leader = leader;
  for (const MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted) continue;
    health.memgests.push_back(SummarizeMemgest(view, summary, memgest));
  }
  for (const ShardName& name : ShardsOf(view)) {
    ShardHealth shard;
    if (summary.NotServing(name, &shard)) health.shards.push_back(std::move(shard));
  }
  health.warnings = HealthWarnings(view);
  for (const NodeHealth& report : reports) {
    const bool known_down = report.node.value() < view.nodes.size() &&
                            view.nodes[report.node.value()].status == NodeStatus::kDown;
    if (report.error.empty() || known_down) continue;
    health.warnings.push_back(
        absl::StrCat("node ", report.node.value(), " does not answer: ", report.error));
  }
  if (leader == kNoNode) {
    health.warnings.push_back(
        "no leader is known: nothing can be changed, and no lost node is replaced, until a "
        "majority of the voters is there");
  }
  health.level = LevelOf(health);
  return health;
}

bool IsAccepted(const ShardView& shard, const StoppedShard& seen) {
  return shard.overrun_epoch == seen.epoch &&
         std::all_of(seen.lost.begin(), seen.lost.end(), [&shard](MemgestId memgest) {
           return std::binary_search(shard.overrun.begin(), shard.overrun.end(), memgest);
         });
}

bool IsStopped(absl::Span<const NodeHealth> reports, const StoppedShard& seen) {
  const auto is_it = [&seen](const ShardReport& shard) {
    return shard.stopped && shard.group == seen.group && shard.shard == seen.shard &&
           shard.epoch == seen.epoch;
  };
  return std::any_of(reports.begin(), reports.end(), [&is_it](const NodeHealth& report) {
    return std::any_of(report.shards.begin(), report.shards.end(), is_it);
  });
}

absl::Status CheckDrain(const View& view, absl::Span<const NodeHealth> reports, NodeId id,
                        bool force) {
  if (id.value() >= view.nodes.size()) {
    return absl::NotFoundError(absl::StrCat("node=", id.value(), " is not known"));
  }
  const NodeInfo& node = view.nodes[id.value()];
  if (node.status == NodeStatus::kDraining) return absl::OkStatus();
  const std::string name = absl::StrCat("node ", id.value(), " (", node.name, ")");
  if (node.status != NodeStatus::kUp) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is ", StatusName(node.status),
                                                      ": only one that is up can be drained"));
  }
  if (!view.HoldsRole(id)) return absl::OkStatus();
  if (view.spare_count() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no spare takes the roles of ", name, ": add a node first"));
  }
  const Summary summary(view, reports);
  for (const ShardName& shard : ShardsOf(view)) {
    const std::vector<NodeId>& roles = view.groups[shard.group.value()].roles;
    const auto held = std::find(roles.begin(), roles.end(), id);
    if (held == roles.end()) continue;
    const Role role(static_cast<std::uint16_t>(held - roles.begin()));
    RING_RETURN_IF_ERROR(CheckDrainOfRole(view, summary, shard, {name, role, force}));
  }
  return absl::OkStatus();
}

}  // namespace ring::cluster
