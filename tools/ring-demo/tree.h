// tools/ring-demo/tree.h — the files of a folder, as keys and values.
//
// What:      ListTree: the regular files below a folder, keyed by their path from it, in order.
//            ReadWhole: the bytes of one.
// Units:     bytes.
// Threads:   pure but for the file system.
// Errors:    kNotFound, kPermissionDenied, kUnavailable naming the file. Files that cannot be
//            values are left out with a reason; symbolic links are not followed.
#ifndef RING_TOOLS_RING_DEMO_TREE_H_
#define RING_TOOLS_RING_DEMO_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ring::tools {

struct TreeFile {
  std::string key;   // bytes as the file system has them: no encoding is meant
  std::string path;  // to open it
  std::uint64_t size = 0;
};

struct Tree {
  std::vector<TreeFile> files;
  std::uint64_t bytes = 0;
  std::vector<std::string> skipped;  // "path: reason"
};

absl::StatusOr<Tree> ListTree(const std::string& folder, std::uint64_t size_max,
                              std::size_t key_size_max);
absl::StatusOr<std::string> ReadWhole(const std::string& path);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_DEMO_TREE_H_
