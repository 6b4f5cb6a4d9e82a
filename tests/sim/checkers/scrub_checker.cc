#include "tests/sim/checkers/scrub_checker.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kScrubNs = 60'000 * kMs;
constexpr char kRefusal[] = ": cannot fold its log";

// S12: what turned and is there still is found; how much of it, the report does not name.
void CheckDamageFound(SimCluster* cluster, const node::ScrubReport& report, ScrubResult* result) {
  const std::set<std::string> left = cluster->DamageLeft();
  result->damage_left = left.size();
  result->damage_found = report.mismatches;
  if (left.size() <= report.mismatches) return;
  result->violations.push_back(
      {"scrub", absl::StrCat("S12: found ", report.mismatches, " of ", left.size(),
                             " damages, among them the ", *left.begin())});
}

}  // namespace

ScrubResult CheckScrub(SimCluster* cluster, std::uint64_t id,
                       absl::FunctionRef<bool()> earlier_ended) {
  ScrubResult result;
  if (cluster->overran()) return result;
  // Else who still takes part in an earlier one refuses this one for 10 s.
  cluster->RunUntil(
      cluster->network().now_ns() + kScrubNs, [&] { return earlier_ended(); }, kMs);
  SimAdmin& admin = cluster->admin();
  admin.StartScrub(id);
  const bool done = cluster->RunUntil(
      cluster->network().now_ns() + kScrubNs,
      [&] {
        // A start of an earlier one may have come after its end.
        if (!admin.scrub_status().ok()) admin.StartScrub(id);
        admin.PollScrub();
        return admin.scrub_done();
      },
      5 * kMs);
  if (!done || !admin.scrub_status().ok()) {
    result.violations.push_back(
        {"scrub", absl::StrCat("did not end: ", admin.scrub_status().message())});
    return result;
  }
  result.compared = true;
  const node::ScrubReport& report = admin.scrub_report();
  result.values = report.values_checked + report.replicas_checked;
  result.rows = report.rows_checked;
  for (const std::string& detail : report.details) {
    if (cluster->damage().Explains(detail)) continue;
    result.refused |= cluster->EntriesCameDamaged() && absl::EndsWith(detail, kRefusal);
    result.violations.push_back({"scrub", detail});
  }
  if (cluster->damage().any()) {
    CheckDamageFound(cluster, report, &result);
    return result;
  }
  if (report.mismatches > 0 && report.details.empty())
    result.violations.push_back({"scrub", absl::StrCat("mismatches=", report.mismatches)});
  return result;
}

}  // namespace ring::sim
