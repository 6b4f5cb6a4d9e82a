// Silent connections are kept away from gRPC; who speaks HTTP/2 is given on; others are told why.
#include "api/admin/preface_gate.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ring::admin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// The peer's end of a connection whose other end is at the gate.
class Peer {
 public:
  Peer(PrefaceGate* gate, std::int64_t now_ms) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    fd_ = ends[0];
    gate_fd_ = ends[1];
    gate->Add(gate_fd_, now_ms);
  }
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;

  int gate_fd() const { return gate_fd_; }
  void Say(absl::string_view text) const {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // What it was told so far, and whether the connection has ended.
  std::string Told() const {
    char bytes[256];
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
  }
  bool Ended() const {
    char byte;
    return recv(fd_, &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  int fd_;
  int gate_fd_;
};

class PrefaceGateTest : public ::testing::Test {
 protected:
  std::vector<int> Turn(std::int64_t now_ms) {
    std::vector<int> given;
    gate_.Turn(now_ms, [&](int fd) { given.push_back(fd); });
    for (const int fd : given) given_.push_back(fd);
    return given;
  }
  bool Readable() const {
    pollfd one{gate_.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1;
  }
  ~PrefaceGateTest() override {
    for (const int fd : given_) close(fd);
  }

  PrefaceGate gate_;
  std::vector<int> given_;
};

TEST_F(PrefaceGateTest, WhoSendsThePrefaceIsGivenOnWithEveryByteOfIt) {
  const Peer peer(&gate_, 0);
  EXPECT_THAT(Turn(0), IsEmpty());
  peer.Say(kPreface);
  peer.Say("frames");
  EXPECT_TRUE(Readable());
  EXPECT_THAT(Turn(1), ElementsAre(peer.gate_fd()));
  EXPECT_EQ(gate_.waiting_count(), 0u);
  char bytes[64];
  const ssize_t size = recv(peer.gate_fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(bytes, static_cast<std::size_t>(size)), std::string(kPreface) + "frames");
}

TEST_F(PrefaceGateTest, APrefaceMayComeInPieces) {
  const Peer peer(&gate_, 0);
  for (std::size_t i = 0; i + 1 < kPreface.size(); ++i) {
    peer.Say(kPreface.substr(i, 1));
    ASSERT_TRUE(Readable());
    ASSERT_THAT(Turn(0), IsEmpty());
    ASSERT_FALSE(Readable()) << "a piece is looked at once";
  }
  peer.Say(kPreface.substr(kPreface.size() - 1));
  EXPECT_THAT(Turn(0), ElementsAre(peer.gate_fd()));
}

TEST_F(PrefaceGateTest, WhoSpeaksSomethingElseIsToldSo) {
  const Peer peer(&gate_, 0);
  peer.Say("PRI * HTTP/1.1");
  EXPECT_THAT(Turn(0), IsEmpty());
  EXPECT_THAT(peer.Told(), HasSubstr("refused: this port speaks gRPC"));
  EXPECT_TRUE(peer.Ended());
  EXPECT_EQ(gate_.waiting_count(), 0u);
}

TEST_F(PrefaceGateTest, WhoSaysNothingIsRefusedWhenItsTimeIsOver) {
  const Peer early(&gate_, 100);
  const Peer late(&gate_, 300);
  EXPECT_EQ(gate_.TimeoutMs(200), PrefaceGate::kWaitMs - 100);
  EXPECT_THAT(Turn(100 + PrefaceGate::kWaitMs), IsEmpty());
  EXPECT_THAT(early.Told(), HasSubstr("no HTTP/2 preface"));
  EXPECT_TRUE(early.Ended());
  EXPECT_EQ(late.Told(), "");
  EXPECT_EQ(gate_.waiting_count(), 1u);
  EXPECT_EQ(gate_.TimeoutMs(1'000'000), 0);
}

TEST_F(PrefaceGateTest, AnEmptyGateWaitsForEver) { EXPECT_EQ(gate_.TimeoutMs(7), -1); }

TEST_F(PrefaceGateTest, OneTooManyCostsTheOneThatWaitsLongest) {
  rlimit limit{};  // both ends of each are here
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Peer first(&gate_, 0);
  std::vector<int> ours;
  for (std::size_t i = 0; i < PrefaceGate::kWaitingMax; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ours.push_back(ends[0]);
    gate_.Add(ends[1], 1);
  }
  EXPECT_EQ(gate_.waiting_count(), PrefaceGate::kWaitingMax);
  EXPECT_THAT(first.Told(), HasSubstr("too many connections"));
  EXPECT_TRUE(first.Ended());
  for (const int fd : ours) close(fd);
}

TEST_F(PrefaceGateTest, WhoLeavesWhileItWaitsIsForgotten) {
  { const Peer peer(&gate_, 0); }
  EXPECT_TRUE(Readable());
  EXPECT_THAT(Turn(0), IsEmpty());
  EXPECT_EQ(gate_.waiting_count(), 0u);
}

}  // namespace
}  // namespace ring::admin
