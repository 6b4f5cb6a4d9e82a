// Seeds of whole clusters that once found something: each is a test of its own, named by the rule.
#include <cctype>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/sim/run_clean.h"

namespace ring::sim {
namespace {

// "seed words rule: what it found": regressions.txt says what the words mean.
struct Regression {
  std::uint64_t seed = 0;
  std::string line;
  std::string name;
};
void PrintTo(const Regression& regression, std::ostream* out) { *out << regression.line; }

std::vector<Regression> Regressions() {
  std::ifstream file(RING_SIM_REGRESSIONS);
  std::vector<Regression> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Regression one{std::stoull(line), line, ""};
    const std::string head = line.substr(0, line.find(':'));
    const std::string rule = head.substr(head.rfind(' ') + 1);
    const bool named = head != line && std::isupper(rule[0]) != 0;
    one.name = absl::StrCat(named ? rule : "Line", "_Seed", one.seed, "_", all.size());
    all.push_back(one);
  }
  return all;
}

// The last ones that came.
void LeaveNewestOut(FaultOptions* faults) {
  faults->f1_votes_kept_run_one_in = faults->f7_again_mean_ns = 0;
  faults->f5_alarm_run_one_in = 0;
}

void LeaveYoungerOut(FaultOptions* faults) {
  faults->f11_slow_persist_run_one_in = 0;
  faults->long_run_one_in = 0;
  faults->weak_off_run_one_in = faults->degraded_run_one_in = faults->f2_sturdy_one_in = 0;
  faults->f5_longer_run_one_in = faults->f6_pair_one_in = faults->f6_withhold_run_one_in = 0;
  faults->f3_accept_one_in = faults->f7_again_deletes = faults->f9_check_jumps = 0;
}

// What the older seeds were given: kinds that came later would make other runs of them.
FaultOptions FirstKinds() {
  FaultOptions faults;
  faults.f8_log_break_mean_ns = faults.f8_control_break_mean_ns = 0;
  faults.f10_copy_run_one_in = faults.f10_row_run_one_in = faults.f10_flight_run_one_in = 0;
  faults.f11_queue_pair_mean_ns = 0;
  faults.f12_force_run_one_in = faults.f12_add_run_one_in = faults.f12_remove_one_in = 0;
  return faults;
}

// The words of a line that have a '='.
std::string SettingsOf(absl::string_view line) {
  const absl::string_view head = line.substr(0, line.find(':'));
  return absl::StrJoin(
      absl::StrSplit(head, ' ',
                     [](absl::string_view word) { return absl::StrContains(word, '='); }),
      " ");
}

class SimRegression : public ::testing::TestWithParam<Regression> {};

TEST_P(SimRegression, Holds) {
  const auto says = [](const char* word) {
    return GetParam().line.find(word) != std::string::npos;
  };
  RunOptions options;
  options.seed = GetParam().seed;
  if (!says(" later ")) options.faults = FirstKinds();
  if (!says(" newest ")) LeaveNewestOut(&options.faults);
  options.faults.node_faults = says(" nodes ") ? 1 : 0;
  options.faults.check_one_in = says(" check ") ? 1 : 0;
  options.faults.f5_zombie_run_one_in = says(" zombies ") ? 1 : 0;
  options.faults.f15_nic_run_one_in = says(" nic ") ? 1 : 0;
  options.faults.slow_recovery_one_in = says(" slow ") ? 1 : 0;
  options.faults.wide_run_one_in = says(" wide ") ? 1 : 0;
  options.faults.weak_run_one_in = says(" weak ") ? 1 : 0;
  options.faults.readers_one_in = says(" apart ") ? 2 : says(" readers ") ? 4 : 0;
  if (!says(" apart ")) {
    options.faults.f5_zombie_min_ns = 50 * FaultOptions::kMs;
    options.faults.f5_zombie_max_ns = 2'500 * FaultOptions::kMs;
  }
  options.faults.f1_at_event_run_one_in = says(" aims ") ? 1 : 0;
  if (says(" overrun ")) options.faults.f3_run_one_in = options.faults.f3_continue_one_in = 1;
  if (says(" drawn ")) options.faults = FaultOptions();
  LeaveYoungerOut(&options.faults);  // than all lines; else they say so
  ASSERT_TRUE(SetFaults(SettingsOf(GetParam().line), &options.faults).ok());
  RunClean(options);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimRegression, ::testing::ValuesIn(Regressions()),
                         [](const auto& seed) { return seed.param.name; });

}  // namespace
}  // namespace ring::sim
