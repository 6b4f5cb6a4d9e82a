#include "tools/common/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ring::tools {

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create(absl::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      absl::StrCat(base == nullptr || *base == '\0' ? "/tmp" : base, "/", prefix, "XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("mkdtemp path=", path, ": ", std::strerror(errno)));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ring::tools
