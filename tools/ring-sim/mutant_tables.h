// tools/ring-sim/mutant_tables.h — the parts of the table of bug switches.
//
// What:      What rows are made of, and the rows by what their rules are about: versions, memgests,
//            fences and epochs; blocks, values and requests.
// Threads:   any.
// Errors:    none.
#ifndef RING_TOOLS_RING_SIM_MUTANT_TABLES_H_
#define RING_TOOLS_RING_SIM_MUTANT_TABLES_H_

#include "tools/ring-sim/mutant_cases.h"

namespace ring::tools {

inline constexpr InClusters kControl = {InClusters::Kind::kControl};
inline constexpr InClusters kNotRun = {InClusters::Kind::kNotRun};
constexpr InClusters KilledBy(unsigned seed, const char* workload = "") {
  return {InClusters::Kind::kKilled, seed, workload};
}
constexpr InClusters Survives(unsigned seeds) { return {InClusters::Kind::kSurvives, seeds}; }

// Why a switch of the software NIC has a directed scenario alone.
inline constexpr char kOtherDevice[] = "clusters run on the simulated fabric, not on this device";

absl::Span<const MutantCase> MutantCasesOfVersionsAndEpochs();  // controls, V, G, L, E, steps
absl::Span<const MutantCase> MutantCasesOfValues();             // S, X, F

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_MUTANT_TABLES_H_
