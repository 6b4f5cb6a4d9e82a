// Which rules have no bug switch, with the reason or without one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/ring-sim/mutant_cases.h"

namespace ring::tools {
namespace {

constexpr RuleWithout kRulesWithout[] = {
    {"L11", "it asks for a warning and protects nothing: HealthWarnings.L11..., NodeConfig.L11..."},
    {"E2", "it asks for steps 5 and 6 before anything is served: their switches break it"},
};

struct Section {
  const char* prefix;
  int count;
};
constexpr Section kSections[] = {{"V", 10}, {"G", 11}, {"L", 11}, {"step", 7},
                                 {"E", 9},  {"S", 14}, {"X", 7}};

}  // namespace

absl::Span<const RuleWithout> RulesWithout() { return kRulesWithout; }

std::string RuleOf(const MutantCase& mutant) {
  const std::string id = mutant.id;
  return id.substr(0, id.find_first_of("-+"));
}

std::string RulesForgotten() {
  const absl::Span<const MutantCase> cases = MutantCases();
  std::string forgotten;
  for (const Section& section : kSections) {
    for (int i = 1; i <= section.count; ++i) {
      const std::string rule = absl::StrCat(section.prefix, i);
      const bool has = std::any_of(cases.begin(), cases.end(),
                                   [&](const MutantCase& one) { return RuleOf(one) == rule; });
      const bool excused = std::any_of(std::begin(kRulesWithout), std::end(kRulesWithout),
                                       [&](const RuleWithout& one) { return one.rule == rule; });
      if (!has && !excused) absl::StrAppend(&forgotten, forgotten.empty() ? "" : ", ", rule);
    }
  }
  return forgotten;
}

}  // namespace ring::tools
