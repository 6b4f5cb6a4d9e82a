// tools/ringctl/doctor/finding.h — what a look at this machine found.
//
// What:      Finding: one thing that was looked at, how good it is, and what mends it; Report, a
//            list of them.
// Shape:     FAIL: Ring does not do here what was asked of it. WARN: it does, slower, or until some
//            limit is met. Both come with what mends it, a command wherever one does.
// Ownership: values.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TOOLS_RINGCTL_DOCTOR_FINDING_H_
#define RING_TOOLS_RINGCTL_DOCTOR_FINDING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace ring::tools {

enum class Level : std::uint8_t { kOk, kWarn, kFail };

constexpr absl::string_view LevelName(Level level) {
  return level == Level::kOk ? "OK" : level == Level::kWarn ? "WARN" : "FAIL";
}

struct Finding {
  std::string check;  // "memlock", "port rxe0/1"
  Level level = Level::kOk;
  std::string found;
  std::string remedy;  // empty with OK
  friend bool operator==(const Finding&, const Finding&) = default;
};

class Report {
 public:
  void Ok(std::string check, std::string found) {
    findings_.push_back({std::move(check), Level::kOk, std::move(found), ""});
  }
  // A level of OK leaves the remedy out.
  void Add(Level level, std::string check, std::string found, std::string remedy) {
    if (level == Level::kOk) return Ok(std::move(check), std::move(found));
    findings_.push_back({std::move(check), level, std::move(found), std::move(remedy)});
  }
  const std::vector<Finding>& findings() const { return findings_; }
  Level worst() const {
    Level worst = Level::kOk;
    for (const Finding& one : findings_) worst = std::max(worst, one.level);
    return worst;
  }

 private:
  std::vector<Finding> findings_;
};

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_FINDING_H_
