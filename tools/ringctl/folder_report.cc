#include "tools/ringctl/folder_report.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/common/program.h"
#include "tools/ringctl/output.h"

namespace ring::tools {

void FolderReport::Problem(const std::string& kind, const std::string& key,
                           const std::string& what) {
  ++problem_count_;
  counts_[kind] = counts_.value(kind, std::uint64_t{0}) + 1;
  if (problem_count_ > kShownMax) return;
  nlohmann::json problem = {{"kind", kind}};
  SetBytes(&problem, "key", key);
  SetBytes(&problem, "message", what);
  problems_.push_back(std::move(problem));
  lines_.push_back(absl::StrCat(kind, " key=", ShowBytes(key), ": ", what));
}

void FolderReport::Print(const std::string& verb, const Folder& folder, double seconds,
                         bool json) const {
  if (json) {
    PrintJson({{"files", files_},
               {"bytes", bytes_},
               {"left_out", folder.left_out},
               {"seconds", seconds},
               {"problem_count", problem_count_},
               {"counts", counts_},
               {"problems", problems_}});
    return;
  }
  for (const std::string& line : lines_) PrintError("ringctl", line);
  if (problem_count_ > kShownMax) {
    PrintError("ringctl", absl::StrCat("and ", problem_count_ - kShownMax, " more"));
  }
  std::string line =
      absl::StrCat(verb, " files=", files_, " of ", folder.files.size(), " bytes=", bytes_, " (",
                   FormatBytes(static_cast<double>(bytes_)), ") in ", FormatNs(seconds * 1e9));
  for (const auto& [kind, count] : counts_.items()) {
    absl::StrAppend(&line, " ", kind, "=", count.get<std::uint64_t>());
  }
  if (folder.left_out != 0) absl::StrAppend(&line, " left_out=", folder.left_out);
  std::printf("%s\n", line.c_str());
}

}  // namespace ring::tools
