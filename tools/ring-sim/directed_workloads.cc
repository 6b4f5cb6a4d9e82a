#include "tools/ring-sim/directed_workloads.h"

#include <algorithm>

#include "ring/base/status.h"

namespace ring::tools {
namespace {

// Who is cut off is missed, and clients are at work until long after. No other partitions: on top
// of a long one they make leaders miss who is there (docs/RECOVERY.md, "Known weaknesses").
constexpr char kAside[] =
    "node_faults_off_one_in=0 f3_run_one_in=0 f5_alarm_run_one_in=0 "
    "f1_at_event_run_one_in=0 f5_zombie_run_one_in=1 f6_aside_one_in=1 "
    "f6_nodes_run_one_in=0 f6_withhold_run_one_in=0 f5_zombie_min_ns=600000000 "
    "f1_client_mean_ns=0 think_max_ns=8000000";
// Who is silent is missed before its lease is over; nothing else silences anybody for long.
constexpr char kHasty[] =
    "heartbeat_ms=10 detect_ms=40 lease_ms=150 f5_zombie_min_ns=200000000 "
    "f5_doublings=8 f7_late_max_ppm=0 f7_loss_max_ppm=0 "
    "f8_control_break_mean_ns=0 f11_persist_mean_ns=0 f11_queue_pair_mean_ns=0";

// Without what makes runs longer, or takes from others the time that they need.
constexpr char kPlain[] =
    "weak_off_run_one_in=0 degraded_run_one_in=0 long_run_one_in=0 f2_sturdy_one_in=0 "
    "f5_longer_run_one_in=0 f6_pair_one_in=0 f6_withhold_run_one_in=0 f7_again_deletes=0 "
    "f9_check_jumps=0";

// Minutes take no longer than seconds with everything else.
constexpr char kCalm[] =
    "node_faults=0 scrub_mean_ns=0 heartbeat_ms=500 detect_ms=5000 lease_ms=3000 check_one_in=0 "
    "f1_client_mean_ns=0 f5_mean_ns=0 f8_client_break_mean_ns=0 f8_log_break_mean_ns=0 "
    "f8_control_break_mean_ns=0 f11_queue_pair_mean_ns=0 f11_persist_mean_ns=0 "
    "f12_catalogue_mean_ns=0";

constexpr DirectedWorkload kWorkloads[] = {
    {"aside",
     "nodes that others replace go on serving clients that reach nobody else",
     {kAside, "check_one_in=0"}},
    {"aside-check", "... under the fence that looks at the voters", {kAside, "check_one_in=1"}},
    {"aside-pair",
     "... and reach the leader of before, or another voter",
     {kAside, "check_one_in=0 f6_aside_pair_one_in=1"}},
    {"hasty", "... are missed before their leases are over", {kAside, kHasty, "check_one_in=0"}},
    {"hasty-pair",
     "... and reach the leader of before, or another voter",
     {kAside, kHasty, "check_one_in=0 f6_aside_pair_one_in=1"}},
    {"damage",
     "copies and parity rows with bits that turned, and takeovers",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f1_node_max=12 readers_one_in=3 "
      "f10_value_run_one_in=0 f10_copy_run_one_in=1 f10_copy_mean_ns=3000000 "
      "f10_row_run_one_in=1 f10_row_mean_ns=3000000 degraded_run_one_in=0"}},
    {"plain", "the kinds of faults that came first", {kPlain}},
    {"double",
     "two nodes lost at about one time, while what is lost comes back slowly",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f5_zombie_run_one_in=0 "
      "f1_node_max=20 f1_next_max_ns=100000000 f2_second_one_in=1 f2_gap_max_ns=1000000 "
      "slow_recovery_one_in=1 readers_one_in=0 think_max_ns=500000",
      kPlain}},
    {"sturdy",
     "two nodes lost at about one time, where all memgests survive that",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f5_zombie_run_one_in=0 "
      "f1_node_max=20 f1_next_max_ns=100000000 f2_second_one_in=1 f2_gap_max_ns=1000000 "
      "f2_sturdy_run_one_in=1 f5_alarm_run_one_in=0 wide_run_one_in=0 think_max_ns=500000"}},
    {"withheld",
     "coordinators that are lost behind an answer, with entries that nobody else has",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f5_alarm_run_one_in=0 weak_run_one_in=0 "
      "weak_off_run_one_in=1 f6_withhold_run_one_in=1 f6_withhold_mean_ns=2000000 "
      "f6_nodes_run_one_in=0 readers_one_in=3 think_max_ns=200000"}},
    {"pairs",
     "two nodes that do not reach each other, and takeovers",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f5_alarm_run_one_in=0 "
      "f5_zombie_run_one_in=0 f6_nodes_run_one_in=1 f6_pair_one_in=1 "
      "f6_nodes_next_max_ns=50000000 think_max_ns=8000000 f2_sturdy_run_one_in=1"}},
    {"alarm",
     "who has the last copy of something is missed as another is lost",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f5_alarm_run_one_in=1 think_max_ns=2000000"}},
    {"copies",
     "requests that come again, deletes too, in later tenures",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f7_again_mean_ns=300000 f1_node_max=12 "
      "f1_next_max_ns=200000000 f12_catalogue_mean_ns=5000000 think_max_ns=2000000"}},
    {"overrun",
     "more lost than memgests survive, and shards that stop",
     {"node_faults_off_one_in=0 f3_run_one_in=1 f3_continue_one_in=0 f3_accept_one_in=0 "
      "readers_one_in=0",
      kPlain}},
    {"accepts",
     "... and an operator who lets them go on without it",
     {"node_faults_off_one_in=0 f3_run_one_in=1 f3_continue_one_in=0 f3_accept_one_in=1", kPlain}},
    {"silent",
     "two minutes of clients that are silent for a second, and requests that come again then",
     {kCalm,
      "think_max_ns=1000000000 f7_again_max_ns=20000000000 f7_again_halvings=1 "
      "f7_again_mean_ns=20000000"}},
    {"at-switch",
     "faults just where a bug switch acts, which --mutant turns on, or --probe does not",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f5_alarm_run_one_in=0 "
      "f1_at_switch_run_one_in=1 f1_node_max=3"}},
    {"at-switch-sturdy",
     "... where all memgests survive two losses",
     {"node_faults_off_one_in=0 f3_run_one_in=0 f13_one_in=0 f5_alarm_run_one_in=0 "
      "f1_at_switch_run_one_in=1 f1_node_max=3 f2_sturdy_run_one_in=1 wide_run_one_in=0"}},
    {"reused",
     "requests under numbers that were used for others",
     {"f7_again_mean_ns=500000 f7_again_altered_one_in=2"}},
};

}  // namespace

absl::Span<const DirectedWorkload> DirectedWorkloads() { return kWorkloads; }

const DirectedWorkload* FindDirectedWorkload(absl::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kWorkloads), std::end(kWorkloads),
                   [name](const DirectedWorkload& one) { return one.name == name; });
  return found == std::end(kWorkloads) ? nullptr : found;
}

absl::Status Apply(const DirectedWorkload& workload, sim::FaultOptions* faults) {
  for (const char* const settings : workload.settings)
    RING_RETURN_IF_ERROR(sim::SetFaults(settings == nullptr ? "" : settings, faults));
  return absl::OkStatus();
}

}  // namespace ring::tools
