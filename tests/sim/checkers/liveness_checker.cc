#include "tests/sim/checkers/liveness_checker.h"

#include "absl/strings/str_cat.h"

namespace ring::sim {

std::vector<Violation> CheckLiveness(const History& history,
                                     const std::function<bool(int process)>& crashed) {
  std::vector<Violation> violations;
  for (const Operation& op : history.operations()) {
    if (op.result == OpResult::kPending && !crashed(op.process))
      violations.push_back({"liveness", absl::StrCat("never ended: ", Describe(op))});
  }
  return violations;
}

}  // namespace ring::sim
