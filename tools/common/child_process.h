// tools/common/child_process.h — a program that runs beside this one, and never outlives it.
//
// What:      ChildProcess: starts a program with its stdout on a pipe; reads its lines; stops it by
//            its process id: SIGTERM, then SIGKILL. FindProgram: where there is one.
// Ownership: the object owns the process; the destructor stops it. The kernel ends the child when
//            the thread that started it ends.
// Threads:   thread-compatible; start it from a thread that lives as long as the child.
// Errors:    kNotFound (no such program), kUnavailable (it ended or cannot start),
//            kDeadlineExceeded.
#ifndef RING_TOOLS_COMMON_CHILD_PROCESS_H_
#define RING_TOOLS_COMMON_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ring::tools {

class ChildProcess {
 public:
  // argv[0] is a path, or a name for PATH.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of its stdout that begins with prefix, without the line feed; others are dropped.
  absl::StatusOr<std::string> ReadLine(absl::string_view prefix, absl::Duration timeout);
  // Waits for its end, and gives the wait status. Errors: kDeadlineExceeded: it is at work.
  absl::StatusOr<int> AwaitEnd(absl::Duration timeout);
  // SIGTERM, and SIGKILL after the grace. Gives the wait status. Idempotent.
  int Stop(absl::Duration grace = absl::Seconds(2));

 private:
  ChildProcess(pid_t pid, int output, std::string name)
      : pid_(pid), output_(output), name_(std::move(name)) {}
  bool Wait(absl::Duration timeout);

  pid_t pid_;
  int output_;
  std::string name_;
  std::string buffer_;
  bool ended_ = false;
  int status_ = 0;
};

// A program of this build or installation: beside this one, in the sibling folder of its name, or
// in PATH. Errors: kNotFound.
absl::StatusOr<std::string> FindProgram(absl::string_view name);

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_CHILD_PROCESS_H_
