#include "tools/common/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ring/base/status.h"
#include "tools/common/ticks.h"

namespace ring::tools {
namespace {

absl::Status ErrnoStatus(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// After fork: only calls that are safe between threads. Ends the process.
[[noreturn]] void Execute(char* const* argv, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);     // one that is stopped (SIGSTOP) would not end by another
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  dup2(output, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus("pipe");
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Execute(arguments.data(), ends[1], parent);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return ErrnoStatus("fork");
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, ends[0], argv.front()));
}

ChildProcess::~ChildProcess() {
  Stop();
  close(output_);
}

absl::StatusOr<std::string> ChildProcess::ReadLine(absl::string_view prefix,
                                                   absl::Duration timeout) {
  const std::uint64_t end =
      MonotonicNs() + static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(timeout));
  while (true) {
    for (std::size_t feed; (feed = buffer_.find('\n')) != std::string::npos;) {
      std::string line = buffer_.substr(0, feed);
      buffer_.erase(0, feed + 1);
      if (absl::StartsWith(line, prefix)) return line;
    }
    const std::uint64_t now = MonotonicNs();
    if (now >= end) {
      return absl::DeadlineExceededError(absl::StrCat("program=", name_, " printed no line \"",
                                                      prefix, "...\" within ",
                                                      absl::FormatDuration(timeout)));
    }
    pollfd input{output_, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>((end - now) / 1'000'000) + 1) <= 0) continue;
    std::array<char, 4096> bytes{};
    const ssize_t size = read(output_, bytes.data(), bytes.size());
    if (size > 0) {
      buffer_.append(bytes.data(), static_cast<std::size_t>(size));
    } else if (size == 0) {
      return absl::UnavailableError(
          absl::StrCat("program=", name_, " ended: its messages are on stderr"));
    }
  }
}

bool ChildProcess::Wait(absl::Duration timeout) {
  if (ended_) return true;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (fd >= 0) {
    pollfd end{fd, POLLIN, 0};
    poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    close(fd);
  }
  // Without pidfd (before Linux 5.3) the process is waited for without a bound.
  if (waitpid(pid_, &status_, fd >= 0 ? WNOHANG : 0) == pid_) ended_ = true;
  return ended_;
}

absl::StatusOr<int> ChildProcess::AwaitEnd(absl::Duration timeout) {
  if (Wait(timeout)) return status_;
  return absl::DeadlineExceededError(
      absl::StrCat("program=", name_, " did not end within ", absl::FormatDuration(timeout)));
}

int ChildProcess::Stop(absl::Duration grace) {
  if (ended_) return status_;
  kill(pid_, SIGTERM);
  if (!Wait(grace)) {
    kill(pid_, SIGKILL);
    Wait(absl::Seconds(10));
  }
  return status_;
}

absl::StatusOr<std::string> FindProgram(absl::string_view name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> candidates = {self / std::string(name),
                                      self.parent_path() / std::string(name) / std::string(name)};
  if (const char* path = std::getenv("PATH"); path != nullptr) {
    for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      candidates.push_back(fs::path(std::string(folder)) / std::string(name));
    }
  }
  for (const fs::path& candidate : candidates) {
    if (fs::is_regular_file(candidate, error) && access(candidate.c_str(), X_OK) == 0) {
      return candidate.string();
    }
  }
  return absl::NotFoundError(absl::StrCat("program=", name,
                                          " is neither beside this one nor in "
                                          "PATH: build or install it"));
}

}  // namespace ring::tools
