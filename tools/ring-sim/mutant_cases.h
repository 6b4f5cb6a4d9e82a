// tools/ring-sim/mutant_cases.h — every bug switch, what it breaks, and what notices it.
//
// What:      MutantCases() has one row for each switch of the product code (tools/check compares
//            the two), and some for pairs of switches that stand in for each other.
//            RulesWithout() names the rules of the store that no switch can break, and why.
// Shape:     an id is the rule, or the rule and a word: "G2", "S6-late"; a pair is "A+B".
// Threads:   any.
// Errors:    none: what the table lacks is named by RulesForgotten and tools/check.
// Source:    docs/RULES.md.
#ifndef RING_TOOLS_RING_SIM_MUTANT_CASES_H_
#define RING_TOOLS_RING_SIM_MUTANT_CASES_H_

#include <string>

#include "absl/types/span.h"

namespace ring::tools {

// What becomes of it in whole clusters from seeds.
struct InClusters {
  enum class Kind {
    kKilled,
    kControl,   // it breaks nothing, and has to survive
    kSurvives,  // MutantCase::why: the scenario alone stands for it
    kNotRun,    // MutantCase::why: no cluster comes there
  };
  Kind kind = Kind::kNotRun;
  // The one that noticed it, or how many did not, when that was last tried. Every change of what
  // clusters do makes other clusters of the seeds.
  unsigned seeds = 0;
  // Of directed_workloads.h, which these seeds were run with; empty: none.
  const char* workload = "";
};

struct MutantCase {
  const char* id;
  const char* what;  // the switch does
  InClusters clusters;
  // The directed scenario, "folder/program:Suite.Test": it passes, and fails with the switch on.
  const char* scenario = "";
  const char* why = "";
};

struct RuleWithout {
  const char* rule;
  const char* why;
};

absl::Span<const MutantCase> MutantCases();
absl::Span<const RuleWithout> RulesWithout();

// "S6-late" is one of "S6".
std::string RuleOf(const MutantCase& mutant);

// Of the rules of the store, those that have neither a switch nor a reason.
std::string RulesForgotten();

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_MUTANT_CASES_H_
