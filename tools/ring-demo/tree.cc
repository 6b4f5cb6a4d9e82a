#include "tools/ring-demo/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tools/common/format.h"

namespace ring::tools {
namespace {

namespace fs = std::filesystem;

absl::Status FileStatus(const std::string& path, int error) {
  const std::string text = absl::StrCat("file=", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<Tree> ListTree(const std::string& folder, std::uint64_t size_max,
                              std::size_t key_size_max) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("folder=", folder, " is no folder"));
  }
  Tree tree;
  auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied,
                                             error);
  const auto end = fs::recursive_directory_iterator();
  for (; !error && it != end; it.increment(error)) {
    const fs::file_status status = it->symlink_status(error);
    if (error || !fs::is_regular_file(status)) continue;
    TreeFile file{.key = it->path().lexically_relative(folder).string(),
                  .path = it->path().string(),
                  .size = it->file_size(error)};
    if (error) {
      tree.skipped.push_back(absl::StrCat(file.path, ": ", error.message()));
      error.clear();
    } else if (file.size > size_max) {
      tree.skipped.push_back(
          absl::StrCat(file.path, ": larger than ", FormatBytes(static_cast<double>(size_max))));
    } else if (file.key.size() > key_size_max) {
      tree.skipped.push_back(absl::StrCat(file.path, ": path longer than ", key_size_max));
    } else {
      tree.bytes += file.size;
      tree.files.push_back(std::move(file));
    }
  }
  if (error) return FileStatus(folder, error.value());
  std::sort(tree.files.begin(), tree.files.end(),
            [](const TreeFile& a, const TreeFile& b) { return a.key < b.key; });
  return tree;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return FileStatus(path, errno);
  std::string bytes;
  struct stat info {};
  if (fstat(fd, &info) == 0) bytes.reserve(static_cast<std::size_t>(info.st_size));
  std::string chunk(256 * 1024, '\0');
  while (true) {
    const ssize_t size = read(fd, chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      const int error = errno;
      close(fd);
      return FileStatus(path, error);
    }
    if (size == 0) break;
    bytes.append(chunk.data(), static_cast<std::size_t>(size));
  }
  close(fd);
  return bytes;
}

}  // namespace ring::tools
