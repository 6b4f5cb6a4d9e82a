#include "tools/ring-sim/consensus_mode.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "ring/node/config/control_config.h"
#include "tests/consensus/sim/world.h"
#include "tools/ring-sim/output.h"

namespace ring::tools {
namespace {

using consensus::sim::Fault;
using consensus::sim::kFaultCount;
using consensus::sim::Result;

// What is counted of every seed, by its name in the summary.
struct Count {
  const char* name;
  std::uint64_t Result::*field;
};

constexpr Count kCounts[] = {
    {"simulated_ticks", &Result::ticks}, {"steps_checked", &Result::steps},
    {"messages", &Result::messages},     {"committed", &Result::committed},
    {"reads", &Result::reads},           {"elections", &Result::elections},
};

// A violation says what it is of, ": ", and where.
std::string KindOf(const std::string& violation) {
  return violation.substr(0, violation.find(": "));
}

struct Totals {
  SummaryHead head;
  Result sum;

  void Add(const Result& result) {
    ++head.seeds;
    if (!result.violation.empty()) {
      ++head.failed_seeds;
      ++head.violations[KindOf(result.violation)];
    }
    head.trace_hash = consensus::sim::Mix(head.trace_hash, result.trace_hash);
    for (const Count& count : kCounts) sum.*count.field += result.*count.field;
    for (std::size_t i = 0; i < kFaultCount; ++i) sum.faults[i] += result.faults[i];
  }
};

nlohmann::ordered_json ToJson(Totals totals, double wall_seconds) {
  // As long as a node's ticks are by default.
  totals.head.simulated_seconds = static_cast<double>(totals.sum.ticks) *
                                  static_cast<double>(node::ControlConfig().TickNs()) / 1e9;
  totals.head.wall_seconds = wall_seconds;
  nlohmann::ordered_json json = SummaryJson(totals.head);
  for (const Count& count : kCounts) json[count.name] = totals.sum.*count.field;
  for (std::size_t i = 0; i < kFaultCount; ++i) {
    json["faults"][consensus::sim::NameOf(static_cast<Fault>(i))] = totals.sum.faults[i];
  }
  return json;
}

}  // namespace

int RunConsensus(const ConsensusMode& mode) {
  std::FILE* const trace = Open(mode.trace);
  if (trace == nullptr && !mode.trace.empty()) return 2;
  const auto start = std::chrono::steady_clock::now();
  Totals totals;
  for (std::uint64_t seed = mode.first; seed <= mode.last; ++seed) {
    const Result result = consensus::sim::RunSeed(seed, {}, seed == mode.first ? trace : nullptr);
    totals.Add(result);
    if (!result.violation.empty()) {
      std::printf("seed=%llu: %s\n", static_cast<unsigned long long>(seed),
                  result.violation.c_str());
    }
  }
  if (trace != nullptr && !Close(trace, mode.trace)) return 2;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const std::string summary = ToJson(totals, wall.count()).dump(2) + "\n";
  std::printf("%s", summary.c_str());
  if (!WriteText(mode.json, summary)) return 2;
  return totals.head.failed_seeds == 0 ? 0 : 1;
}

}  // namespace ring::tools
