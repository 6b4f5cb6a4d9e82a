#include "tests/sim/checkers/resurrection_checker.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

// The rules let go of what the operation wrote before this one was answered.
bool VanishedBefore(const History& history, const Operation& written, const Operation& read) {
  const std::vector<Loss>& losses = history.losses();
  return std::any_of(losses.begin(), losses.end(), [&](const Loss& loss) {
    return loss.time_ns <= read.return_ns && written.version.epoch() < loss.epoch &&
           (loss.everything || written.tolerates == 0) &&
           std::find(loss.keys.begin(), loss.keys.end(), written.key) != loss.keys.end();
  });
}

}  // namespace

std::vector<Violation> CheckResurrection(const History& history) {
  std::vector<Violation> violations;
  std::map<ValueId, const Operation*> puts;
  std::map<int, std::vector<const Operation*>> replacements;  // by key: answered puts and deletes
  for (const Operation& op : history.operations()) {
    if (op.kind == OpKind::kPut) puts[op.value] = &op;
    const bool replaces = op.kind == OpKind::kPut || op.kind == OpKind::kDelete;
    if (replaces && op.result == OpResult::kOk) replacements[op.key].push_back(&op);
  }
  for (const Operation& op : history.operations()) {
    if (op.kind != OpKind::kGet || op.result != OpResult::kOk) continue;
    const auto put = puts.find(op.value);
    if (put == puts.end() || put->second->result != OpResult::kOk) continue;
    const std::vector<const Operation*>& others = replacements[op.key];
    const auto replaced = std::find_if(others.begin(), others.end(), [&](const Operation* other) {
      return other != put->second && other->invoke_ns > put->second->return_ns &&
             other->return_ns < op.invoke_ns && !VanishedBefore(history, *other, op);
    });
    if (replaced == others.end()) continue;
    violations.push_back({"resurrection", absl::StrCat(Describe(op), " was replaced before by ",
                                                       Describe(**replaced))});
  }
  return violations;
}

}  // namespace ring::sim
