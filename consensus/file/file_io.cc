#include "consensus/file/file_io.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::consensus {
namespace {

constexpr absl::string_view kTemporary = ".tmp";

absl::Status WriteNew(const std::string& path, absl::string_view bytes, SyncFunction sync) {
  RING_ASSIGN_OR_RETURN(File file, File::Open(path, O_WRONLY | O_CREAT | O_TRUNC));
  RING_RETURN_IF_ERROR(file.WriteAt(0, bytes));
  return file.Sync(sync);
}

}  // namespace

absl::Status ErrnoStatus(absl::string_view operation, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(operation, " ", path));
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

absl::StatusOr<File> File::Open(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus("open", path);
  return File(fd, path);
}

absl::Status File::WriteAt(std::uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("write", path_);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::Status File::Truncate(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return ErrnoStatus("truncate", path_);
  return absl::OkStatus();
}

absl::Status File::Sync(SyncFunction sync) {
  if (sync(fd_) != 0) return ErrnoStatus("fsync", path_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  RING_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY));
  std::string bytes;
  char buffer[64 * 1024];
  for (;;) {
    const ssize_t size = ::read(file.fd(), buffer, sizeof(buffer));
    if (size == 0) return bytes;
    if (size > 0) {
      bytes.append(buffer, static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      return ErrnoStatus("read", path);
    }
  }
}

absl::Status WriteFile(const std::string& directory, const std::string& name,
                       absl::string_view bytes, SyncFunction sync) {
  const std::string path = absl::StrCat(directory, "/", name);
  const std::string temporary = absl::StrCat(path, kTemporary);
  absl::Status status = WriteNew(temporary, bytes, sync);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = ErrnoStatus("rename", temporary);
  if (!status.ok()) {
    // What does not fit may hold the last blocks of a disk on which less would.
    RemoveFile(temporary).IgnoreError();
    return status;
  }
  return SyncDirectory(directory, sync);
}

absl::Status SyncDirectory(const std::string& directory, SyncFunction sync) {
  RING_ASSIGN_OR_RETURN(File file, File::Open(directory, O_RDONLY | O_DIRECTORY));
  return file.Sync(sync);
}

absl::Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return ErrnoStatus("remove", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& directory) {
  DIR* const handle = ::opendir(directory.c_str());
  if (handle == nullptr) return ErrnoStatus("open", directory);
  std::vector<std::string> names;
  errno = 0;  // which alone tells the end from a failure
  while (const dirent* const entry = ::readdir(handle)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const absl::Status listed = errno == 0 ? absl::OkStatus() : ErrnoStatus("list", directory);
  ::closedir(handle);
  RING_RETURN_IF_ERROR(listed);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status MakeDirectory(const std::string& directory, SyncFunction sync) {
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
    return ErrnoStatus("create", directory);
  // One that is there may have been made by a process that ended before this. Who may not read the
  // parent did not make it.
  const absl::Status synced = SyncDirectory(absl::StrCat(directory, "/.."), sync);
  return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;
}

absl::StatusOr<File> LockFile(const std::string& path) {
  RING_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT));
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return ErrnoStatus("lock", path);
  return absl::FailedPreconditionError(absl::StrCat(path, ": another process uses this directory"));
}

}  // namespace ring::consensus
