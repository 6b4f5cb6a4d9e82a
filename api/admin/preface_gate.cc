#include "api/admin/preface_gate.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::admin {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";  // RFC 9113, 3.4

enum class Said { kNothingYet, kThePreface, kOther };

// What a peer has sent so far; it stays in the socket, for gRPC.
Said Look(int fd) {
  std::array<char, kPreface.size()> bytes;
  const ssize_t size = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? Said::kNothingYet : Said::kOther;
  if (size == 0) return Said::kOther;  // it went
  const absl::string_view said(bytes.data(), static_cast<std::size_t>(size));
  if (said != kPreface.substr(0, said.size())) return Said::kOther;
  return said.size() == kPreface.size() ? Said::kThePreface : Said::kNothingYet;
}

}  // namespace

PrefaceGate::PrefaceGate() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  RING_CHECK(epoll_fd_ >= 0) << "epoll_create1 errno=" << errno;
}

PrefaceGate::~PrefaceGate() {
  for (const Waiting& one : waiting_) close(one.fd);
  close(epoll_fd_);
}

int PrefaceGate::TimeoutMs(std::int64_t now_ms) const {
  if (waiting_.empty()) return -1;
  return static_cast<int>(std::max<std::int64_t>(waiting_.front().until_ms - now_ms, 0));
}

void PrefaceGate::Add(int fd, std::int64_t now_ms) {
  if (waiting_.size() == kWaitingMax) {
    RefuseOne(waiting_.begin(), "too many connections that say nothing");
  }
  const auto one = waiting_.insert(waiting_.end(), {fd, now_ms + kWaitMs, {}});
  one->self = one;
  // By edges: a piece of the preface is looked at once, when it comes.
  epoll_event event{EPOLLIN | EPOLLRDHUP | EPOLLET, {.ptr = &*one}};
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {  // the system is out of memory for it
    RefuseOne(one, "the system cannot wait for it");
  }
}

void PrefaceGate::Turn(std::int64_t now_ms, absl::FunctionRef<void(int)> give) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto one = static_cast<Waiting*>(events[static_cast<std::size_t>(i)].data.ptr)->self;
    const Said said = Look(one->fd);
    if (said == Said::kNothingYet) continue;
    if (said == Said::kOther) {
      RefuseOne(one, "this port speaks gRPC over HTTP/2");
      continue;
    }
    give(Remove(one));
  }
  while (!waiting_.empty() && waiting_.front().until_ms <= now_ms) {
    RefuseOne(waiting_.begin(), "no HTTP/2 preface came in time");
  }
}

void PrefaceGate::RefuseOne(std::list<Waiting>::iterator one, absl::string_view why) {
  Refuse(Remove(one), why);
}

int PrefaceGate::Remove(std::list<Waiting>::iterator one) {
  const int fd = one->fd;
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);  // a child may hold the socket, too
  waiting_.erase(one);
  return fd;
}

void PrefaceGate::Refuse(int fd, absl::string_view why) {
  const std::string reason = absl::StrCat("refused: ", why);
  // RFC 9113: an empty SETTINGS frame must come first (3.4); GOAWAY with ENHANCE_YOUR_CALM (6.8).
  std::string frames("\0\0\0\x04\0\0\0\0\0", 9);
  frames += {'\0', '\0', static_cast<char>(8 + reason.size())};
  frames.append("\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b", 14);
  frames += reason;
  send(fd, frames.data(), frames.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  // What the peer sent and nobody read would make the close a reset, which takes the reason away.
  std::array<char, 1024> unread;
  while (recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
  }
  close(fd);
}

}  // namespace ring::admin
