#include "tools/ringctl/folder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/ringctl/output.h"

namespace ring::tools {

absl::StatusOr<Folder> ListFolder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat("folder=", ShowBytes(path), " does not exist"));
  }
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat("folder=", ShowBytes(path), " is no folder"));
  }
  Folder folder;
  fs::recursive_directory_iterator walk(path, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    const fs::directory_entry& entry = *walk;
    std::error_code entry_error;
    const fs::file_type type = entry.symlink_status(entry_error).type();
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular) {
      ++folder.left_out;
      continue;
    }
    FolderFile file{entry.path().lexically_relative(path).string(), entry.path().string(), 0};
    file.size = entry.file_size(entry_error);
    if (entry_error) file.size = 0;  // reading it tells why
    folder.files.push_back(std::move(file));
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot list folder=", ShowBytes(path), ": ", error.message()));
  }
  std::sort(folder.files.begin(), folder.files.end(),
            [](const FolderFile& a, const FolderFile& b) { return a.key < b.key; });
  return folder;
}

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
  for (const std::string& line : lines_) std::fprintf(stderr, "ringctl: %s\n", line.c_str());
  if (problem_count_ > kShownMax) {
    std::fprintf(stderr, "ringctl: and %s more\n",
                 absl::StrCat(problem_count_ - kShownMax).c_str());
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
