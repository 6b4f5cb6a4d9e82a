#include "tests/sim/checkers/durability_checker.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

// A delete of the key that is, or may be, newer than the version.
bool DeleteMayStandAbove(const History& history, const Operation& written) {
  return std::any_of(
      history.operations().begin(), history.operations().end(), [&](const Operation& op) {
        const bool newer =
            op.result != OpResult::kOk || op.version.bits() == 0 || op.version > written.version;
        return op.kind == OpKind::kDelete && op.key == written.key && op.MayApply() && newer;
      });
}

// A move to a memgest of f = 0 lets go of all below it (G1).
bool MayBeLetGo(const History& history, const Operation& written) {
  return std::any_of(
      history.operations().begin(), history.operations().end(), [&](const Operation& op) {
        return op.kind == OpKind::kMove && op.key == written.key && op.MayApply() &&
               op.tolerates == 0 && (op.version.bits() == 0 || op.version > written.version);
      });
}

// E8: by who accepted what its shard lost.
bool WasGivenUp(const History& history, const Operation& written) {
  return std::any_of(history.losses().begin(), history.losses().end(), [&](const Loss& loss) {
    return loss.everything && written.version.epoch() < loss.epoch &&
           std::find(loss.keys.begin(), loss.keys.end(), written.key) != loss.keys.end();
  });
}

}  // namespace

std::vector<Violation> CheckDurability(const History& history, std::size_t first_read,
                                       const std::function<bool(int key)>& may_have_lost) {
  std::vector<Violation> violations;
  std::map<int, const Operation*> newest;
  const std::vector<Operation>& operations = history.operations();
  for (std::size_t i = 0; i < std::min(first_read, operations.size()); ++i) {
    const Operation& op = operations[i];
    const bool acknowledged =
        op.mutates() && op.result == OpResult::kOk && op.version.bits() != 0 && op.tolerates >= 1;
    if (!acknowledged) continue;
    const Operation*& known = newest[op.key];
    if (known == nullptr || op.version > known->version) known = &op;
  }
  for (std::size_t i = first_read; i < operations.size(); ++i) {
    const Operation& read = operations[i];
    const auto written = newest.find(read.key);
    if (read.kind != OpKind::kGet || written == newest.end()) continue;
    const Operation& owed = *written->second;
    if (may_have_lost(read.key) && MayBeLetGo(history, owed)) continue;
    if (WasGivenUp(history, owed)) continue;
    const bool gone = read.result == OpResult::kNotFound && owed.kind != OpKind::kDelete &&
                      !DeleteMayStandAbove(history, owed);
    const bool older = read.result == OpResult::kOk && read.version < owed.version;
    if (gone || older) {
      violations.push_back({"durability", absl::StrCat("I2: acknowledged, and lost: ",
                                                       Describe(owed), "; ", Describe(read))});
    }
  }
  return violations;
}

}  // namespace ring::sim
