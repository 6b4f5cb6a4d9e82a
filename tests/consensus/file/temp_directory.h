// tests/consensus/file/temp_directory.h — a directory that goes away with the test.
//
// What:      TempDirectory: path() is empty of files at the start.
// Ownership: removes the directory with everything in it.
// Threads:   thread-compatible.
// Errors:    ends the process when no directory can be made.
#ifndef RING_TESTS_CONSENSUS_FILE_TEMP_DIRECTORY_H_
#define RING_TESTS_CONSENSUS_FILE_TEMP_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "ring/base/check.h"

namespace ring::consensus {

class TempDirectory {
 public:
  TempDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "ring-consensus-XXXXXX").string();
    RING_CHECK(::mkdtemp(name.data()) != nullptr) << name;
    path_ = name;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ring::consensus

#endif  // RING_TESTS_CONSENSUS_FILE_TEMP_DIRECTORY_H_
