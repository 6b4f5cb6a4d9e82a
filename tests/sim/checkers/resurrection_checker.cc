#include "tests/sim/checkers/resurrection_checker.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace ring::sim {

std::vector<Violation> CheckResurrection(const History& history,
                                         const std::function<bool(int key)>& may_have_lost) {
  std::vector<Violation> violations;
  std::map<ValueId, const Operation*> puts;
  std::map<int, std::vector<const Operation*>> replacements;  // by key: answered puts and deletes
  for (const Operation& op : history.operations()) {
    if (op.kind == OpKind::kPut) puts[op.value] = &op;
    const bool replaces = op.kind == OpKind::kPut || op.kind == OpKind::kDelete;
    const bool vanished = op.tolerates == 0 && may_have_lost(op.key);
    if (replaces && op.result == OpResult::kOk && !vanished) replacements[op.key].push_back(&op);
  }
  for (const Operation& op : history.operations()) {
    if (op.kind != OpKind::kGet || op.result != OpResult::kOk) continue;
    const auto put = puts.find(op.value);
    if (put == puts.end() || put->second->result != OpResult::kOk) continue;
    const std::vector<const Operation*>& others = replacements[op.key];
    const auto replaced = std::find_if(others.begin(), others.end(), [&](const Operation* other) {
      return other != put->second && other->invoke_ns > put->second->return_ns &&
             other->return_ns < op.invoke_ns;
    });
    if (replaced == others.end()) continue;
    violations.push_back({"resurrection", absl::StrCat(Describe(op), " was replaced before by ",
                                                       Describe(**replaced))});
  }
  return violations;
}

}  // namespace ring::sim
