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

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t violations = 0;
  Result sum;

  void Add(const Result& result) {
    ++seeds;
    violations += result.violation.empty() ? 0 : 1;
    sum.trace_hash = consensus::sim::Mix(sum.trace_hash, result.trace_hash);
    sum.ticks += result.ticks;
    sum.steps += result.steps;
    sum.messages += result.messages;
    sum.committed += result.committed;
    sum.reads += result.reads;
    sum.elections += result.elections;
    for (std::size_t i = 0; i < kFaultCount; ++i) sum.faults[i] += result.faults[i];
  }
};

nlohmann::ordered_json ToJson(const Totals& totals) {
  nlohmann::ordered_json json;
  json["seeds"] = totals.seeds;
  json["violations"] = totals.violations;
  json["trace_hash"] = totals.sum.trace_hash;
  json["simulated_ticks"] = totals.sum.ticks;
  json["simulated_hours"] = static_cast<double>(totals.sum.ticks) / kTicksPerHour;
  json["steps_checked"] = totals.sum.steps;
  json["messages"] = totals.sum.messages;
  json["committed"] = totals.sum.committed;
  json["reads"] = totals.sum.reads;
  json["elections"] = totals.sum.elections;
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
