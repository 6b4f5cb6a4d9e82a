#include "tests/sim/fault_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ring::sim {
namespace {

#define RING_FIELD(name) \
  { #name, &FaultOptions::name }
constexpr FaultField kFields[] = {
    RING_FIELD(node_faults),
    RING_FIELD(node_faults_off_one_in),
    RING_FIELD(kind_off_one_in),
    RING_FIELD(check_one_in),
    RING_FIELD(slow_recovery_one_in),
    RING_FIELD(wide_run_one_in),
    RING_FIELD(long_run_one_in),
    RING_FIELD(weak_run_one_in),
    RING_FIELD(weak_off_run_one_in),
    RING_FIELD(readers_one_in),
    RING_FIELD(degraded_run_one_in),
    RING_FIELD(degraded_one_in),
    RING_FIELD(think_max_ns),
    RING_FIELD(scrub_mean_ns),
    RING_FIELD(heartbeat_ms),
    RING_FIELD(detect_ms),
    RING_FIELD(lease_ms),
    RING_FIELD(f1_client_mean_ns),
    RING_FIELD(f1_client_max),
    RING_FIELD(f1_node_max),
    RING_FIELD(f1_first_min_ns),
    RING_FIELD(f1_first_max_ns),
    RING_FIELD(f1_next_min_ns),
    RING_FIELD(f1_next_max_ns),
    RING_FIELD(f1_refused_max_ns),
    RING_FIELD(f1_at_answer_one_in),
    RING_FIELD(f1_at_view_one_in),
    RING_FIELD(f1_at_view_min_ns),
    RING_FIELD(f1_at_view_max_ns),
    RING_FIELD(f1_at_event_run_one_in),
    RING_FIELD(f1_at_event_max),
    RING_FIELD(f1_at_event_max_ns),
    RING_FIELD(f1_at_switch_run_one_in),
    RING_FIELD(f1_at_switch_max),
    RING_FIELD(f1_at_switch_skip_bits_max),
    RING_FIELD(f1_at_switch_max_ns),
    RING_FIELD(f1_aim_max_ns),
    RING_FIELD(f1_away_min_ns),
    RING_FIELD(f1_away_more_ns),
    RING_FIELD(f1_votes_kept_run_one_in),
    RING_FIELD(f1_votes_lost_one_in),
    RING_FIELD(f2_second_one_in),
    RING_FIELD(f2_gap_min_ns),
    RING_FIELD(f2_gap_max_ns),
    RING_FIELD(f2_sturdy_run_one_in),
    RING_FIELD(f2_sturdy_one_in),
    RING_FIELD(f3_run_one_in),
    RING_FIELD(f3_continue_one_in),
    RING_FIELD(f3_accept_one_in),
    RING_FIELD(f3_again_one_in),
    RING_FIELD(f3_word_min_ns),
    RING_FIELD(f3_word_doublings),
    RING_FIELD(f3_nodes),
    RING_FIELD(f3_min_ns),
    RING_FIELD(f3_max_ns),
    RING_FIELD(f4_one_in),
    RING_FIELD(f4_away_min_ns),
    RING_FIELD(f4_away_max_ns),
    RING_FIELD(f5_mean_ns),
    RING_FIELD(f5_pause_ns),
    RING_FIELD(f5_doublings),
    RING_FIELD(f5_longer_run_one_in),
    RING_FIELD(f5_zombie_run_one_in),
    RING_FIELD(f5_zombie_first_min_ns),
    RING_FIELD(f5_zombie_first_max_ns),
    RING_FIELD(f5_zombie_next_max_ns),
    RING_FIELD(f5_zombie_min_ns),
    RING_FIELD(f5_zombie_max_ns),
    RING_FIELD(f5_alarm_run_one_in),
    RING_FIELD(f5_alarm_min_ns),
    RING_FIELD(f5_alarm_max_ns),
    RING_FIELD(f5_alarm_within_ns),
    RING_FIELD(f5_alarm_gap_max_ns),
    RING_FIELD(f5_alarm_wakes_max_ns),
    RING_FIELD(f5_alarm_stands_ns),
    RING_FIELD(f6_client_mean_ns),
    RING_FIELD(f6_client_max_ns),
    RING_FIELD(f6_client_long_one_in),
    RING_FIELD(f6_client_long_max_ns),
    RING_FIELD(f6_nodes_run_one_in),
    RING_FIELD(f6_nodes_first_max_ns),
    RING_FIELD(f6_nodes_next_max_ns),
    RING_FIELD(f6_nodes_min_ns),
    RING_FIELD(f6_nodes_max_ns),
    RING_FIELD(f6_aside_one_in),
    RING_FIELD(f6_aside_pair_one_in),
    RING_FIELD(f6_pair_one_in),
    RING_FIELD(f6_pair_min_ns),
    RING_FIELD(f6_pair_max_ns),
    RING_FIELD(f6_withhold_run_one_in),
    RING_FIELD(f6_withhold_mean_ns),
    RING_FIELD(f6_withhold_max_ns),
    RING_FIELD(f6_silence_ns),
    RING_FIELD(f7_late_max_ppm),
    RING_FIELD(f7_late_doublings),
    RING_FIELD(f7_loss_max_ppm),
    RING_FIELD(f7_spread_doublings),
    RING_FIELD(f7_gap_max_ppm),
    RING_FIELD(f7_again_mean_ns),
    RING_FIELD(f7_again_max_ns),
    RING_FIELD(f7_again_halvings),
    RING_FIELD(f7_again_deletes),
    RING_FIELD(f7_again_altered_one_in),
    RING_FIELD(f8_parts_max_ppm),
    RING_FIELD(f8_late_completion_max_ppm),
    RING_FIELD(f8_late_completion_doublings),
    RING_FIELD(f8_rnr_max_ppm),
    RING_FIELD(f8_doorbells_off_one_in),
    RING_FIELD(f8_client_break_mean_ns),
    RING_FIELD(f8_log_break_mean_ns),
    RING_FIELD(f8_control_break_mean_ns),
    RING_FIELD(f9_mean_ns),
    RING_FIELD(f9_drift_ppm),
    RING_FIELD(f9_jump_one_in),
    RING_FIELD(f9_jump_max_ns),
    RING_FIELD(f9_check_jumps),
    RING_FIELD(f10_value_run_one_in),
    RING_FIELD(f10_value_mean_ns),
    RING_FIELD(f10_copy_run_one_in),
    RING_FIELD(f10_copy_mean_ns),
    RING_FIELD(f10_row_run_one_in),
    RING_FIELD(f10_row_mean_ns),
    RING_FIELD(f10_flight_run_one_in),
    RING_FIELD(f10_flight_max_ppm),
    RING_FIELD(f11_memory_mean_ns),
    RING_FIELD(f11_memory_max_ppm),
    RING_FIELD(f11_memory_max_ns),
    RING_FIELD(f11_queue_pair_mean_ns),
    RING_FIELD(f11_queue_pair_max_ppm),
    RING_FIELD(f11_queue_pair_max_ns),
    RING_FIELD(f11_persist_mean_ns),
    RING_FIELD(f11_persist_max_ns),
    RING_FIELD(f11_slow_persist_run_one_in),
    RING_FIELD(f11_slow_persist_max_ns),
    RING_FIELD(f11_stall_one_in),
    RING_FIELD(f11_stall_max_ns),
    RING_FIELD(f12_catalogue_mean_ns),
    RING_FIELD(f12_catalogue_at_once),
    RING_FIELD(f12_memgests_made),
    RING_FIELD(f12_force_run_one_in),
    RING_FIELD(f12_force_mean_ns),
    RING_FIELD(f12_force_max),
    RING_FIELD(f12_add_run_one_in),
    RING_FIELD(f12_add_min_ns),
    RING_FIELD(f12_add_max_ns),
    RING_FIELD(f12_remove_one_in),
    RING_FIELD(f12_drain_run_one_in),
    RING_FIELD(f12_drain_min_ns),
    RING_FIELD(f12_drain_max_ns),
    RING_FIELD(f13_one_in),
    RING_FIELD(f13_max_ns),
    RING_FIELD(f14_one_in),
    RING_FIELD(f14_doublings),
    RING_FIELD(f15_nic_run_one_in),
    RING_FIELD(f15_fail_run_one_in),
    RING_FIELD(f15_fail_max_ppm),
    RING_FIELD(f15_wrong_run_one_in),
    RING_FIELD(f15_wrong_max_ppm),
    RING_FIELD(f15_late_run_one_in),
    RING_FIELD(f15_late_max_ppm),
    RING_FIELD(f15_late_doublings),
};
#undef RING_FIELD
static_assert(sizeof(kFields) / sizeof(kFields[0]) == sizeof(FaultOptions) / sizeof(std::uint64_t),
              "a field is missing here");

}  // namespace

absl::Span<const FaultField> FaultFields() { return kFields; }

absl::Status SetFaults(absl::string_view settings, FaultOptions* faults) {
  for (const absl::string_view setting : absl::StrSplit(settings, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const auto* const found =
        std::find_if(std::begin(kFields), std::end(kFields),
                     [&](const FaultField& one) { return one.name == parts.first; });
    std::uint64_t value = 0;
    if (found == std::end(kFields) || !absl::SimpleAtoi(parts.second, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting, ": give NAME=NUMBER, with a name of --list-faults"));
    }
    faults->*found->value = value;
  }
  return absl::OkStatus();
}

}  // namespace ring::sim
