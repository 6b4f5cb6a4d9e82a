// tools/ringctl/folder.h — a folder as keys and values.
//
// What:      ListFolder: the regular files below a folder; a file's key is its path relative to it.
//            FolderReport: what load and verify found, for people and as JSON.
// Shape:     sorted by key; symbolic links, devices and sockets are left out and counted.
// Threads:   one.
// Errors:    kNotFound, kInvalidArgument (no folder), kUnavailable (cannot be read).
#ifndef RING_TOOLS_RINGCTL_FOLDER_H_
#define RING_TOOLS_RINGCTL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace ring::tools {

// Bytes of values that are under way at the same time.
inline constexpr std::uint64_t kBytesUnderWayMax = std::uint64_t{64} << 20;

struct FolderFile {
  std::string key;
  std::string path;
  std::uint64_t size = 0;
};

struct Folder {
  std::vector<FolderFile> files;
  std::uint64_t left_out = 0;
};

absl::StatusOr<Folder> ListFolder(const std::string& path);

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

#endif  // RING_TOOLS_RINGCTL_FOLDER_H_
