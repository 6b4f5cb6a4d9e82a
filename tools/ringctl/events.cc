// ringctl events: what happened to nodes and roles; fail-overs as tables of their phases.
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ring/node/events/fail_over.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"
#include "tools/ringctl/watch.h"

namespace ring::tools {
namespace {

using node::ClusterEvent;
using node::Event;
using node::EventKind;
using node::FailOver;
using node::ShardFailOver;

struct EventOptions {
  WatchOptions follow;
  bool fail_overs = false;
};

// The phases of a shard, in their order.
constexpr EventKind kPhases[] = {
    EventKind::kEpochBegun, EventKind::kSealed,         EventKind::kFetched,
    EventKind::kReappended, EventKind::kNormal,         EventKind::kFirstGet,
    EventKind::kFirstPut,   EventKind::kValuesComplete, EventKind::kProtected};

std::string TimeText(std::int64_t unix_ns) {
  return absl::FormatTime("%H:%M:%E6S", absl::FromUnixNanos(unix_ns), absl::LocalTimeZone());
}

nlohmann::json EventJson(const cluster::View& view, const ClusterEvent& one) {
  nlohmann::json out = NodeJson(view, one.node);
  out["unix_ns"] = one.unix_ns;
  out["number"] = one.event.number;
  out["event"] = std::string(node::EventName(one.event.kind));
  if (one.event.group != Event::kNoPlace) {
    out["group"] = one.event.group;
    out["shard"] = one.event.shard;
    out["epoch"] = one.event.epoch.value();
  }
  if (one.event.subject != cluster::kNoNode) out["subject"] = one.event.subject.value();
  return out;
}

std::string EventText(const ClusterEvent& one) {
  const Event& event = one.event;
  std::string text = absl::StrCat(TimeText(one.unix_ns), "  node ", one.node.value(), "  ",
                                  node::EventName(event.kind));
  if (event.group != Event::kNoPlace) {
    absl::StrAppend(&text, "  group ", event.group, " shard ", event.shard, " epoch ",
                    event.epoch.value());
  }
  if (event.subject != cluster::kNoNode)
    absl::StrAppend(&text, "  of node ", event.subject.value());
  return text;
}

std::optional<std::int64_t> SinceAgreed(const FailOver& fail_over, const ShardFailOver& shard,
                                        EventKind kind) {
  const std::optional<std::int64_t>& at = shard.at[static_cast<std::size_t>(kind)];
  if (!at.has_value()) return std::nullopt;
  return *at - fail_over.agreed_ns;
}

nlohmann::json FailOverJson(const cluster::View& view, const FailOver& fail_over) {
  nlohmann::json shards = nlohmann::json::array();
  for (const ShardFailOver& shard : fail_over.shards) {
    nlohmann::json phases = nlohmann::json::object();
    for (const EventKind kind : kPhases) {
      const auto since = SinceAgreed(fail_over, shard, kind);
      if (since.has_value()) phases[std::string(node::EventName(kind))] = *since;
    }
    nlohmann::json one = NodeJson(view, shard.node);
    one["group"] = shard.group.value();
    one["shard"] = shard.shard.value();
    one["epoch"] = shard.epoch.value();
    one["since_agreed_ns"] = phases;
    shards.push_back(std::move(one));
  }
  nlohmann::json out = NodeJson(view, fail_over.subject);
  out["drained"] = fail_over.drained;
  out["agreed_unix_ns"] = fail_over.agreed_ns;
  out["shards"] = shards;
  if (fail_over.suspected_ns.has_value()) {
    out["agreement_ns"] = fail_over.agreed_ns - *fail_over.suspected_ns;
  }
  return out;
}

void PrintFailOver(const FailOver& fail_over) {
  std::printf("%s of node %u, agreed at %s", fail_over.drained ? "drain" : "failure",
              fail_over.subject.value(), TimeText(fail_over.agreed_ns).c_str());
  if (fail_over.suspected_ns.has_value()) {
    std::printf(
        ", %s after it was suspected",
        FormatNs(static_cast<double>(fail_over.agreed_ns - *fail_over.suspected_ns)).c_str());
  }
  std::printf("; from then on:\n");
  Table table({"SHARD", "EPOCH", "NODE", "BEGUN", "SEALED", "FETCHED", "RE-APPENDED", "NORMAL",
               "FIRST GET", "FIRST PUT", "VALUES", "PROTECTED"});
  for (const ShardFailOver& shard : fail_over.shards) {
    std::vector<std::string> row = {
        absl::StrCat("g", shard.group.value(), "/s", shard.shard.value()),
        absl::StrCat(shard.epoch.value()), absl::StrCat(shard.node.value())};
    for (const EventKind kind : kPhases) {
      const auto since = SinceAgreed(fail_over, shard, kind);
      row.push_back(since.has_value() ? FormatNs(static_cast<double>(*since)) : "-");
    }
    table.AddRow(row);
  }
  std::printf("%s\n", table.ToString().c_str());
}

class EventReader {
 public:
  EventReader(const Options& options, const EventOptions& events, admin::AdminClient* client)
      : options_(options), events_(events), client_(client) {}

  int Show() {
    const auto nodes = client_->GetEvents(Cursors());
    if (!nodes.ok()) return Fail(options_, In("events", nodes.status()));
    // After the events: it names every node that they are about.
    const auto view = client_->GetClusterView();
    if (!view.ok()) return Fail(options_, In("events", view.status()));
    for (const node::NodeEvents& node : *nodes) {
      node::EventCursor& seen = seen_[node.node];
      if (seen.incarnation != node.incarnation) seen = {node.node, node.incarnation, 0};
      if (!node.events.empty()) seen.number = node.events.back().number;
    }
    const std::vector<ClusterEvent> merged = node::MergeEvents(*nodes);
    if (events_.fail_overs) {
      ShowFailOvers(*view, node::FindFailOvers(merged));
    } else {
      ShowEvents(*view, merged);
    }
    return kExitOk;
  }

 private:
  std::vector<node::EventCursor> Cursors() const {
    std::vector<node::EventCursor> cursors;
    if (events_.fail_overs) return cursors;  // their parts come over time
    for (const auto& [node, cursor] : seen_) cursors.push_back(cursor);
    return cursors;
  }
  void ShowEvents(const cluster::View& view, const std::vector<ClusterEvent>& merged) const {
    if (!options_.json) {
      for (const ClusterEvent& one : merged) std::printf("%s\n", EventText(one).c_str());
      return;
    }
    nlohmann::json all = nlohmann::json::array();
    for (const ClusterEvent& one : merged) {
      if (events_.follow.on) {
        PrintJson(EventJson(view, one));
      } else {
        all.push_back(EventJson(view, one));
      }
    }
    if (!events_.follow.on) PrintJson({{"events", all}});
  }
  void ShowFailOvers(const cluster::View& view, const std::vector<FailOver>& fail_overs) const {
    nlohmann::json all = nlohmann::json::array();
    for (const FailOver& fail_over : fail_overs) {
      if (options_.json) {
        all.push_back(FailOverJson(view, fail_over));
      } else {
        PrintFailOver(fail_over);
      }
    }
    if (options_.json) PrintJson({{"fail_overs", all}});
  }

  const Options& options_;
  const EventOptions& events_;
  admin::AdminClient* client_;
  std::map<NodeId, node::EventCursor> seen_;
};

int Run(const Options& options, const EventOptions& events) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("events", client.status()));
  EventReader reader(options, events, client->get());
  return Watch(events.follow, events.fail_overs && !options.json, [&] { return reader.Show(); });
}

}  // namespace

void AddEvents(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kEventsCommand);
  const auto events = std::make_shared<EventOptions>();
  AddWatch(sub, "--follow", "Go on with what happens, until Ctrl-C; with --json, a line an event",
           &events->follow);
  sub->add_flag("--fail-overs", events->fail_overs,
                "Show each fail-over by its phases, with durations");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *events); }; });
}

}  // namespace ring::tools
