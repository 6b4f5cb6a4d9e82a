// tools/ringctl/folder_work.h — one operation for every file of a folder, many at a time.
//
// What:      RunFolderWork lists the folder, connects, begins an operation for each file that can
//            be read, waits for all of them, and prints the report.
// Shape:     as many under way as the client's window allows, and kBytesUnderWayMax of values.
// Threads:   one.
// Errors:    the exit code. A file that cannot be read, and an operation that failed, are problems
//            in the report.
#ifndef RING_TOOLS_RINGCTL_FOLDER_WORK_H_
#define RING_TOOLS_RINGCTL_FOLDER_WORK_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "api/client.h"
#include "tools/common/progress.h"
#include "tools/ringctl/folder_report.h"
#include "tools/ringctl/options.h"

namespace ring::tools {

// Bytes of values that are under way at the same time.
inline constexpr std::uint64_t kBytesUnderWayMax = std::uint64_t{64} << 20;

// A run over a folder, as its operations see it.
class FolderWork {
 public:
  FolderWork(Client* client, const std::string& name, std::size_t file_count)
      : client_(*client), progress_(name, file_count) {}

  Client& client() { return client_; }
  FolderReport& report() { return report_; }
  // Waits until there is room for so many bytes; Ended gives it back.
  void Begin(std::uint64_t size);
  void Ended(std::uint64_t size);
  // Waits for all; every operation ends by its own deadline.
  void Finish();

 private:
  Client& client_;
  Progress progress_;
  FolderReport report_;
  std::uint64_t under_way_ = 0;
};

struct FolderCommand {
  std::string name;        // of the subcommand
  std::string done;        // what it did, for the report
  std::string unreadable;  // the kind of problem that a file is which cannot be read
};

// prepare: asked once, before the first file. start: begins the operation of a file, which calls
// work.Ended(value.size()) once, when it ended.
int RunFolderWork(
    const Options& options, const FolderCommand& command, const std::string& path,
    absl::FunctionRef<absl::Status(Client& client)> prepare,
    absl::FunctionRef<void(FolderWork& work, const FolderFile& file, std::string value)> start);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_FOLDER_WORK_H_
