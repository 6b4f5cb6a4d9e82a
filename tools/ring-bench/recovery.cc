#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/cluster/view.h"
#include "ring/node/fail_over.h"
#include "ring/node/host.h"
#include "tools/common/progress.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {
namespace {

using node::EventKind;
using node::FailOver;
using node::ShardFailOver;

constexpr NodeId kVictim{2};
constexpr NodeId kSpare{5};
constexpr absl::Duration kReadyTimeout = absl::Seconds(60);
constexpr absl::Duration kAttempt = absl::Seconds(1);
// What is not served by then counts as never.
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kProtectedPatience = absl::Seconds(5);

struct RecoveryOptions {
  std::vector<std::string> memgests = {"REP3", "REP4", "SRS21", "SRS32"};
  std::uint64_t key_count = 1000;
  std::size_t value_size = 1024;
  int repetitions = 5;
  std::uint32_t detect_ms = 150;
};

// What a client tries again and again from the kill on, until it works.
struct Probe {
  std::string what;
  bool put = false;
  std::uint16_t space = 0;
  std::uint64_t index = 0;
  MemgestId memgest;
  bool under_way = false;
  bool done = false;
};

class RecoveryBench {
 public:
  RecoveryBench(const RecoveryOptions& options, Context* context)
      : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::Status Repeat();
  absl::Status StartCluster();
  absl::Status LoadAll();
  absl::Status AddProbes(std::uint16_t space, const protocol::MemgestDescriptor& memgest);
  void Submit(Probe* probe);
  absl::Status RunProbes();
  absl::StatusOr<FailOver> WaitFailOver();
  void RecordEvents(const FailOver& fail_over);
  absl::Status CheckAll();
  void Record(const std::string& phase, std::int64_t from_ns, std::int64_t to_ns);
  void Report();

  const RecoveryOptions& options_;
  Context* context_;
  std::unique_ptr<node::Host> host_;
  std::unique_ptr<Client> client_;
  std::deque<Probe> probes_;
  std::int64_t killed_ns_ = 0;
  std::vector<std::string> order_;  // of the phases, as they came first
  std::map<std::string, Histogram> phases_;
  std::map<std::string, int> never_;  // not served in time
  std::uint64_t checked_ = 0;
  std::uint64_t unread_ = 0;
};

void RecoveryBench::Record(const std::string& phase, std::int64_t from_ns, std::int64_t to_ns) {
  if (!phases_.contains(phase)) order_.push_back(phase);
  // Two threads' clocks may be read in either order.
  phases_[phase].Record(static_cast<std::uint64_t>(std::max<std::int64_t>(0, to_ns - from_ns)));
}

absl::Status RecoveryBench::StartCluster() {
  node::HostOptions host{.config = node::EmbeddedConfig(), .hosted = {}, .reactor_count = 1};
  host.config.control.fail_over = true;
  host.config.control.detect_ms = options_.detect_ms;
  RING_ASSIGN_OR_RETURN(host_, node::Host::Start(host));
  RING_RETURN_IF_ERROR(host_->WaitReady(kReadyTimeout));
  ClientOptions client;
  client.seeds = {host_->local_seed()};
  client.transport = Transport::kLocal;
  RING_ASSIGN_OR_RETURN(client_, Client::Connect(client));
  return absl::OkStatus();
}

absl::Status RecoveryBench::LoadAll() {
  std::uint16_t space = 0;
  for (const std::string& name : options_.memgests) {
    RING_ASSIGN_OR_RETURN(const MemgestId id, client_->ResolveMemgest(name));
    RING_RETURN_IF_ERROR(Load(client_.get(), absl::StrCat("loading ", name),
                              {.memgest = id,
                               .key_space = ++space,
                               .key_count = options_.key_count,
                               .value_size = options_.value_size,
                               .progress = false}));
    const auto view = host_->admin().GetView();
    RING_RETURN_IF_ERROR(AddProbes(space, *view->FindMemgest(id)));
  }
  return absl::OkStatus();
}

// A key to read and one to write of which the victim is the coordinator, and one to write for which
// it is a redundant node.
absl::Status RecoveryBench::AddProbes(std::uint16_t space,
                                      const protocol::MemgestDescriptor& memgest) {
  const auto view = host_->admin().GetView();
  const std::string get = absl::StrCat("killed -> first get, ", memgest.name);
  const std::string put = absl::StrCat("killed -> first put, ", memgest.name);
  const std::string other =
      absl::StrCat("killed -> first put where a redundant node is lost, ", memgest.name);
  bool has_get = false, has_put = false, has_other = false;
  for (std::uint64_t i = 0; i < options_.key_count && !(has_get && has_put && has_other); ++i) {
    RING_ASSIGN_OR_RETURN(const WhereResult where, client_->Where(KeyName(space, i).view()));
    if (where.node == kVictim) {
      if (has_get && has_put) continue;
      probes_.push_back({has_get ? put : get, has_get, space, i, memgest.id, false, false});
      has_put = has_get;
      has_get = true;
      continue;
    }
    const std::vector<Role> members = memgest.MemberRoles(where.shard, view->s, view->d);
    const std::vector<NodeId>& roles = view->groups[where.group.value()].roles;
    const bool member = std::any_of(members.begin(), members.end(),
                                    [&roles](Role role) { return roles[role.value()] == kVictim; });
    if (!member || has_other) continue;
    probes_.push_back({other, true, space, i, memgest.id, false, false});
    has_other = true;
  }
  if (has_get && has_put) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key-count=", options_.key_count, " gives the victim too few keys: have more of them"));
}

void RecoveryBench::Submit(Probe* probe) {
  const KeyName key(probe->space, probe->index);
  probe->under_way = true;
  const auto ended = [this, probe](const absl::Status& status) {
    probe->under_way = false;
    if (!status.ok() || probe->done) return;
    probe->done = true;
    Record(probe->what, killed_ns_, absl::GetCurrentTimeNanos());
  };
  if (probe->put) {
    std::string value(options_.value_size, 'v');
    FillValue(probe->index, absl::MakeSpan(value.data(), value.size()));
    PutOptions put;
    put.memgest_id = probe->memgest;
    put.deadline = kAttempt;
    client_->PutAsync(key.view(), value, put, [ended](const absl::StatusOr<WriteResult>& result) {
      ended(result.status());
    });
  } else {
    GetOptions get;
    get.deadline = kAttempt;
    client_->GetAsync(key.view(), get,
                      [ended](const absl::StatusOr<GetResult>& result) { ended(result.status()); });
  }
}

absl::Status RecoveryBench::RunProbes() {
  const absl::Time end = absl::Now() + kPatience;
  for (;;) {
    bool all = true;
    for (Probe& probe : probes_) {
      all &= probe.done;
      if (!probe.done && !probe.under_way) Submit(&probe);
    }
    if (all) return client_->Wait(kAttempt);
    if (absl::Now() > end) break;
    client_->WaitForProgress(absl::Milliseconds(1));
  }
  for (Probe& probe : probes_) {
    if (probe.done) continue;
    probe.done = true;  // whatever comes of the last attempt
    ++never_[probe.what];
    if (!phases_.contains(probe.what)) order_.push_back(probe.what);
    phases_[probe.what];
  }
  return client_->Wait(2 * kAttempt);
}

bool Has(const ShardFailOver& shard, EventKind kind) {
  return shard.at[static_cast<std::size_t>(kind)].has_value();
}

bool ValuesAreBack(const FailOver& fail_over) {
  return std::all_of(fail_over.shards.begin(), fail_over.shards.end(),
                     [](const ShardFailOver& shard) {
                       return shard.node != kSpare || Has(shard, EventKind::kValuesComplete);
                     });
}

bool IsProtected(const FailOver& fail_over) {
  return std::all_of(fail_over.shards.begin(), fail_over.shards.end(),
                     [](const ShardFailOver& shard) { return Has(shard, EventKind::kProtected); });
}

// The victim's, as far as it came.
absl::StatusOr<FailOver> RecoveryBench::WaitFailOver() {
  const absl::Time begin = absl::Now();
  for (;;) {
    RING_ASSIGN_OR_RETURN(const std::vector<node::NodeEvents> events, host_->admin().GetEvents({}));
    const std::vector<FailOver> found = node::FindFailOvers(node::MergeEvents(events));
    const bool there = !found.empty() && !found.back().shards.empty();
    const bool values = there && ValuesAreBack(found.back());
    const bool whole = there && IsProtected(found.back());
    const absl::Duration waited = absl::Now() - begin;
    if (values && (whole || waited > kProtectedPatience)) return found.back();
    if (waited > kPatience) {
      if (there) return found.back();
      return absl::DeadlineExceededError("no node told of the fail-over");
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

void RecoveryBench::RecordEvents(const FailOver& fail_over) {
  Record("killed -> failure agreed upon", killed_ns_, fail_over.agreed_ns);
  const auto record = [&](const std::string& phase, std::int64_t from_ns,
                          const ShardFailOver& shard, EventKind kind) {
    const auto& at = shard.at[static_cast<std::size_t>(kind)];
    if (at.has_value()) Record(phase, from_ns, *at);
  };
  for (const ShardFailOver& shard : fail_over.shards) {
    const std::int64_t agreed_ns = fail_over.agreed_ns;
    const bool taken_over = shard.node == kSpare;
    if (taken_over) {
      record("agreed -> metadata fetched", agreed_ns, shard, EventKind::kFetched);
      record("agreed -> lost coordinator's shard serves", agreed_ns, shard, EventKind::kNormal);
      record("killed -> all values of the shard back", killed_ns_, shard,
             EventKind::kValuesComplete);
    } else {
      record("agreed -> shard with a lost redundant node serves", agreed_ns, shard,
             EventKind::kNormal);
    }
    record("killed -> shard protected again", killed_ns_, shard, EventKind::kProtected);
  }
}

absl::Status RecoveryBench::CheckAll() {
  GetOptions get;
  get.deadline = kPatience;
  const absl::Time end = absl::Now() + kPatience;  // of all of them
  for (std::uint16_t space = 1; space <= options_.memgests.size(); ++space) {
    for (std::uint64_t i = 0; i < options_.key_count; ++i) {
      const KeyName key(space, i);
      absl::StatusOr<GetResult> got = client_->Get(key.view(), get);
      while (absl::IsUnavailable(got.status()) && absl::Now() < end)
        got = client_->Get(key.view(), get);
      if (!got.ok()) {
        ++unread_;
        continue;
      }
      if (!CheckValue(i, options_.value_size, got->value)) {
        return absl::DataLossError(absl::StrCat("memgest ", options_.memgests[space - 1],
                                                " key number ", i, " has a wrong value"));
      }
      ++checked_;
    }
  }
  return absl::OkStatus();
}

absl::Status RecoveryBench::Repeat() {
  probes_.clear();
  RING_RETURN_IF_ERROR(StartCluster());
  RING_RETURN_IF_ERROR(LoadAll());
  killed_ns_ = absl::GetCurrentTimeNanos();
  RING_RETURN_IF_ERROR(host_->Kill(kVictim));
  RING_RETURN_IF_ERROR(RunProbes());
  RING_ASSIGN_OR_RETURN(const FailOver fail_over, WaitFailOver());
  RecordEvents(fail_over);
  RING_RETURN_IF_ERROR(CheckAll());
  client_.reset();
  host_.reset();
  return absl::OkStatus();
}

void RecoveryBench::Report() {
  std::vector<Row> rows;
  for (const std::string& phase : order_) {
    const Histogram& histogram = phases_[phase];
    Row row;
    row["phase"] = phase;
    row["samples"] = histogram.count();
    row["never"] = never_.contains(phase) ? never_.at(phase) : 0;
    rows.push_back(row);
    if (histogram.count() == 0) continue;
    rows.back()["p50_ns"] = histogram.Percentile(50);
    rows.back()["p99_ns"] = histogram.Percentile(99);
    rows.back()["max_ns"] = histogram.max();
  }
  context_->report.AddSection(
      absl::StrCat("recovery of a lost node, embedded cluster, repetitions=", options_.repetitions,
                   " keys=", options_.key_count, " a memgest, value_size=", options_.value_size,
                   " detect_ms=", options_.detect_ms),
      rows);
  context_->report.AddNote(absl::StrCat("values read back and compared after the recovery: ",
                                        checked_, ", all right; not readable in time: ", unread_));
}

absl::Status RecoveryBench::Run() {
  SetMinLogSeverity(LogSeverity::kERROR);  // a node that dies is no news here
  tools::Progress bar("recovery", static_cast<std::uint64_t>(options_.repetitions),
                      context_->progress);
  for (int i = 0; i < options_.repetitions; ++i) {
    RING_RETURN_IF_ERROR(Repeat());
    bar.Advance();
  }
  bar.Finish();
  Report();
  return absl::OkStatus();
}

}  // namespace

void AddRecoveryCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<RecoveryOptions>();
  CLI::App* command = app.add_subcommand(
      "recovery", "Kills a node of an embedded cluster, and measures until everything is back");
  command->add_option("--memgest", options->memgests, "Memgests that hold values")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--key-count", options->key_count, "Keys of each memgest")
      ->check(CLI::Range(100, 10'000'000))
      ->capture_default_str();
  command->add_option("--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(8, 16 << 20))
      ->capture_default_str();
  command->add_option("--repetitions", options->repetitions, "Each with a cluster of its own")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_option("--detect-ms", options->detect_ms, "Silence after which a node is failed")
      ->check(CLI::Range(50, 60'000))
      ->capture_default_str();
  command->callback(
      [options, context] { context->status = RecoveryBench(*options, context).Run(); });
}

}  // namespace ring::bench
