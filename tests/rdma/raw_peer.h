// tests/rdma/raw_peer.h — a socket that speaks the bytes of a test's choice to a tcp listener.
//
// What:      RawPeer; Bytes (a frame as it travels); RawPeerTest, a side that listens.
// Threads:   the test's: the side makes progress only in Until and CollectEvents.
// Errors:    waits are bounded by a deadline that only a hang reaches.
#ifndef RING_TESTS_RDMA_RAW_PEER_H_
#define RING_TESTS_RDMA_RAW_PEER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "rdma/soft/tcp_frame.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {

inline std::string Bytes(const soft::TcpFrame& frame, absl::string_view payload = "") {
  std::string bytes(soft::kTcpHeaderSize, '\0');
  soft::EncodeTcpFrame(frame, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes + std::string(payload);
}

inline std::string Hello() { return Bytes(soft::TcpFrame{}); }

// A socket that speaks bytes of the test's choice.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    std::uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0;
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  ~RawPeer() { close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }
  // Gives how many of the bytes the socket took.
  std::size_t Say(absl::string_view bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  // Reads what is there; true once the other side has closed.
  bool Closed() {
    char buffer[4096];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
    if (size > 0) heard_.append(buffer, static_cast<std::size_t>(size));
    return size == 0 || (size < 0 && errno != EAGAIN);
  }
  const std::string& heard() const { return heard_; }

 private:
  int fd_ = -1;
  bool connected_ = false;
  std::string heard_;
};

// Of both ways to receive: the parameter is whether through io_uring.
class RawPeerTest : public ::testing::TestWithParam<bool> {
 protected:
  void Open(SoftDeviceOptions options) {
    options.arena_size_max = std::uint64_t{64} << 20;
    options.tcp_uring = GetParam();
    side_ = std::make_unique<Side>(options, false);
    address_ = *side_->device->Listen("tcp:127.0.0.1:0");
  }
  void SetUp() override { Open({}); }

  bool Until(absl::FunctionRef<bool()> condition) {
    return testing::HoldsWithin(testing::kPatience, [&] {
      side_->CollectEvents();
      return condition();
    });
  }
  void Accept() {
    ConnectionEvent event;
    ASSERT_TRUE(
        Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); }));
    side_->qp = *side_->device->Accept(event.request, side_->qp_options(), "");
  }

  std::unique_ptr<Side> side_;
  std::string address_;
};

}  // namespace ring::rdma

#endif  // RING_TESTS_RDMA_RAW_PEER_H_
