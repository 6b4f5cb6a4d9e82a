// What a tcp listener does with peers that do not play by the rules: it closes them, tells them why
// if it can, and goes on serving the others (F11).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "rdma/soft/tcp_frame.h"
#include "tests/rdma/raw_peer.h"
#include "tests/support/allocation_counter.h"

namespace ring::rdma {
namespace {

using soft::kTcpHeaderSize;
using soft::TcpFrame;
using soft::TcpFrameType;

class TcpHostile : public RawPeerTest {
 protected:
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
  // Of so many bytes of what this side lets be read.
  TcpFrame ReadOf(std::uint64_t size) const {
    TcpFrame read;
    read.type = TcpFrameType::kRead;
    read.rkey = side_->region->rkey();
    read.remote_address = side_->AddressAt(0);
    read.operand = size;
    return read;
  }
};

TEST_P(TcpHostile, GarbageIsRefusedWithAReason) {
  RawPeer peer(address_);
  peer.Say("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "magic")) << peer.heard();
  ExpectServing();
}

TEST_P(TcpHostile, AnotherVersionIsRefusedWithAReason) {
  std::string hello = Hello();
  hello[4] = 99;
  RawPeer peer(address_);
  peer.Say(hello);
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "version")) << peer.heard();
}

TEST_P(TcpHostile, RequestBeforeHelloIsRefused) {
  TcpFrame write;
  write.type = TcpFrameType::kWrite;
  RawPeer peer(address_);
  peer.Say(Bytes(write));
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "expected a hello")) << peer.heard();
}

TEST_P(TcpHostile, SilentConnectionIsClosedAfterItsTime) {
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

TEST_P(TcpHostile, FloodBeforeTheAnswerDoesNotGrowTheConnection) {
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

TEST_P(TcpHostile, ProtocolViolationsEndTheConnection) {
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

TEST_P(TcpHostile, BadKeyIsANak) {
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

TEST_P(TcpHostile, RevokeInTheMiddleOfAPayloadStopsIt) {  // L5
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  TcpFrame write;
  write.type = TcpFrameType::kWrite;
  write.payload_length = 128;  // long enough to land in parts
  write.remote_address = side_->AddressAt(0);
  write.rkey = side_->region->rkey();
  peer.Say(Bytes(write, std::string(64, 'h')));
  ASSERT_TRUE(Until([&] { return side_->memory[63] == std::byte{'h'}; }));
  side_->region->Revoke();
  peer.Say(std::string(64, 'r'));
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_EQ(side_->memory[64], std::byte{0});
  const auto answer = soft::DecodeTcpFrame(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(peer.heard().data()) + kTcpHeaderSize, kTcpHeaderSize));
  EXPECT_EQ(answer.frame.type, TcpFrameType::kNak);
}

// What a mapped peer would find out behind its copy.
TEST_P(TcpHostile, RevokeWhileAnAnswerWaitsForTheSocketEndsTheConnection) {  // L5
  constexpr std::uint64_t kSize = 16 << 20;                                  // no socket holds it
  constexpr std::uint64_t kReads = 2;
  std::memset(side_->memory, 'h', Side::kMemorySize);
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  TcpFrame read = ReadOf(kSize);
  for (; read.sequence < kReads; ++read.sequence) peer.Say(Bytes(read));
  ASSERT_TRUE(Until([&] { return !peer.Closed() && peer.heard().size() > 2 * kTcpHeaderSize; }));
  side_->region->Revoke();
  std::memset(side_->memory, 'r', Side::kMemorySize);
  EXPECT_TRUE(Until([&] { return peer.Closed() || peer.heard().size() > kSize; }));
  EXPECT_EQ(peer.heard().find('r', 2 * kTcpHeaderSize), std::string::npos);
  EXPECT_LT(peer.heard().size(), kSize);
  EXPECT_EQ(side_->qp->state(), QpState::kError);
  ExpectServing();
}

TEST_P(TcpHostile, ConnectionsAreLimited) {
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
  // Some looks at the descriptors: a device without connections does not look in every turn.
  for (int i = 0; i < 10'000; ++i) side_->CollectEvents();
  ExpectServing();
}

// Who has not said hello costs the listener 4 KiB at most, what it has said of it included.
TEST_P(TcpHostile, AConnectionBeforeItsHelloIsSmall) {
  constexpr std::size_t kCount = 100;
  SoftDeviceOptions options;
  options.hello_timeout_ms = 20'000;
  Open(options);
  for (int i = 0; i < 1000; ++i) side_->CollectEvents();  // what is allocated once
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < kCount; ++i) {
    peers.push_back(std::make_unique<RawPeer>(address_));
    peers.back()->Say(Hello().substr(0, i % kTcpHeaderSize));
  }
  const std::uint64_t before = AllocatedBytes();
  for (int i = 0; i < 2000; ++i) side_->CollectEvents();
  const std::uint64_t used = AllocatedBytes() - before;
  EXPECT_GT(used, kCount * 64) << "nobody was let in";
  EXPECT_LE(used, kCount * 4096);
  for (const std::unique_ptr<RawPeer>& peer : peers) EXPECT_FALSE(peer->Closed());
  peers.clear();
  ExpectServing();
}

TEST_P(TcpHostile, OutOfDescriptorsIsATypedRefusal) {
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

TEST_P(TcpHostile, PeerThatDoesNotReadHoldsNoMemoryWithoutBound) {
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

// A request of 64 bytes makes an answer of 72.
TEST_P(TcpHostile, F11WhoTakesNoAnswersIsReadNoFurther) {
  constexpr std::uint64_t kReads = 1'000'000;
  constexpr std::size_t kAnswer = kTcpHeaderSize + sizeof(std::uint64_t);
  RawPeer peer(address_);
  peer.Say(Hello());
  Accept();
  TcpFrame read = ReadOf(sizeof(std::uint64_t));
  std::string waits;  // said, and not taken yet
  std::uint64_t said = 0;
  const auto say = [&] {
    for (; waits.size() < (64 << 10) && said < kReads; ++said) {
      read.sequence = said;
      waits += Bytes(read);
    }
    const std::size_t taken = peer.Say(waits);
    waits.erase(0, taken);
    return taken != 0;
  };
  std::uint64_t copied = 0;
  for (int in_vain = 0; in_vain < 10'000 && said < kReads;) {
    in_vain = say() ? 0 : in_vain + 1;
    const std::uint64_t before = AllocatedBytes();
    side_->CollectEvents();
    copied += AllocatedBytes() - before;
  }
  EXPECT_LT(said, kReads) << "it was heard out";
  EXPECT_LT(copied, std::uint64_t{16} << 20);
  ExpectServing();
  EXPECT_TRUE(Until([&] {
    say();
    peer.Closed();
    return peer.heard().size() >= kTcpHeaderSize + kReads * kAnswer;
  })) << peer.heard().size();
  EXPECT_EQ(peer.heard().size(), kTcpHeaderSize + kReads * kAnswer);
  EXPECT_EQ(side_->qp->state(), QpState::kReadyToSend);
}

INSTANTIATE_TEST_SUITE_P(Receivers, TcpHostile, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Uring" : "OneByOne"; });

}  // namespace
}  // namespace ring::rdma
