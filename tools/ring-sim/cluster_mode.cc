#include "tools/ring-sim/cluster_mode.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/ring-sim/output.h"

namespace ring::tools {
namespace {

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t failed_seeds = 0;
  std::uint64_t overrun_seeds = 0;
  std::uint64_t sim_ns = 0;
  std::uint64_t events = 0;
  std::uint64_t turns = 0;
  std::uint64_t operations = 0;
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t unknown = 0;
  std::uint64_t search_keys = 0;
  std::uint64_t search_given_up = 0;
  std::uint64_t scrubs = 0;
  std::uint64_t values_scrubbed = 0;
  std::uint64_t rows_scrubbed = 0;
  std::uint64_t damage_left = 0;
  std::uint64_t damage_found = 0;
  std::uint64_t versions_kept = 0;
  std::uint64_t nic_deltas = 0;
  std::uint64_t nic_redone = 0;
  std::uint64_t trace_hash = 0;
  rdma::sim::FaultCounts faults;
  std::map<std::string, std::uint64_t> violations;

  void Add(const sim::RunResult& run) {
    ++seeds;
    failed_seeds += run.violations.empty() ? 0 : 1;
    overrun_seeds += run.overran ? 1 : 0;
    sim_ns += run.sim_ns;
    events += run.events;
    turns += run.turns;
    operations += run.operations;
    answered += run.answered;
    failed += run.failed;
    unknown += run.unknown;
    search_keys += run.search_keys;
    search_given_up += run.search_given_up;
    scrubs += run.scrubs;
    values_scrubbed += run.values_scrubbed;
    rows_scrubbed += run.rows_scrubbed;
    damage_left += run.damage_left;
    damage_found += run.damage_found;
    versions_kept += run.versions_kept;
    nic_deltas += run.nic_deltas;
    nic_redone += run.nic_redone;
    trace_hash = trace_hash * 0x100000001b3 ^ run.trace_hash;
    faults.Add(run.faults);
    for (const sim::Violation& violation : run.violations) ++violations[violation.kind];
  }
};

nlohmann::ordered_json ToJson(const Totals& totals, double wall_seconds) {
  nlohmann::ordered_json json;
  json["seeds"] = totals.seeds;
  json["failed_seeds"] = totals.failed_seeds;
  json["simulated_seconds"] = static_cast<double>(totals.sim_ns) / 1e9;
  json["wall_seconds"] = wall_seconds;
  json["events"] = totals.events;
  json["turns"] = totals.turns;
  json["operations"] = totals.operations;
  json["answered"] = totals.answered;
  json["refused"] = totals.failed;
  json["unknown"] = totals.unknown;
  json["keys_searched"] = totals.search_keys;
  json["keys_given_up"] = totals.search_given_up;
  json["overrun_seeds"] = totals.overrun_seeds;
  json["scrubs"] = totals.scrubs;
  json["values_scrubbed"] = totals.values_scrubbed;
  json["rows_scrubbed"] = totals.rows_scrubbed;
  json["damage_left"] = totals.damage_left;
  json["damage_found"] = totals.damage_found;
  json["versions_kept"] = totals.versions_kept;
  json["nic_deltas"] = totals.nic_deltas;
  json["nic_deltas_redone"] = totals.nic_redone;
  for (std::size_t i = 1; i < rdma::sim::kFaultClassCount; ++i)
    json["faults"]["F" + std::to_string(i)] = totals.faults.by_class[i];
  for (const auto& [kind, count] : totals.faults.by_kind) json["fault_kinds"][kind] = count;
  json["violations"] = nlohmann::ordered_json::object();
  for (const auto& [kind, count] : totals.violations) json["violations"][kind] = count;
  char hash[32];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(totals.trace_hash));
  json["trace_hash"] = hash;
  return json;
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
    std::printf(
        "seed=%llu hash=%016llx sim_ms=%llu operations=%llu events=%llu turns=%llu scrubs=%llu\n",
        static_cast<unsigned long long>(seed), static_cast<unsigned long long>(run.trace_hash),
        static_cast<unsigned long long>(run.sim_ns / 1'000'000),
        static_cast<unsigned long long>(run.operations),
        static_cast<unsigned long long>(run.events), static_cast<unsigned long long>(run.turns),
        static_cast<unsigned long long>(run.scrubs));
    if (mode.verbose) {
      for (const std::string& line : run.story)
        std::printf("seed=%llu %s\n", static_cast<unsigned long long>(seed), line.c_str());
    }
    for (const sim::Violation& violation : run.violations) {
      std::printf("seed=%llu %s: %s\n", static_cast<unsigned long long>(seed),
                  violation.kind.c_str(), violation.detail.c_str());
    }
    std::fflush(stdout);
  }
  const double wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const std::string summary = ToJson(totals, wall_seconds).dump(2);
  std::printf("%s\n", summary.c_str());
  if (!WriteText(mode.json, summary + "\n")) return 2;
  return totals.failed_seeds == 0 ? 0 : 1;
}

}  // namespace ring::tools
