// consensus/file/file_io.h — the few file operations that the storage needs, with statuses.
//
// What:      File, a descriptor that closes itself; whole-file reads, writes that last, locks.
// Ownership: a File owns its descriptor.
// Threads:   thread-compatible; every call may block.
// Errors:    of the operating system, by errno (absl::ErrnoToStatus), with the path.
#ifndef RING_CONSENSUS_FILE_FILE_IO_H_
#define RING_CONSENSUS_FILE_FILE_IO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::consensus {

// Makes a descriptor's content durable: 0, or -1 and errno. ::fsync, unless a test wants failures.
using SyncFunction = int (*)(int fd);

class File {
 public:
  File() = default;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~File();
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept;

  static absl::StatusOr<File> Open(const std::string& path, int flags);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  absl::Status WriteAt(std::uint64_t offset, absl::string_view bytes);
  absl::Status Truncate(std::uint64_t size);
  absl::Status Sync(SyncFunction sync);

 private:
  int fd_ = -1;
  std::string path_;
};

absl::Status ErrnoStatus(absl::string_view operation, absl::string_view path);

absl::StatusOr<std::string> ReadFile(const std::string& path);
// Under a temporary name, then renamed: there is the whole file or none, and it lasts. After an
// error nothing is left under the temporary name, but the file may be there.
absl::Status WriteFile(const std::string& directory, const std::string& name,
                       absl::string_view bytes, SyncFunction sync);
absl::Status SyncDirectory(const std::string& directory, SyncFunction sync);
absl::Status RemoveFile(const std::string& path);
// The names in a directory, sorted.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& directory);
// Creates the directory, for good, unless it is there; its parent must be.
absl::Status MakeDirectory(const std::string& directory, SyncFunction sync);
// Holds the lock as long as the File lives. kFailedPrecondition when another process does.
absl::StatusOr<File> LockFile(const std::string& path);

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_FILE_FILE_IO_H_
