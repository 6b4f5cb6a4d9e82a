// tests/rdma/child_process.h — a forked process that a test can stop, resume and kill.
//
// What:      ChildProcess runs a function in a fork, with a byte channel to the parent.
// Ownership: the destructor kills and reaps the child.
// Threads:   fork before the parent has any thread, socket or device: the child must inherit none
//            of them.
// Errors:    waits end after a deadline that only a hang reaches; the child exits with what its
//            function gives.
#ifndef RING_TESTS_RDMA_CHILD_PROCESS_H_
#define RING_TESTS_RDMA_CHILD_PROCESS_H_

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "tests/support/await.h"

namespace ring::rdma {

// One end of the channel.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  bool Tell(char what) const { return send(fd_, &what, 1, MSG_NOSIGNAL) == 1; }
  // Waits for that very byte.
  bool Await(char what) const {
    pollfd entry{fd_, POLLIN, 0};
    char got = 0;
    return poll(&entry, 1, kDeadlineMs) == 1 && recv(fd_, &got, 1, 0) == 1 && got == what;
  }
  bool Ready() const {
    pollfd entry{fd_, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }
  static constexpr int kDeadlineMs = 20'000;

 private:
  int fd_;
};

class ChildProcess {
 public:
  explicit ChildProcess(absl::FunctionRef<int(Channel)> body) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) abort();
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);  // the parent ended before the line above
      close(fds[0]);
      _exit(body(Channel(fds[1])));
    }
    close(fds[1]);
    fd_ = fds[0];
  }
  ~ChildProcess() {
    if (pid_ > 0) Kill();
    close(fd_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Channel channel() const { return Channel(fd_); }
  void Signal(int number) const { kill(pid_, number); }
  // Ends the child and waits until it is gone.
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);  // no process outlives it
    pid_ = -1;
  }
  // Waits until the child has stopped itself.
  bool AwaitStopped() const {
    int status = 0;
    return Changes(WUNTRACED, &status) && WIFSTOPPED(status);
  }
  // The child's exit code, or -1 when it did not exit by itself.
  int AwaitExit() {
    int status = 0;
    if (!Changes(0, &status)) return -1;  // the destructor kills it
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  bool Changes(int options, int* status) const {
    return testing::HoldsWithin(
        absl::Milliseconds(Channel::kDeadlineMs),
        [&] { return waitpid(pid_, status, options | WNOHANG) == pid_; }, absl::Milliseconds(1));
  }

  pid_t pid_ = -1;
  int fd_ = -1;
};

}  // namespace ring::rdma

#endif  // RING_TESTS_RDMA_CHILD_PROCESS_H_
