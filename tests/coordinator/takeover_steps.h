// tests/coordinator/takeover_steps.h — a harness's shard goes to a node with empty memory, in one
// call.
//
// What:      TakeOverAndServe, and RunFetching for who may have to wait for a value afterwards.
// Threads:   one.
// Errors:    gtest failures.
#ifndef RING_TESTS_COORDINATOR_TAKEOVER_STEPS_H_
#define RING_TESTS_COORDINATOR_TAKEOVER_STEPS_H_

#include <set>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {

// Answers a request that may have to wait for a value.
inline const Answered& RunFetching(ShardHarness& harness, int number) {
  for (int i = 0; i < 200 && !harness.answered(number); ++i) {
    harness.Turn();
    harness.FetchAll();
  }
  EXPECT_TRUE(harness.answered(number));
  return harness.answer(number);
}

inline void TakeOverAndServe(ShardHarness& harness, const std::set<int>& gone = {}) {
  harness.TakeOver(gone);
  harness.SetFlow(true, true);
  harness.Normal();
  // E3, S1: a source has folded what was adopted.
  for (MemberTwin* const member : harness.members()) member->folds = true;
  harness.Turns(5);
}

}  // namespace ring::coordinator

#endif  // RING_TESTS_COORDINATOR_TAKEOVER_STEPS_H_
