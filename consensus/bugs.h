// consensus/bugs.h — switches that break a rule each: the tests must notice.
//
// What:      Bugs, and RING_BUG(name): the switch in a build with RING_MUTANTS, false in every
//            other one, where nothing of it remains. Only a test library is built with
//            RING_MUTANTS.
// Threads:   the switches are set before a test's run, by the thread that runs it.
// Errors:    none.
// Source:    protocol-rules, section 10; the number is the point that the switch breaks.
#ifndef RING_CONSENSUS_BUGS_H_
#define RING_CONSENSUS_BUGS_H_

#ifdef RING_MUTANTS
namespace ring::consensus {

struct Bugs {
  bool send_before_persist = false;            // 10.1
  bool commit_old_terms_by_counting = false;   // 10.2
  bool no_noop = false;                        // 10.2
  bool no_prevote = false;                     // 10.3
  bool no_stickiness = false;                  // 10.3
  bool no_check_quorum = false;                // 10.3
  bool change_before_noop = false;             // 10.4
  bool several_changes_at_once = false;        // 10.4
  bool change_two_voters = false;              // 10.4
  bool no_rollback_of_change = false;          // 10.4
  bool read_without_round = false;             // 10.5
  bool read_joins_round_under_way = false;     // 10.5
  bool read_before_noop = false;               // 10.5
  bool retry_keeps_read_index = false;         // 10.5
  bool forget_vote = false;                    // 10.6
  bool go_on_after_failed_persist = false;     // 10.7
  bool timeout_now_while_unpersisted = false;  // 10.7
  bool campaign_on_unpersisted = false;        // 10.7
};

inline Bugs bugs;

}  // namespace ring::consensus
#define RING_BUG(name) (::ring::consensus::bugs.name)
#else
#define RING_BUG(name) false
#endif

#endif  // RING_CONSENSUS_BUGS_H_
