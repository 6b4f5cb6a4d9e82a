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

RoleMask Bit(std::size_t role) { return RoleMask{1} << role; }

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
        shards_[{shard.group.value(), shard.shard.value()}] = &shard;
      }
      for (const MemberReport& member : report.members) {
        absent_[{report.node.value(), member.group.value(), member.shard.value(),
                 member.memgest.value()}] = member.absent;
      }
      if (!report.error.empty()) errors_[report.node.value()] = &report.error;
    }
  }

  const ShardReport* Report(std::size_t group, std::size_t shard) const {
    const auto found = shards_.find({group, shard});
    return found == shards_.end() ? nullptr : found->second;
  }

  // Why the shard does not serve; false: it does.
  bool NotServing(std::size_t g, std::size_t i, ShardHealth* out) const {
    const ShardReport* const report = Report(g, i);
    if (report != nullptr && report->serving && report->epoch == view_.groups[g].epoch) {
      return false;
    }
    out->group = GroupId(static_cast<std::uint16_t>(g));
    out->shard = ShardId(static_cast<std::uint16_t>(i));
    out->epoch = view_.groups[g].epoch;
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
    } else if (report == nullptr || report->epoch != view_.groups[g].epoch) {
      out->reason = absl::StrCat("node ", node.id.value(), " has not begun epoch ",
                                 view_.groups[g].epoch.value(), " yet");
    } else {
      out->stopped = report->stopped;
      out->reason = report->waiting;
    }
    return true;
  }

  Part Look(const MemgestDescriptor& memgest, std::size_t g, std::size_t i) const;

 private:
  enum class Copy : std::uint8_t { kThere, kComing, kMissing };
  std::uint64_t Rebuilt(const MemgestDescriptor& memgest, std::size_t g, std::size_t i,
                        std::size_t role, std::uint64_t values) const;
  Copy CopyAt(const MemgestDescriptor& memgest, std::size_t g, std::size_t i, std::size_t role,
              const MemgestNormal& set, std::uint64_t values, std::uint64_t* have) const;

  const View& view_;
  std::map<std::pair<std::size_t, std::size_t>, const ShardReport*> shards_;
  std::map<std::array<std::uint32_t, 4>, std::uint64_t> absent_;
  std::map<std::uint32_t, const std::string*> errors_;
};

// Of a parity that is rebuilt: as many of the values as of the bytes that it is to be sent. An
// estimate: values differ in size, and what was sent may not be folded yet.
std::uint64_t Summary::Rebuilt(const MemgestDescriptor& memgest, std::size_t g, std::size_t i,
                               std::size_t role, std::uint64_t values) const {
  for (const RebuildReport& one : Report(g, i)->rebuilds) {
    if (one.memgest != memgest.id || one.role.value() != role) continue;
    const double share = static_cast<double>(one.sent) / static_cast<double>(one.all);
    return std::min(values, static_cast<std::uint64_t>(share * static_cast<double>(values)));
  }
  return 0;
}

// Whether a role has all of the memgest's values of the shard, and how many of them.
Summary::Copy Summary::CopyAt(const MemgestDescriptor& memgest, std::size_t g, std::size_t i,
                              std::size_t role, const MemgestNormal& set, std::uint64_t values,
                              std::uint64_t* have) const {
  *have = 0;
  const NodeId holder = view_.groups[g].roles[role];
  if (holder == kNoNode) return Copy::kMissing;
  const NodeInfo& node = view_.nodes[holder.value()];
  if (node.status == NodeStatus::kDown || node.status == NodeStatus::kRemoved) {
    return Copy::kMissing;
  }
  const bool active = (set.active & Bit(role)) != 0;
  const bool rebuilt =
      std::any_of(set.active_from.begin(), set.active_from.end(),
                  [role](const ActiveFrom& one) { return one.role.value() == role; });
  if (active && rebuilt) *have = Rebuilt(memgest, g, i, role, values);
  if (!active || rebuilt) return Copy::kComing;
  const auto found = absent_.find({holder.value(), static_cast<std::uint32_t>(g),
                                   static_cast<std::uint32_t>(i), memgest.id.value()});
  const std::uint64_t absent = found == absent_.end() ? 0 : found->second;
  *have = values - std::min(values, absent);
  const bool complete = (set.complete & Bit(role)) != 0;
  return complete && absent == 0 ? Copy::kThere : Copy::kComing;
}

Part Summary::Look(const MemgestDescriptor& memgest, std::size_t g, std::size_t i) const {
  const int promised = memgest.FailuresTolerated();
  Part part;
  ShardHealth why;
  if (NotServing(g, i, &why)) {
    part.condition = why.stopped ? Condition::kStopped : Condition::kRecovering;
    return part;
  }
  const ShardReport& report = *Report(g, i);
  MemgestCounts counts;
  for (const MemgestCounts& one : report.counts) {
    if (one.id == memgest.id) counts = one;
  }
  part.keys = counts.keys;
  part.lost = counts.lost;
  const ShardId shard(static_cast<std::uint16_t>(i));
  NormalRecord normal;
  normal.memgests = report.sets;
  MemgestNormal set;
  if (const MemgestNormal* const named = normal.Find(memgest.id); named != nullptr) set = *named;
  set.active = ActiveFor(normal, memgest, shard, view_.s, view_.d);
  set.complete = CompleteFor(normal, memgest, shard, view_.s, view_.d);
  int missing = 0;
  bool mended = true;
  for (const Role role : memgest.MemberRoles(shard, view_.s, view_.d)) {
    if (role.value() == i) continue;
    std::uint64_t have = 0;
    const Copy copy = CopyAt(memgest, g, i, role.value(), set, counts.values, &have);
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
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      const Part part = summary.Look(memgest, g, i);
      health.condition = std::max(health.condition, part.condition);
      health.now = std::min(health.now, part.now);
      health.keys += part.keys;
      health.keys_at_risk += part.now < health.promised ? part.keys : 0;
      health.keys_lost += part.lost;
      wanted += part.copies_wanted;
      there += part.copies_there;
    }
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

// Whether a role of one shard can be given away: what its holder has, others must have too.
absl::Status CheckDrainOfRole(const View& view, const Summary& summary, const std::string& name,
                              std::size_t g, std::size_t i, std::size_t role, bool force) {
  ShardHealth why;
  if (summary.NotServing(g, i, &why)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "group ", g, " shard ", i, " does not serve: ", why.reason, ": wait until it does"));
  }
  for (const MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted || force) continue;
    const std::vector<Role> members =
        memgest.MemberRoles(ShardId(static_cast<std::uint16_t>(i)), view.s, view.d);
    const bool member = role == i || std::any_of(members.begin(), members.end(),
                                                 [role](Role one) { return one.value() == role; });
    const Part part = summary.Look(memgest, g, i);
    if (!member || part.now > 0 || part.keys == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "values of memgest ", memgest.name, " may be nowhere but on ", name, ": group ", g,
        " shard ", i, " has ", part.keys, " keys that survive no loss now: ",
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
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      ShardHealth shard;
      if (summary.NotServing(g, i, &shard)) health.shards.push_back(std::move(shard));
    }
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
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const std::vector<NodeId>& roles = view.groups[g].roles;
    const auto held = std::find(roles.begin(), roles.end(), id);
    if (held == roles.end()) continue;
    const auto role = static_cast<std::size_t>(held - roles.begin());
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      RING_RETURN_IF_ERROR(CheckDrainOfRole(view, summary, name, g, i, role, force));
    }
  }
  return absl::OkStatus();
}

}  // namespace ring::cluster
