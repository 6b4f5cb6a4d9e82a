#include "tests/sim/checkers/exactly_once_checker.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

struct Put {
  const Operation* op = nullptr;
  std::set<std::uint64_t> seen;  // the versions that its value was read with
};
struct Moves {
  std::set<std::uint64_t> made;
  std::uint64_t open = 0;  // that may have made a version nobody told of
};

}  // namespace

std::vector<Violation> CheckExactlyOnce(const History& history, const LossModel& losses) {
  std::vector<Violation> violations;
  const auto complain = [&](const Operation& op, absl::string_view why) {
    constexpr std::size_t kEnough = 20;
    if (violations.size() < kEnough)
      violations.push_back({"exactly-once", absl::StrCat(why, ": ", Describe(op))});
  };
  std::map<ValueId, Put> puts;
  std::map<int, Moves> moves;
  std::set<std::pair<int, std::uint64_t>> written;
  for (const Operation& op : history.operations()) {
    if (op.kind == OpKind::kPut) puts[op.value].op = &op;
    const bool made = op.result == OpResult::kOk && op.version.bits() != 0;
    if (made && (op.kind == OpKind::kPut || op.kind == OpKind::kDelete))
      written.emplace(op.key, op.version.bits());
    if (op.kind != OpKind::kMove) continue;
    if (made) {
      moves[op.key].made.insert(op.version.bits());
    } else if (op.MayApply()) {
      ++moves[op.key].open;
    }
  }
  for (auto& [key, moved] : moves) {  // G9: no version of its own
    std::erase_if(moved.made, [&written, key = key](std::uint64_t version) {
      return written.contains({key, version});
    });
  }
  std::set<std::pair<int, std::uint64_t>> foreign;
  for (const Operation& op : history.operations()) {
    if (op.kind != OpKind::kGet || op.result != OpResult::kOk || op.version.bits() == 0) continue;
    const auto put = puts.find(op.value);
    if (put != puts.end() && put->second.op->key == op.key) {
      put->second.seen.insert(op.version.bits());
    } else if (foreign.emplace(op.key, op.version.bits()).second) {
      violations.push_back(
          {"wrong-value", absl::StrCat("key=", KeyName(op.key), " version=", ToString(op.version),
                                       " has value ", op.value, ", which nobody put there")});
    }
  }
  for (const auto& [value, put] : puts) {
    const Operation& op = *put.op;
    if (op.result == OpResult::kFailed && !put.seen.empty()) {
      complain(op, "X5: failed, and was read all the same");
      continue;
    }
    const Moves& moved = moves[op.key];
    std::uint64_t others = 0;
    for (const std::uint64_t version : put.seen) {
      const bool own = op.version.bits() == version;
      const bool vanished = losses.of(op.key) && Version(version).epoch() < losses.before(op.key);
      const bool by_move = moved.made.contains(version);
      if (!own && !vanished && !by_move) ++others;
    }
    const std::uint64_t unexplained = op.version.bits() == 0 ? 1 : 0;
    if (others > moved.open + unexplained) complain(op, "X1: read with versions that nobody made");
    for (const std::uint64_t version : put.seen) {
      if (version < op.version.bits() && !losses.of(op.key))
        complain(op, "X1: read with a version before its own");
    }
  }
  return violations;
}

}  // namespace ring::sim
