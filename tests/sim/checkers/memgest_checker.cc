#include "tests/sim/checkers/memgest_checker.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

using ByVersion = std::map<std::uint64_t, const Operation*>;

// Of the versions below `at`, newest first: those that nothing above them lets go (G1).
std::vector<const Operation*> KeptBelow(const ByVersion& made, ByVersion::const_iterator at) {
  std::vector<const Operation*> kept;
  int strength = at->second->tolerates;
  bool explicit_move = at->second->kind == OpKind::kMove;
  while (at != made.begin()) {
    --at;
    const Operation& op = *at->second;
    if (op.kind == OpKind::kDelete) break;  // lets all below it go, and then goes itself (G5)
    const bool dominated = strength >= 1 || strength >= op.tolerates || explicit_move;
    if (!dominated) kept.push_back(&op);
    strength = std::max(strength, op.tolerates);
    explicit_move |= op.kind == OpKind::kMove;
  }
  return kept;
}

}  // namespace

std::vector<Violation> CheckMemgests(const History& history,
                                     const std::function<bool(int key)>& skip, KeptVersions* kept) {
  std::vector<Violation> violations;
  std::map<int, ByVersion> by_key;
  std::set<int> doubtful;
  for (const Operation& op : history.operations()) {
    if (!op.mutates() || skip(op.key)) continue;
    const bool answered = op.result == OpResult::kOk;
    if (op.MayApply() && (!answered || op.tolerates < 0 || op.version.bits() == 0))
      doubtful.insert(op.key);
    // A move that made nothing has the version of another operation.
    if (!answered) continue;
    const auto [it, fresh] = by_key[op.key].emplace(op.version.bits(), &op);
    if (!fresh && it->second->kind == OpKind::kMove) it->second = &op;
  }
  for (const auto& [key, made] : by_key) {
    if (doubtful.contains(key)) continue;
    for (auto at = made.begin(); at != made.end(); ++at) {
      const Operation& op = *at->second;
      if (at == made.begin()) continue;
      const Operation& below = *std::prev(at)->second;
      if (op.kind == OpKind::kMove && below.kind != OpKind::kDelete &&
          below.memgest == op.memgest) {
        violations.push_back(
            {"memgest", absl::StrCat("G9: made a version where the key was: ", Describe(op))});
      }
      if (op.kind != OpKind::kDelete) continue;
      // The version below is there in any case when the tombstone is made.
      std::vector<const Operation*> outlived = KeptBelow(made, std::prev(at));
      if (below.kind != OpKind::kDelete) outlived.push_back(&below);
      for (const Operation* other : outlived) {
        if (other->tolerates <= op.tolerates) continue;
        violations.push_back({"memgest", absl::StrCat("G4: the tombstone is weaker than what it "
                                                      "hides: ",
                                                      Describe(op), " hides ", Describe(*other))});
      }
    }
    for (const Operation* op : KeptBelow(made, std::prev(made.end())))
      (*kept)[key].push_back(op->version);
  }
  return violations;
}

}  // namespace ring::sim
