// tests/sim/checkers/checker_fixture.h — histories for tests of the checkers, written down by hand.
//
// What:      CheckerHistory: a history of one key, an operation a call.
// Units:     times are numbers: [begin, end], end 0 for "never answered".
// Threads:   one.
// Errors:    none.
#ifndef RING_TESTS_SIM_CHECKERS_CHECKER_FIXTURE_H_
#define RING_TESTS_SIM_CHECKERS_CHECKER_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/history.h"

namespace ring::sim {

constexpr Version V(std::uint64_t counter) { return Version(Epoch(1), counter); }
constexpr Epoch kEpochLater{2};
inline bool NoKey(int) { return false; }

class CheckerHistory : public ::testing::Test {
 protected:
  Operation& Put(ValueId value, std::uint64_t version, std::uint64_t begin, std::uint64_t end) {
    return Add(OpKind::kPut, value, version, begin, end);
  }
  Operation& Get(ValueId value, std::uint64_t version, std::uint64_t begin, std::uint64_t end) {
    return Add(OpKind::kGet, value, version, begin, end);
  }
  Operation& GetNothing(std::uint64_t begin, std::uint64_t end) {
    Operation& op = Add(OpKind::kGet, 0, 0, begin, end);
    op.result = OpResult::kNotFound;
    return op;
  }
  Operation& Delete(std::uint64_t version, std::uint64_t begin, std::uint64_t end) {
    return Add(OpKind::kDelete, 0, version, begin, end);
  }
  Operation& Move(std::uint64_t version, std::uint64_t begin, std::uint64_t end) {
    return Add(OpKind::kMove, 0, version, begin, end);
  }
  Operation& Add(OpKind kind, ValueId value, std::uint64_t version, std::uint64_t begin,
                 std::uint64_t end) {
    Operation op;
    op.kind = kind;
    op.value = value;
    if (version != 0) op.version = V(version);
    op.invoke_ns = begin;
    op.return_ns = end;
    op.result = end == 0 ? OpResult::kUnknown : OpResult::kOk;
    return history_[history_.Add(op)];
  }
  static std::vector<std::string> Kinds(const std::vector<Violation>& violations) {
    std::vector<std::string> kinds;
    for (const Violation& violation : violations) kinds.push_back(violation.kind);
    return kinds;
  }

  History history_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_CHECKER_FIXTURE_H_
