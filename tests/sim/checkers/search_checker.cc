#include "tests/sim/checkers/search_checker.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// One operation as the search sees it: value 0 is "no value".
struct Call {
  OpKind kind;
  ValueId value = 0;  // written, or read
  bool not_found = false;
  bool optional = false;  // may not have happened
  bool creates = false;   // a put, if there is nothing
  bool exists = false;    // the answer says only that there is something
  std::uint64_t invoke_ns = 0;
  std::uint64_t return_ns = kNever;
  const Operation* op = nullptr;
};

// The value after the call, if its answer is right when the key has `state`.
bool Apply(const Call& call, ValueId state, ValueId* after) {
  *after = state;
  switch (call.kind) {
    case OpKind::kGet:
      if (call.exists) return state != 0;
      return call.not_found ? state == 0 : state == call.value;
    case OpKind::kPut:
      *after = call.value;
      return !call.creates || state == 0;
    case OpKind::kDelete:
      *after = 0;
      return call.optional || (call.not_found ? state == 0 : state != 0);
    case OpKind::kMove:
      return call.optional || (call.not_found ? state == 0 : state != 0);
  }
  return false;
}

class Search {
 public:
  Search(std::vector<Call> calls, std::uint64_t step_max)
      : calls_(std::move(calls)), step_max_(step_max), done_(calls_.size(), '\0') {
    for (const Call& call : calls_) required_ += call.return_ns != kNever ? 1 : 0;
  }

  enum class Verdict { kFound, kNone, kGivenUp };
  Verdict Run() {
    const bool found = Descend();
    if (steps_ > step_max_) return Verdict::kGivenUp;
    return found ? Verdict::kFound : Verdict::kNone;
  }
  std::uint64_t steps() const { return steps_; }
  // The last answered call that fits in the best order that was found.
  std::size_t deepest() const { return deepest_; }

 private:
  struct Frame {
    ValueId state = 0;
    std::size_t next = 0;        // the call to try next
    std::size_t taken = 0;       // the call that led here, + 1
    std::uint64_t limit_ns = 0;  // calls that began later cannot be next
  };

  // The first answer that is still to be explained: what began after it cannot come before it.
  std::uint64_t Limit() const {
    std::uint64_t limit_ns = kNever;
    for (std::size_t i = 0; i < calls_.size() && calls_[i].invoke_ns <= limit_ns; ++i) {
      if (done_[i] == '\0') limit_ns = std::min(limit_ns, calls_[i].return_ns);
    }
    return limit_ns;
  }
  bool Descend() {
    std::vector<Frame> stack;
    stack.push_back({.state = 0, .next = 0, .taken = 0, .limit_ns = Limit()});
    std::size_t finished = 0;
    while (!stack.empty()) {
      if (finished == required_) return true;
      if (++steps_ > step_max_) return false;
      Frame& frame = stack.back();
      std::size_t i = frame.next;
      ValueId after = 0;
      while (i < calls_.size() && calls_[i].invoke_ns <= frame.limit_ns &&
             (done_[i] != '\0' || !Apply(calls_[i], frame.state, &after)))
        ++i;
      if (i == calls_.size() || calls_[i].invoke_ns > frame.limit_ns) {
        const std::size_t taken = frame.taken;
        stack.pop_back();
        if (taken == 0) break;
        done_[taken - 1] = '\0';
        finished -= calls_[taken - 1].return_ns != kNever ? 1 : 0;
        continue;
      }
      frame.next = i + 1;
      done_[i] = '\1';
      if (!seen_.emplace(absl::StrCat(done_, "/", after)).second) {
        done_[i] = '\0';
        continue;
      }
      finished += calls_[i].return_ns != kNever ? 1 : 0;
      deepest_ = std::max(deepest_, finished);
      stack.push_back({.state = after, .next = 0, .taken = i + 1, .limit_ns = Limit()});
    }
    return finished == required_;
  }

  std::vector<Call> calls_;  // by invocation
  std::uint64_t step_max_;
  std::string done_;
  std::size_t required_ = 0;
  std::size_t deepest_ = 0;
  std::uint64_t steps_ = 0;
  absl::flat_hash_set<std::string> seen_;
};

// What counts: answers that say something of the value, and writes that may have happened.
bool ToCall(const Operation& op, Call* call) {
  call->kind = op.kind;
  call->value = op.value;
  call->invoke_ns = op.invoke_ns;
  call->op = &op;
  call->not_found = op.result == OpResult::kNotFound;
  call->creates = op.kind == OpKind::kPut && op.if_version == Version();
  if (op.result == OpResult::kOk || op.result == OpResult::kNotFound) {
    // With another condition that held, which is the other checkers', it is a put or a move.
    call->return_ns = op.return_ns;
    if (op.kind == OpKind::kPut && call->not_found) return false;
    return true;
  }
  if (op.mismatch && call->creates) {
    call->kind = OpKind::kGet;
    call->exists = true;
    call->return_ns = op.return_ns;
    return true;
  }
  call->optional = true;
  return op.MayApply() && op.kind != OpKind::kMove;
}

}  // namespace

SearchReport SearchLinearization(const History& history, const std::function<bool(int key)>& skip,
                                 std::uint64_t step_max) {
  std::map<int, std::vector<Call>> by_key;
  for (const Operation& op : history.operations()) {
    Call call;
    if (skip(op.key) || !ToCall(op, &call)) continue;
    by_key[op.key].push_back(call);
  }
  SearchReport report;
  for (auto& [key, calls] : by_key) {
    std::stable_sort(calls.begin(), calls.end(),
                     [](const Call& a, const Call& b) { return a.invoke_ns < b.invoke_ns; });
    const std::size_t count = calls.size();
    Search search(std::move(calls), step_max);
    const Search::Verdict verdict = search.Run();
    report.steps += search.steps();
    if (verdict == Search::Verdict::kGivenUp) {
      report.given_up.push_back(key);
      continue;
    }
    ++report.keys_checked;
    if (verdict == Search::Verdict::kNone) {
      report.violations.push_back(
          {"search", absl::StrCat("key=", KeyName(key), ": its ", count,
                                  " operations have no linearization; at most ", search.deepest(),
                                  " answers fit")});
    }
  }
  return report;
}

}  // namespace ring::sim
