// What a tcp listener does with peers that do not play by the rules: it closes them, tells them why
// if it can, and goes on serving the others (F11).
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "rdma/soft/tcp_frame.h"
#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

using soft::EncodeTcpFrame;
using soft::kTcpHeaderSize;
using soft::TcpFrame;
using soft::TcpFrameType;

std::string Bytes(const TcpFrame& frame, absl::string_view payload = "") {
  std::string bytes(kTcpHeaderSize, '\0');
  EncodeTcpFrame(frame, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes + std::string(payload);
}

std::string Hello() { return Bytes(TcpFrame{}); }

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
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  ~RawPeer() { close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  bool connected() const { return connected_; }
  void Say(const std::string& bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    static_cast<void>(sent);
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

class TcpHostile : public ::testing::Test {
 protected:
  void Open(SoftDeviceOptions options) {
    options.arena_size_max = std::uint64_t{64} << 20;
    side_ = std::make_unique<Side>(options, false);
    address_ = *side_->device->Listen("tcp:127.0.0.1:0");
  }
  void SetUp() override { Open({}); }

  bool Until(absl::FunctionRef<bool()> condition) {
    const time_t deadline = time(nullptr) + 20;
    while (!condition()) {
      if (time(nullptr) > deadline) return false;
      side_->CollectEvents();
    }
    return true;
  }
  void Accept() {
    ConnectionEvent event;
    ASSERT_TRUE(
        Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); }));
    side_->qp = *side_->device->Accept(event.request, side_->qp_options(), "");
  }
  // A well-behaved peer still gets through.
  void ExpectServing() {
    SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    Side good(options, false);
    good.qp = *good.device->Connect(address_, good.qp_options(), "good");
    ConnectionEvent event;
    EXPECT_TRUE(Until([&] {
      good.CollectEvents();
      while (side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event)) {
        if (event.private_data == "good") return true;
      }
      return false;
    }));
  }

  std::unique_ptr<Side> side_;
  std::string address_;
};

TEST_F(TcpHostile, GarbageIsRefusedWithAReason) {
  RawPeer peer(address_);
  peer.Say("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "magic")) << peer.heard();
  ExpectServing();
}

TEST_F(TcpHostile, AnotherVersionIsRefusedWithAReason) {
  std::string hello = Hello();
  hello[4] = 99;
  RawPeer peer(address_);
  peer.Say(hello);
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "version")) << peer.heard();
}

TEST_F(TcpHostile, RequestBeforeHelloIsRefused) {
  TcpFrame write;
  write.type = TcpFrameType::kWrite;
  RawPeer peer(address_);
  peer.Say(Bytes(write));
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "expected a hello")) << peer.heard();
}

TEST_F(TcpHostile, SilentConnectionIsClosedAfterItsTime) {
  SoftDeviceOptions options;
  options.hello_timeout_ms = 20;
  Open(options);
  RawPeer silent(address_);
  RawPeer slow(address_);
  slow.Say(Hello().substr(0, 30));
  EXPECT_TRUE(Until([&] { return silent.Closed(); }));
  EXPECT_TRUE(Until([&] { return slow.Closed(); }));
  EXPECT_TRUE(absl::StrContains(silent.heard(), "no hello in time")) << silent.heard();
}

TEST_F(TcpHostile, FloodBeforeTheAnswerDoesNotGrowTheConnection) {
  RawPeer peer(address_);
  peer.Say(Hello() + std::string(1 << 20, 'x'));
  ConnectionEvent event;
  ASSERT_TRUE(
      Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); }));
  for (int i = 0; i < 1000; ++i) side_->CollectEvents();
  side_->qp = *side_->device->Accept(event.request, side_->qp_options(), "");
  // What it sent in advance is no frame.
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(
      Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kDisconnected, &event); }));
  ExpectServing();
}

TEST_F(TcpHostile, ProtocolViolationsEndTheConnection) {
  std::vector<std::string> violations;
  TcpFrame frame;
  violations.push_back(Hello());
  for (const TcpFrameType type : {TcpFrameType::kReadResponse, TcpFrameType::kAtomicResponse,
                                  TcpFrameType::kAck, TcpFrameType::kAccept}) {
    frame = {};
    frame.type = type;
    frame.sequence = 3;  // nothing was asked
    violations.push_back(Bytes(frame));
  }
  frame = {};
  frame.type = TcpFrameType::kNak;
  frame.status = 4;
  violations.push_back(Bytes(frame));
  frame = {};
  frame.type = TcpFrameType::kRead;
  frame.rkey = side_->region->rkey();
  frame.remote_address = side_->AddressAt(0);
  frame.sequence = 5;
  violations.push_back(Bytes(frame) + Bytes(frame));  // a sequence twice
  violations.push_back(std::string(kTcpHeaderSize, '\xff'));
  for (const std::string& violation : violations) {
    side_->qp.reset();
    side_->events.clear();
    RawPeer peer(address_);
    peer.Say(Hello());
    Accept();
    if (HasFatalFailure()) return;
    peer.Say(violation);
    EXPECT_TRUE(Until([&] { return peer.Closed(); }));
    EXPECT_EQ(side_->qp->state(), QpState::kError);
  }
  ExpectServing();
}

TEST_F(TcpHostile, BadKeyIsANak) {
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  TcpFrame write;
  write.type = TcpFrameType::kWrite;
  write.payload_length = 4;
  write.remote_address = side_->AddressAt(0);
  write.rkey = side_->region->rkey() + (7u << 12);
  peer.Say(Bytes(write, "evil"));
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  ASSERT_GE(peer.heard().size(), 2 * kTcpHeaderSize);
  const auto answer = soft::DecodeTcpFrame(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(peer.heard().data()) + kTcpHeaderSize, kTcpHeaderSize));
  EXPECT_EQ(answer.frame.type, TcpFrameType::kNak);
  EXPECT_EQ(answer.frame.status, static_cast<std::uint8_t>(WcStatus::kRemoteAccess));
  EXPECT_EQ(side_->memory[0], std::byte{0});
}

TEST_F(TcpHostile, RevokeInTheMiddleOfAPayloadStopsIt) {  // L5
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  TcpFrame write;
  write.type = TcpFrameType::kWrite;
  write.payload_length = 8;
  write.remote_address = side_->AddressAt(0);
  write.rkey = side_->region->rkey();
  peer.Say(Bytes(write, "half"));
  ASSERT_TRUE(Until([&] { return side_->memory[3] == std::byte{'f'}; }));
  side_->region->Revoke();
  peer.Say("rest");
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_EQ(side_->memory[4], std::byte{0});
  const auto answer = soft::DecodeTcpFrame(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(peer.heard().data()) + kTcpHeaderSize, kTcpHeaderSize));
  EXPECT_EQ(answer.frame.type, TcpFrameType::kNak);
}

TEST_F(TcpHostile, ConnectionsAreLimited) {
  SoftDeviceOptions options;
  options.connection_count_max = 4;
  Open(options);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 4; ++i) peers.push_back(std::make_unique<RawPeer>(address_));
  ASSERT_TRUE(Until([&] {
    RawPeer late(address_);
    return Until([&] { return late.Closed(); }) &&
           absl::StrContains(late.heard(), "connection_count_max");
  }));
  peers.clear();
  for (int i = 0; i < 1000; ++i) side_->CollectEvents();
  ExpectServing();
}

TEST_F(TcpHostile, OutOfDescriptorsIsATypedRefusal) {
  RawPeer early(address_);
  RawPeer late(address_);
  ASSERT_TRUE(late.connected());
  std::vector<int> hoard;
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit small = before;
  small.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &small);
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard.push_back(fd);
  EXPECT_TRUE(Until([&] { return early.Closed() && late.Closed(); }));
  for (const int fd : hoard) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(absl::StrContains(late.heard(), "out of file descriptors")) << late.heard();
  ExpectServing();
}

TEST_F(TcpHostile, PeerThatDoesNotReadHoldsNoMemoryWithoutBound) {
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  const Sge sge = side_->At(0, 1 << 20);
  WorkRequest wr;
  wr.opcode = Opcode::kWrite;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.signaled = true;
  std::uint32_t posted = 0;
  absl::Status status;
  while ((status = side_->qp->PostSend(wr)).ok()) {
    ++posted;
    side_->CollectEvents();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(posted, Side::kDepth);
  side_->qp->Reset();
  WorkCompletion completions[Side::kDepth];
  EXPECT_EQ(side_->send_cq->Poll(completions), Side::kDepth);
  EXPECT_EQ(completions[0].status, WcStatus::kFlushed);
  ExpectServing();
}

}  // namespace
}  // namespace ring::rdma
