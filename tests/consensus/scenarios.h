// tests/consensus/scenarios.h — the histories that break a consensus which lacks one rule.
//
// What:      each plays one and says whether the rule was broken: never with the core as it is,
//            always with the bug switch of that rule (tests/consensus/sim/mutants_test.cc).
// Threads:   one.
// Errors:    a history that cannot be played fails the test.
#ifndef RING_TESTS_CONSENSUS_SCENARIOS_H_
#define RING_TESTS_CONSENSUS_SCENARIOS_H_

namespace ring::consensus {

// Raft's Figure 8 (10.2): an entry of an earlier term is counted at a majority, and replaced.
bool Figure8CommitsWhatIsReplaced();
// The bug of single-server changes (10.4): two leaders' changes find quorums that do not meet.
bool ChangesOfTwoTermsCommitApart();
// A change that was replaced still holds (10.4).
bool ReplacedChangeStillHolds();
// Two voters are changed at once (10.4).
bool TwoVotersChangeAtOnce();
// A read is answered by a round that began before it (10.5).
bool EarlierRoundAnswersARead();

}  // namespace ring::consensus

#endif  // RING_TESTS_CONSENSUS_SCENARIOS_H_
