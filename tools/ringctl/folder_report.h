// tools/ringctl/folder_report.h — what load and verify found in a folder.
//
// What:      FolderReport: how many files and bytes, and what was wrong with which of them, for
//            people and as JSON.
// Threads:   one.
// Errors:    none.
#ifndef RING_TOOLS_RINGCTL_FOLDER_REPORT_H_
#define RING_TOOLS_RINGCTL_FOLDER_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/common/folder.h"

namespace ring::tools {

class FolderReport {
 public:
  void Done(std::uint64_t size) {
    ++files_;
    bytes_ += size;
  }
  // kind: "missing", "different", "failed"...
  void Problem(const std::string& kind, const std::string& key, const std::string& what);
  bool ok() const { return problem_count_ == 0; }
  // Lines on stderr, at most 100, and one line on stdout; or one JSON object on stdout.
  void Print(const std::string& verb, const Folder& folder, double seconds, bool json) const;

 private:
  static constexpr std::uint64_t kShownMax = 100;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t problem_count_ = 0;
  nlohmann::json counts_ = nlohmann::json::object();
  std::vector<nlohmann::json> problems_;
  std::vector<std::string> lines_;
};

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_FOLDER_REPORT_H_
