// tests/node/fence/fence_scenarios.h — the histories that break a fence which lacks one rule.
//
// What:      each plays one and says whether the rule was broken: never with the code as it is,
//            always with the bug switch of that rule (fence_mutants_test.cc).
// Threads:   one.
// Errors:    a history that cannot be played fails the test.
#ifndef RING_TESTS_NODE_FENCE_FENCE_SCENARIOS_H_
#define RING_TESTS_NODE_FENCE_FENCE_SCENARIOS_H_

namespace ring::node {

// L1: a leader that was deposed, and does not know it, gives a lease that its successor cannot know
// of.
bool DeposedLeaderGrants();
// L1: a role is given to another node while its holder's lease lasts.
bool RoleIsTakenUnderALease();
// L1: a lease is given out when the log has what will take its roles away.
bool LeaseIsGrantedBehindAReassignment();
// L1: replies pass after the lease has ended.
bool RepliesPassWithoutALease();
// L2: the role is checked, the process is stopped, the value is read.
bool ValueIsReadBehindTheCheck();
// L9: a node that lost its roles, came back and knows nothing of it gets a lease.
bool LeaseForRolesOfThePast();

// L1: a voter shows what it persisted only after it said so.
bool WordIsStoredLate();
// L1: voters that were removed, and know nothing of it, are a majority of those that are asked.
bool RemovedVotersAreAsked();
// L1, 10.6: a voter that lost its memory shows what it was told again so far.
bool VoterWithoutMemoryShowsThePast();
// L1: one voter that knows nothing is enough.
bool OneVoterIsEnough();
// L1: a leader counts itself before it shows what it counts.
bool LeaderCountsItselfFirst();
// L2: the voters are asked, the process is stopped, the value is read.
bool ValueIsReadBehindTheWords();

struct FenceScenario {
  const char* mutant;
  bool (*broken)();
};
inline constexpr FenceScenario kFenceScenarios[] = {
    {"L1-grant", DeposedLeaderGrants},
    {"L1-wait", RoleIsTakenUnderALease},
    {"L1-proposed", LeaseIsGrantedBehindAReassignment},
    {"L1-lease", RepliesPassWithoutALease},
    {"L2", ValueIsReadBehindTheCheck},
    {"L9", LeaseForRolesOfThePast},
    {"L1-word", WordIsStoredLate},
    {"L1-voters", RemovedVotersAreAsked},
    {"L1-amnesia", VoterWithoutMemoryShowsThePast},
    {"L1-majority", OneVoterIsEnough},
    {"L1-leader", LeaderCountsItselfFirst},
    {"L2-check", ValueIsReadBehindTheWords},
};

}  // namespace ring::node

#endif  // RING_TESTS_NODE_FENCE_FENCE_SCENARIOS_H_
