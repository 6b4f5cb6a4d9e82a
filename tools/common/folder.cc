#include "tools/common/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"

namespace ring::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadStep = 256 * 1024;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status FileError(absl::string_view verb, const std::string& path, int error) {
  const std::string what =
      absl::StrCat("cannot ", verb, " file=", ShowBytes(path), ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(what);
  if (error == EACCES) return absl::PermissionDeniedError(what);
  if (error == EISDIR || error == ENOTDIR) return absl::InvalidArgumentError(what);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(what);
  return absl::UnavailableError(what);
}

absl::Status TooLarge(const std::string& path, absl::string_view size, std::uint64_t size_max) {
  return absl::InvalidArgumentError(absl::StrCat(
      "file=", path == "-" ? "stdin" : ShowBytes(path), " has size=", size, ", a value may have ",
      size_max, " (", FormatBytes(static_cast<double>(size_max)), "): split it"));
}

}  // namespace

absl::StatusOr<Folder> ListFolder(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat("folder=", ShowBytes(path), " does not exist"));
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot look at folder=", ShowBytes(path), ": ", error.message()));
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

absl::StatusOr<std::string> ReadWhole(const std::string& path, std::uint64_t size_max) {
  std::unique_ptr<std::FILE, Closer> owned;
  std::FILE* file = stdin;
  if (path != "-") {
    owned.reset(std::fopen(path.c_str(), "rb"));
    if (owned == nullptr) return FileError("read", path, errno);
    file = owned.get();
  }
  std::string bytes;
  struct stat info {};
  if (fstat(fileno(file), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return FileError("read", path, EISDIR);
    if (S_ISREG(info.st_mode)) {
      const auto size = static_cast<std::uint64_t>(info.st_size);
      if (size > size_max) return TooLarge(path, absl::StrCat(size), size_max);
      bytes.reserve(size);
    }
  }
  for (std::size_t got = kReadStep; got == kReadStep;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + kReadStep);
    got = std::fread(bytes.data() + size, 1, kReadStep, file);
    bytes.resize(size + got);
    if (std::ferror(file) != 0) return FileError("read", path, errno);
    if (bytes.size() > size_max) return TooLarge(path, absl::StrCat(">", size_max), size_max);
  }
  return bytes;
}

absl::Status WriteWhole(const std::string& path, absl::string_view bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) {
      return FileError("write", "stdout", errno);
    }
    return absl::OkStatus();
  }
  struct stat info {};
  // A pipe, a device or a link is written in place; a name beside it would not be the same thing.
  const bool special = lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string target = special ? path : absl::StrCat(path, ".part-", getpid());
  std::FILE* file = std::fopen(target.c_str(), "wb");
  if (file == nullptr) return FileError("write", path, errno);
  int error = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0 && !special && std::rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (!special) std::remove(target.c_str());
  return FileError("write", path, error);
}

}  // namespace ring::tools
