#include "tools/ring-sim/consensus_mode.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/consensus/sim/world.h"
#include "tools/ring-sim/output.h"

namespace ring::tools {
namespace {

using consensus::sim::Fault;
using consensus::sim::kFaultCount;
using consensus::sim::Result;

constexpr double kTicksPerHour = 3600.0 * 1000 / 25;  // at a heartbeat of 2 ticks, 50 ms

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

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t violations = 0;
  Result sum;

  void Add(const Result& result) {
    ++seeds;
    violations += result.violation.empty() ? 0 : 1;
    sum.trace_hash = consensus::sim::Mix(sum.trace_hash, result.trace_hash);
    for (const Count& count : kCounts) sum.*count.field += result.*count.field;
    for (std::size_t i = 0; i < kFaultCount; ++i) sum.faults[i] += result.faults[i];
  }
};

nlohmann::ordered_json ToJson(const Totals& totals) {
  nlohmann::ordered_json json;
  json["seeds"] = totals.seeds;
  json["violations"] = totals.violations;
  json["trace_hash"] = totals.sum.trace_hash;
  json["simulated_hours"] = static_cast<double>(totals.sum.ticks) / kTicksPerHour;
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
  const std::string summary = ToJson(totals).dump(2) + "\n";
  std::printf("%s", summary.c_str());
  if (!WriteText(mode.json, summary)) return 2;
  return totals.violations == 0 ? 0 : 1;
}

}  // namespace ring::tools
