// tools/common/folder.h — the files of a folder as keys and values, and files whole.
//
// What:      ListFolder: the regular files below a folder; a file's key is its path from it.
//            ReadWhole, WriteWhole: a file, or the standard streams, in one piece.
// Shape:     sorted by key; symbolic links, devices and sockets are left out and counted.
// Units:     bytes.
// Threads:   pure but for the file system.
// Errors:    kNotFound, kPermissionDenied, kResourceExhausted, kUnavailable naming the file;
//            kInvalidArgument: a folder in a file's place or the other way round, or too large.
#ifndef RING_TOOLS_COMMON_FOLDER_H_
#define RING_TOOLS_COMMON_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::tools {

struct FolderFile {
  std::string key;   // bytes as the file system has them: no encoding is meant
  std::string path;  // to open it
  std::uint64_t size = 0;
};

struct Folder {
  std::vector<FolderFile> files;
  std::uint64_t left_out = 0;
};

absl::StatusOr<Folder> ListFolder(const std::string& path);

// "-" is stdin. Reads at most size_max bytes; a larger file is refused with its size named.
absl::StatusOr<std::string> ReadWhole(const std::string& path, std::uint64_t size_max);
// "-" is stdout. A file appears whole or not at all.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes);

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_FOLDER_H_
