#include "tools/ring-bench/peer_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ring::bench {
namespace {

absl::Status ErrnoStatus(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status NoAnswer(absl::string_view text) {
  return absl::InternalError(absl::StrCat("the server answered \"", text.substr(0, 80), "\""));
}

// The whole of a Redis answer: a line, or a bulk string.
absl::StatusOr<std::size_t> RedisAnswerSize(absl::string_view text, absl::string_view line) {
  const std::size_t line_size = line.size() + 2;
  if (line.empty() || line.front() == '-') return NoAnswer(line);
  if (line.front() != '$') return line_size;
  std::int64_t size = 0;
  if (!absl::SimpleAtoi(line.substr(1), &size)) return NoAnswer(line);
  if (size < 0) return absl::InternalError("a key is missing");
  const std::size_t whole = line_size + static_cast<std::size_t>(size) + 2;
  return text.size() < whole ? 0 : whole;
}

absl::StatusOr<std::size_t> MemcachedAnswerSize(absl::string_view text, absl::string_view line) {
  const std::size_t line_size = line.size() + 2;
  if (line == "STORED") return line_size;
  if (line == "END") return absl::InternalError("a key is missing");
  if (!absl::StartsWith(line, "VALUE ")) return NoAnswer(line);
  std::size_t size = 0;
  if (!absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &size)) return NoAnswer(line);
  const std::size_t whole = line_size + size + std::strlen("\r\nEND\r\n");
  return text.size() < whole ? 0 : whole;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerConnection>> PeerConnection::Connect(
    const PeerAddress& address) {
  const bool local = !address.unix_path.empty();
  const int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus("socket");
  std::unique_ptr<PeerConnection> connection(new PeerConnection(fd, address));
  int result = -1;
  if (local) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (address.unix_path.size() >= sizeof(name.sun_path)) {
      return absl::UnavailableError(absl::StrCat("path=", address.unix_path, " is too long"));
    }
    std::memcpy(name.sun_path, address.unix_path.data(), address.unix_path.size());
    result = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  } else {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(address.port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    result = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (result != 0) return ErrnoStatus(absl::StrCat("connect port=", address.port));
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return connection;
}

PeerConnection::~PeerConnection() { close(fd_); }

void PeerConnection::Get(const KeyName& key) {
  if (address_.protocol == PeerProtocol::kRedis) {
    absl::StrAppend(&out_, "*2\r\n$3\r\nGET\r\n$16\r\n", key.view(), "\r\n");
  } else {
    absl::StrAppend(&out_, "get ", key.view(), "\r\n");
  }
  ++outstanding_;
  answers_of_.push_back(1);
}

void PeerConnection::Put(const KeyName& key, absl::string_view value) {
  if (address_.protocol == PeerProtocol::kRedis) {
    absl::StrAppend(&out_, "*3\r\n$3\r\nSET\r\n$16\r\n", key.view(), "\r\n$", value.size(), "\r\n");
    absl::StrAppend(&out_, value, "\r\n");
    if (address_.wait_for_replica) {
      absl::StrAppend(&out_, "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n0\r\n");
    }
  } else {
    absl::StrAppend(&out_, "set ", key.view(), " 0 0 ", value.size(), "\r\n");
    absl::StrAppend(&out_, value, "\r\n");
  }
  ++outstanding_;
  answers_of_.push_back(address_.wait_for_replica ? 2 : 1);
}

absl::Status PeerConnection::Send() {
  while (sent_ < out_.size()) {
    const ssize_t size = send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
    if (size < 0) return ErrnoStatus("send");
    sent_ += static_cast<std::size_t>(size);
  }
  out_.clear();
  sent_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> PeerConnection::AnswerSize(absl::string_view text) const {
  const std::size_t end = text.find("\r\n");
  if (end == absl::string_view::npos) return 0;
  const absl::string_view line = text.substr(0, end);
  return address_.protocol == PeerProtocol::kRedis ? RedisAnswerSize(text, line)
                                                   : MemcachedAnswerSize(text, line);
}

absl::StatusOr<std::size_t> PeerConnection::TakeAnswers() {
  std::size_t ended = 0;
  while (outstanding_ > 0) {
    const absl::StatusOr<std::size_t> size = AnswerSize(absl::string_view(in_).substr(taken_));
    if (!size.ok()) return size.status();
    if (*size == 0) break;
    taken_ += *size;
    if (--answers_of_.front() != 0) continue;
    answers_of_.pop_front();
    --outstanding_;
    ++ended;
  }
  if (taken_ == in_.size()) {
    in_.clear();
    taken_ = 0;
  } else if (taken_ > 256 * 1024) {
    in_.erase(0, taken_);
    taken_ = 0;
  }
  return ended;
}

absl::StatusOr<std::size_t> PeerConnection::Poll() {
  if (const absl::Status status = Send(); !status.ok()) return status;
  constexpr std::size_t kChunk = 64 * 1024;
  const std::size_t had = in_.size();
  in_.resize(had + kChunk);
  const ssize_t size = recv(fd_, in_.data() + had, kChunk, 0);
  in_.resize(had + static_cast<std::size_t>(size > 0 ? size : 0));
  if (size == 0) return absl::UnavailableError("the server closed the connection");
  if (size < 0 && errno != EAGAIN && errno != EINTR) return ErrnoStatus("recv");
  return size > 0 ? TakeAnswers() : 0;
}

absl::StatusOr<std::string> PeerConnection::Command(absl::string_view line) {
  absl::StrAppend(&out_, line, "\r\n");
  while (true) {
    if (const absl::Status status = Send(); !status.ok()) return status;
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 5000) <= 0) return absl::DeadlineExceededError(line);
    char bytes[4096];
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    if (size <= 0) return ErrnoStatus("recv");
    in_.append(bytes, static_cast<std::size_t>(size));
    if (absl::EndsWith(in_, "\r\n")) return std::exchange(in_, {});
  }
}

}  // namespace ring::bench
