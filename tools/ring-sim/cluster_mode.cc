#include "tools/ring-sim/cluster_mode.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/ring-sim/output.h"

namespace ring::tools {
namespace {

// What is counted of every seed: the names in the summary, and whether a seed's line has it, too.
struct Count {
  const char* name;
  std::uint64_t sim::RunResult::*field;
  bool of_each = false;
};

constexpr Count kCounts[] = {
    {"operations", &sim::RunResult::operations, true},
    {"events", &sim::RunResult::events, true},
    {"turns", &sim::RunResult::turns, true},
    {"answered", &sim::RunResult::answered},
    {"refused", &sim::RunResult::failed},
    {"unknown", &sim::RunResult::unknown},
    {"keys_searched", &sim::RunResult::search_keys},
    {"keys_given_up", &sim::RunResult::search_given_up},
    {"scrubs", &sim::RunResult::scrubs, true},
    {"values_scrubbed", &sim::RunResult::values_scrubbed},
    {"rows_scrubbed", &sim::RunResult::rows_scrubbed},
    {"damage_left", &sim::RunResult::damage_left},
    {"damage_found", &sim::RunResult::damage_found},
    {"lines_compared", &sim::RunResult::lines_compared},
    {"records_compared", &sim::RunResult::records_compared},
    {"versions_kept", &sim::RunResult::versions_kept},
    {"nic_deltas", &sim::RunResult::nic_deltas},
    {"nic_deltas_redone", &sim::RunResult::nic_redone},
    {"degraded_gets", &sim::RunResult::degraded_gets},
};

struct Totals {
  SummaryHead head;
  std::uint64_t overrun_seeds = 0;
  sim::RunResult sum;  // of kCounts, sim_ns and faults

  void Add(const sim::RunResult& run) {
    ++head.seeds;
    head.failed_seeds += run.violations.empty() ? 0 : 1;
    overrun_seeds += run.overran ? 1 : 0;
    for (const Count& count : kCounts) sum.*count.field += run.*count.field;
    sum.sim_ns += run.sim_ns;
    head.trace_hash = head.trace_hash * 0x100000001b3 ^ run.trace_hash;
    sum.faults.Add(run.faults);
    for (const sim::Violation& violation : run.violations) ++head.violations[violation.kind];
  }
};

nlohmann::ordered_json ToJson(Totals totals, double wall_seconds) {
  totals.head.simulated_seconds = static_cast<double>(totals.sum.sim_ns) / 1e9;
  totals.head.wall_seconds = wall_seconds;
  nlohmann::ordered_json json = SummaryJson(totals.head);
  json["overrun_seeds"] = totals.overrun_seeds;
  for (const Count& count : kCounts) json[count.name] = totals.sum.*count.field;
  for (std::size_t i = 1; i < rdma::sim::kFaultClassCount; ++i)
    json["faults"]["F" + std::to_string(i)] = totals.sum.faults.by_class[i];
  for (const auto& [kind, count] : totals.sum.faults.by_kind) json["fault_kinds"][kind] = count;
  return json;
}

void PrintRun(const sim::RunResult& run, bool verbose) {
  std::string line = absl::StrCat("seed=", run.seed, " hash=", HashText(run.trace_hash),
                                  " sim_ms=", run.sim_ns / 1'000'000);
  for (const Count& count : kCounts) {
    if (count.of_each) absl::StrAppend(&line, " ", count.name, "=", run.*count.field);
  }
  std::printf("%s\n", line.c_str());
  if (verbose) {
    for (const std::string& text : run.story)
      std::printf("seed=%llu %s\n", static_cast<unsigned long long>(run.seed), text.c_str());
  }
  for (const sim::Violation& violation : run.violations) {
    std::printf("seed=%llu %s: %s\n", static_cast<unsigned long long>(run.seed),
                violation.kind.c_str(), violation.detail.c_str());
  }
  std::fflush(stdout);
}

// One file a seed: "runs.jsonl" becomes "runs.17.jsonl", unless there is only one.
std::string HistoryName(const ClusterMode& mode, std::uint64_t seed) {
  if (mode.history.empty() || mode.first == mode.last) return mode.history;
  const std::size_t slash = mode.history.rfind('/');
  const std::size_t dot = mode.history.rfind('.');
  const bool suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  const std::size_t at = suffix ? dot : mode.history.size();
  return mode.history.substr(0, at) + "." + std::to_string(seed) + mode.history.substr(at);
}

}  // namespace

int RunClusters(const ClusterMode& mode) {
  const auto started = std::chrono::steady_clock::now();
  Totals totals;
  for (std::uint64_t seed = mode.first; seed <= mode.last; ++seed) {
    sim::RunOptions options = mode.run;
    options.seed = seed;
    const std::string history = HistoryName(mode, seed);
    const std::string losses = history.empty() ? "" : history + ".losses";
    options.history_file = Open(history);
    options.losses_file = Open(losses);
    if (!history.empty() && (options.history_file == nullptr || options.losses_file == nullptr))
      return 2;
    options.trace_file = mode.trace && seed == mode.first ? stdout : nullptr;
    const sim::RunResult run = sim::RunSeed(options);
    for (const auto& [file, name] :
         {std::pair(options.history_file, history), std::pair(options.losses_file, losses)}) {
      if (file != nullptr && !Close(file, name)) return 2;
    }
    totals.Add(run);
    PrintRun(run, mode.verbose);
  }
  const double wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::string summary = ToJson(totals, wall_seconds).dump(2);
  std::printf("%s\n", summary.c_str());
  if (!WriteText(mode.json, summary + "\n")) return 2;
  return totals.head.failed_seeds == 0 ? 0 : 1;
}

}  // namespace ring::tools
