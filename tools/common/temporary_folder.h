// tools/common/temporary_folder.h — a folder that is gone with the object.
//
// What:      TemporaryFolder::Create makes one below TMPDIR, or /tmp. Its name begins with prefix.
// Ownership: owns the folder and what is in it.
// Threads:   thread-compatible.
// Errors:    kUnavailable, with what the system said.
#ifndef RING_TOOLS_COMMON_TEMPORARY_FOLDER_H_
#define RING_TOOLS_COMMON_TEMPORARY_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::tools {

class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Create(absl::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_TEMPORARY_FOLDER_H_
