// tests/sim/fault_options.h — every fault that a run may be given, how often, and for how long.
//
// What:      FaultOptions: all faults of whole clusters, by class (F1 to F15, docs/TESTING.md).
//            FaultPlan and NodeFaults draw from them; FaultFields lists them, for ring-sim.
// Units:     at the end of each name. _ns: nanoseconds of simulated time; _ppm: parts per million;
//            _one_in: one of so many, drawn, 0: none; else a count. _mean_ns: between two of a
//            kind. _max: drawn evenly below it; _min and _max: the logarithm is drawn evenly.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    fault classes F1 to F15.
#ifndef RING_TESTS_SIM_FAULT_OPTIONS_H_
#define RING_TESTS_SIM_FAULT_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/base/random.h"

namespace ring::sim {

struct FaultOptions {
  static constexpr std::uint64_t kUs = 1'000;
  static constexpr std::uint64_t kMs = 1'000'000;

  // --- runs: each class is part of most, not of all: rare ones would hide behind frequent ones ---
  std::uint64_t node_faults = 1;             // 0: nodes neither crash nor are parted
  std::uint64_t node_faults_off_one_in = 4;  // ... all the same not in one of so many runs
  std::uint64_t kind_off_one_in = 3;  // of a run's kinds that have a mean_ns, one of so many is off
  std::uint64_t check_one_in = 3;     // runs fenced by checks, not by leases
  // Runs in which what is lost comes back as slowly as it may: faults meet it half done.
  std::uint64_t slow_recovery_one_in = 5;
  // Runs with three redundant nodes in each group, and codes of m = 3.
  std::uint64_t wide_run_one_in = 6;
  // Runs with four or five shards in each group: codes are stretched over more blocks, and each
  // node has more parts.
  std::uint64_t long_run_one_in = 24;
  // Runs that put into Rep(1) by default, unless an operator makes another memgest the default.
  std::uint64_t weak_run_one_in = 6;
  // Runs that write nothing into Rep(1): what else is lost can be looked at more closely then.
  std::uint64_t weak_off_run_one_in = 2;
  // Clients that only get: what they miss nobody tells them.
  std::uint64_t readers_one_in = 2;
  // Runs with degraded reads, and how many of the gets are some; then all nodes take faults.
  std::uint64_t degraded_run_one_in = 6;
  std::uint64_t degraded_one_in = 8;
  // Of a client between two operations; 0: drawn. What takes its time meets runs that take theirs.
  std::uint64_t think_max_ns = 0;
  std::uint64_t scrub_mean_ns = 3 * kMs;  // no fault, but under all of them
  // As a configuration has them.
  std::uint64_t heartbeat_ms = 25;
  std::uint64_t detect_ms = 150;
  std::uint64_t lease_ms = 100;

  // --- F1: crashes ---
  std::uint64_t f1_client_mean_ns = 60 * kMs;
  std::uint64_t f1_client_max = 3;
  std::uint64_t f1_node_max = 6;  // blows of a run
  std::uint64_t f1_first_min_ns = 100 * kUs;
  std::uint64_t f1_first_max_ns = 300 * kMs;
  std::uint64_t f1_next_min_ns = kMs;
  std::uint64_t f1_next_max_ns = 1'000 * kMs;
  std::uint64_t f1_refused_max_ns = 20 * kMs;  // until another one is chosen: too much is missing
  std::uint64_t f1_at_answer_one_in = 2;       // blows that wait for the answer to a write (E1)
  std::uint64_t f1_at_view_one_in = 3;         // changes of the view that are followed by a blow
  std::uint64_t f1_at_view_min_ns = kUs;
  std::uint64_t f1_at_view_max_ns = 20 * kMs;
  std::uint64_t f1_at_event_run_one_in = 4;    // runs with blows at a step of takeovers or joins
  std::uint64_t f1_at_event_max = 4;           // such blows of a run
  std::uint64_t f1_at_event_max_ns = 2 * kMs;  // behind it, at the latest
  // Runs with faults where a bug switch acts, or would: none without one (ring/base/mutant.h).
  std::uint64_t f1_at_switch_run_one_in = 0;
  std::uint64_t f1_at_switch_max = 6;            // of a run
  std::uint64_t f1_at_switch_skip_bits_max = 8;  // it comes there 2^bits times before one, at most
  std::uint64_t f1_at_switch_max_ns = 20 * kMs;  // behind it, at the latest
  std::uint64_t f1_aim_max_ns = 100 * kUs;       // a blow comes so much later than it was decided
  std::uint64_t f1_away_min_ns = 200 * kMs;
  std::uint64_t f1_away_more_ns = 2'000 * kMs;  // ... and up to so much longer
  // Runs whose voters start again with their term, vote and log; in others each is a new server.
  std::uint64_t f1_votes_kept_run_one_in = 2;
  std::uint64_t f1_votes_lost_one_in = 4;  // crashes in them that take the disk along

  // --- F2: two at about one time ---
  std::uint64_t f2_second_one_in = 3;  // blows
  std::uint64_t f2_gap_min_ns = kUs;
  std::uint64_t f2_gap_max_ns = 300 * kMs;
  // Runs whose memgests survive two losses, beyond one of three; and those of them in which new
  // ones do, too.
  std::uint64_t f2_sturdy_run_one_in = 0;
  std::uint64_t f2_sturdy_one_in = 1;

  // --- F3: more than memgests survive ---
  std::uint64_t f3_run_one_in = 12;
  std::uint64_t f3_continue_one_in = 2;  // of these under overrun = continue
  // Of those under overrun = stop: an operator accepts what shards lost, and mostly more is lost
  // while it makes up its mind.
  std::uint64_t f3_accept_one_in = 2;
  std::uint64_t f3_again_one_in = 2;
  std::uint64_t f3_word_min_ns = kMs;    // between two looks, or a look and its word: below it,
  std::uint64_t f3_word_doublings = 10;  // ... doubled up to f3_word_doublings - 1 times
  std::uint64_t f3_nodes = 3;
  std::uint64_t f3_min_ns = kMs;
  std::uint64_t f3_max_ns = 500 * kMs;

  // --- F4: started again before it was missed ---
  std::uint64_t f4_one_in = 4;  // crashes of nodes
  std::uint64_t f4_away_min_ns = 10 * kUs;
  std::uint64_t f4_away_max_ns = 60 * kMs;

  // --- F5: nodes that stand still ---
  std::uint64_t f5_mean_ns = 10 * kMs;
  std::uint64_t f5_pause_ns = 10 * kUs;  // below it, doubled up to f5_doublings - 1 times
  std::uint64_t f5_doublings = 12;
  std::uint64_t f5_longer_run_one_in = 3;  // runs in which twice more: leases end, nobody is missed
  // ... or are cut off (F6), until others took over.
  std::uint64_t f5_zombie_run_one_in = 2;
  std::uint64_t f5_zombie_first_min_ns = kMs;
  std::uint64_t f5_zombie_first_max_ns = 300 * kMs;
  std::uint64_t f5_zombie_next_max_ns = 500 * kMs;
  std::uint64_t f5_zombie_min_ns = 200 * kMs;
  std::uint64_t f5_zombie_max_ns = 1'500 * kMs;
  // One that is missed while it has the last copy of something: another is lost as well (E8).
  std::uint64_t f5_alarm_run_one_in = 3;
  std::uint64_t f5_alarm_min_ns = 5 * kMs;
  std::uint64_t f5_alarm_max_ns = 200 * kMs;
  std::uint64_t f5_alarm_within_ns = 400 * kMs;    // or none: no blow comes before
  std::uint64_t f5_alarm_gap_max_ns = 20 * kMs;    // between the two
  std::uint64_t f5_alarm_wakes_max_ns = 40 * kMs;  // it goes on so long after it was missed
  std::uint64_t f5_alarm_stands_ns = 110 * kMs;    // who has its roles then does, at the latest

  // --- F6: who cannot reach whom ---
  std::uint64_t f6_client_mean_ns = 40 * kMs;
  std::uint64_t f6_client_max_ns = 50 * kMs;
  std::uint64_t f6_client_long_one_in = 4;
  std::uint64_t f6_client_long_max_ns = 4'000 * kMs;
  std::uint64_t f6_nodes_run_one_in = 2;
  std::uint64_t f6_nodes_first_max_ns = 200 * kMs;
  std::uint64_t f6_nodes_next_max_ns = 400 * kMs;
  std::uint64_t f6_nodes_min_ns = 100 * kUs;
  std::uint64_t f6_nodes_max_ns = 40 * kMs;  // who is not heard for longer is taken for lost
  std::uint64_t f6_aside_one_in = 2;         // nodes that are cut off, with some of the clients
  std::uint64_t f6_aside_pair_one_in = 0;    // ... with the leader, or with another voter, too
  std::uint64_t f6_pair_one_in = 2;          // partitions: of two nodes, which all others reach
  std::uint64_t f6_pair_min_ns = 200 * kMs;
  std::uint64_t f6_pair_max_ns = 1'500 * kMs;
  std::uint64_t f6_withhold_run_one_in = 3;  // a coordinator's entries go nowhere, and then it goes
  std::uint64_t f6_withhold_mean_ns = 15 * kMs;
  std::uint64_t f6_withhold_max_ns = 20 * kMs;
  std::uint64_t f6_silence_ns = 2'000 * kMs;  // until a request that does not get through fails

  // --- F7: messages; each of these is on in half of the runs ---
  std::uint64_t f7_late_max_ppm = 30'000;
  std::uint64_t f7_late_doublings = 4;  // late by up to 1 ms, doubled up to 3 times
  std::uint64_t f7_loss_max_ppm = 20'000;
  std::uint64_t f7_spread_doublings = 6;  // of the delay: 1 us, doubled up to 5 times
  std::uint64_t f7_gap_max_ppm = 500'000;
  std::uint64_t f7_again_mean_ns = 4 * kMs;  // a copy of a request that was sent up to so long ago,
  std::uint64_t f7_again_max_ns = 2'000 * kMs;
  std::uint64_t f7_again_halvings = 12;       // halved up to 11 times
  std::uint64_t f7_again_deletes = 1;         // of deletes, too, beyond their tenure
  std::uint64_t f7_again_altered_one_in = 0;  // ... with another value: a number that is used again

  // --- F8: one-sided requests; as of F7 ---
  std::uint64_t f8_parts_max_ppm = 300'000;  // WRITEs that land in two parts
  std::uint64_t f8_late_completion_max_ppm = 30'000;
  std::uint64_t f8_late_completion_doublings = 4;
  std::uint64_t f8_rnr_max_ppm = 50'000;
  std::uint64_t f8_doorbells_off_one_in = 4;  // runs
  std::uint64_t f8_client_break_mean_ns = 10 * kMs;
  std::uint64_t f8_log_break_mean_ns = 300 * kMs;  // between nodes, one connection
  std::uint64_t f8_control_break_mean_ns = 200 * kMs;

  // --- F9: clocks ---
  std::uint64_t f9_mean_ns = 20 * kMs;
  std::uint64_t f9_drift_ppm = 1'000;  // either way
  std::uint64_t f9_jump_one_in = 4;    // ... where no lease rests on them (L1)
  std::uint64_t f9_jump_max_ns = 50 * kMs;
  std::uint64_t f9_check_jumps = 1;  // under a check none does, whoever is replaced meanwhile

  // --- F10: bits that turn ---
  std::uint64_t f10_value_run_one_in = 10;  // what is damaged is lost: less can be checked then
  std::uint64_t f10_value_mean_ns = 50 * kMs;
  std::uint64_t f10_copy_run_one_in = 12;  // of a value at a replica
  std::uint64_t f10_copy_mean_ns = 50 * kMs;
  std::uint64_t f10_row_run_one_in = 12;  // of a parity row
  std::uint64_t f10_row_mean_ns = 50 * kMs;
  std::uint64_t f10_flight_run_one_in = 4;  // of log entries on their way, in runs without F1 to F4
  std::uint64_t f10_flight_max_ppm = 2'000;

  // --- F11: what runs out ---
  std::uint64_t f11_memory_mean_ns = 20 * kMs;
  std::uint64_t f11_memory_max_ppm = 1'000'000;
  std::uint64_t f11_memory_max_ns = 10 * kMs;
  std::uint64_t f11_queue_pair_mean_ns = 50 * kMs;
  std::uint64_t f11_queue_pair_max_ppm = 1'000'000;
  std::uint64_t f11_queue_pair_max_ns = 20 * kMs;
  std::uint64_t f11_persist_mean_ns = 60 * kMs;  // where votes are kept: of a voter's storage
  std::uint64_t f11_persist_max_ns = 40 * kMs;
  std::uint64_t f11_slow_persist_run_one_in = 2;  // writes there take their time
  std::uint64_t f11_slow_persist_max_ns = 2 * kMs;
  std::uint64_t f11_stall_one_in = 100;       // of these writes
  std::uint64_t f11_stall_max_ns = 60 * kMs;  // less than detection: who cannot vote is silent

  // --- F12: changes with operations under way ---
  std::uint64_t f12_catalogue_mean_ns = 15 * kMs;
  std::uint64_t f12_catalogue_at_once = 3;
  std::uint64_t f12_memgests_made = 6;
  std::uint64_t f12_force_run_one_in = 3;  // deletes of memgests with what is in them
  std::uint64_t f12_force_mean_ns = 60 * kMs;
  std::uint64_t f12_force_max = 2;
  std::uint64_t f12_add_run_one_in = 8;  // a node that the configuration does not name
  std::uint64_t f12_add_min_ns = kMs;
  std::uint64_t f12_add_max_ns = 500 * kMs;
  std::uint64_t f12_remove_one_in = 2;  // drained nodes
  std::uint64_t f12_drain_run_one_in = 6;
  std::uint64_t f12_drain_min_ns = kMs;
  std::uint64_t f12_drain_max_ns = 500 * kMs;

  // --- F13: no quorum ---
  std::uint64_t f13_one_in = 6;  // partitions of nodes
  std::uint64_t f13_max_ns = 1'000 * kMs;

  // --- F14: another version of the protocol ---
  std::uint64_t f14_one_in = 4;      // starts after a crash
  std::uint64_t f14_doublings = 10;  // for 1 ms, doubled up to 9 times

  // --- F15: CALC ---
  std::uint64_t f15_nic_run_one_in = 3;  // runs whose nodes' devices calculate deltas
  std::uint64_t f15_fail_run_one_in = 2;
  std::uint64_t f15_fail_max_ppm = 50'000;
  std::uint64_t f15_wrong_run_one_in = 3;
  std::uint64_t f15_wrong_max_ppm = 20'000;
  std::uint64_t f15_late_run_one_in = 2;
  std::uint64_t f15_late_max_ppm = 100'000;
  std::uint64_t f15_late_doublings = 5;  // late by up to 1 ms, doubled up to 4 times
};

// Draws whether this one is of those; without a draw when there are none.
inline bool OneIn(Random& random, std::uint64_t one_in) {
  return one_in != 0 && random.Below(one_in) == 0;
}

struct FaultField {
  absl::string_view name;  // "f5_mean_ns": what stands before the first '_' is its class
  std::uint64_t FaultOptions::*value;
};
// All of them.
absl::Span<const FaultField> FaultFields();
// "f5_mean_ns=20000000 check_one_in=1", or one, or none. INVALID_ARGUMENT names what is wrong;
// what stands before it is set.
absl::Status SetFaults(absl::string_view settings, FaultOptions* faults);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_FAULT_OPTIONS_H_
