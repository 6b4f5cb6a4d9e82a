// Processes at the other end of an RDMA connection that are killed or stopped: nothing hangs, and
// what they are not needed for goes on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/contract/fabric_harness.h"
#include "tests/rdma/child_process.h"
#include "tests/rdma/side_steps.h"
#include "tools/common/free_ports.h"

namespace ring::rdma {
namespace {

SoftDeviceOptions Options(bool peer) {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.rnr_timeout_ms = 50;
  options.verbs = TestVerbsOptions(peer);
  return options;
}

WorkRequest Request(const Sge& sge, const RemoteBuffer& target) {
  WorkRequest wr;
  wr.opcode = Opcode::kWrite;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.remote_address = target.address;
  wr.rkey = target.rkey;
  wr.signaled = true;
  return wr;
}

WcStatus Finish(Side& side, const WorkRequest& wr) {
  EXPECT_TRUE(side.qp->PostSend(wr).ok());
  WorkCompletion completion;
  const bool came =
      Until(side, [&] { return side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; });
  EXPECT_TRUE(came);
  return completion.status;
}

// Listens, accepts one connection, and makes progress until it is killed.
int Serve(const Channel& channel, const std::string& address) {
  Side side(Options(/*peer=*/true), false);
  if (!side.device->Listen(address).ok() || !channel.Tell('l')) return 1;
  ConnectionEvent event;
  if (!AwaitEvent(side, ConnectionEvent::Kind::kConnectRequest, &event)) return 2;
  auto qp = side.device->Accept(event.request, side.qp_options(), NameOf(side));
  if (!qp.ok()) return 3;
  side.qp = std::move(*qp);
  return Until(side, [&] { return channel.Ready(); }) ? 0 : 4;
}

class VerbsDeath : public ::testing::TestWithParam<LinkKind> {
 protected:
  std::string address_ = absl::StrCat("rdma::", *tools::FreePort());

  // HOST is the address of the child's card.
  void ConnectTo(Side& side) {
    const std::string own = *side.device->Listen("rdma::0");
    std::string host = own.substr(0, own.rfind(':'));
    if (const char* const peer = std::getenv("RING_TEST_VERBS_PEER_ADDRESS"))
      host = absl::StrCat("rdma:", peer);
    side.qp =
        *side.device->Connect(host + address_.substr(address_.rfind(':')), side.qp_options(), "");
    ConnectionEvent event;
    ASSERT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kEstablished, &event));
    ASSERT_EQ(event.private_data.size(), sizeof(target_));
    target_ = BufferOf(event.private_data);
  }

  RemoteBuffer target_;
};

TEST_P(VerbsDeath, AKilledTargetIsADisconnect) {
  ChildProcess target([&](const Channel& channel) { return Serve(channel, address_); });
  ASSERT_TRUE(target.channel().Await('l'));
  Side side(Options(/*peer=*/false), false);
  ConnectTo(side);
  const Sge sge = side.At(0, 8);
  EXPECT_EQ(Finish(side, Request(sge, target_)), WcStatus::kSuccess);
  target.Kill();
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_EQ(side.qp->state(), QpState::kError);
  EXPECT_EQ(Finish(side, Request(sge, target_)), WcStatus::kFlushed);
}

TEST_P(VerbsDeath, RequestsUnderWayToAKilledTargetFail) {
  ChildProcess target([&](const Channel& channel) { return Serve(channel, address_); });
  ASSERT_TRUE(target.channel().Await('l'));
  Side side(Options(/*peer=*/false), false);
  ConnectTo(side);
  const Sge sge = side.At(0, std::size_t{4} << 20);
  const WorkRequest wr = Request(sge, target_);
  ASSERT_EQ(Finish(side, wr), WcStatus::kSuccess);
  constexpr std::size_t kPosted = 8;
  for (std::size_t i = 0; i < kPosted; ++i) ASSERT_TRUE(side.qp->PostSend(wr).ok());
  target.Kill();
  std::size_t completed = 0;
  WcStatus last = WcStatus::kSuccess;
  EXPECT_TRUE(Until(side, [&] {
    WorkCompletion completion;
    while (side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) {
      ++completed;
      last = completion.status;
    }
    return completed == kPosted;
  }));
  EXPECT_NE(last, WcStatus::kSuccess);
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
}

TEST_P(VerbsDeath, AStoppedTargetIsWrittenAndRead) {
  ChildProcess target([&](const Channel& channel) { return Serve(channel, address_); });
  ASSERT_TRUE(target.channel().Await('l'));
  Side side(Options(/*peer=*/false), false);
  ConnectTo(side);
  const Sge warm = side.At(0, 8);
  ASSERT_EQ(Finish(side, Request(warm, target_)), WcStatus::kSuccess);
  target.Signal(SIGSTOP);
  ASSERT_TRUE(target.AwaitStopped());
  Put(side.memory, "one-sided");
  const Sge out = side.At(0, 9);
  EXPECT_EQ(Finish(side, Request(out, target_)), WcStatus::kSuccess);
  const Sge in = side.At(4096, 9);
  WorkRequest read = Request(in, target_);
  read.opcode = Opcode::kRead;
  EXPECT_EQ(Finish(side, read), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(side.memory + 4096, "one-sided", 9), 0);
  target.Signal(SIGCONT);
  target.channel().Tell('e');
  EXPECT_EQ(target.AwaitExit(), 0);
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
}

TEST_P(VerbsDeath, AKilledInitiatorIsADisconnect) {
  // The child waits for the port to be told: it connects when the parent listens.
  ChildProcess initiator([&](const Channel& channel) {
    if (!channel.Await('g')) return 1;
    Side side(Options(/*peer=*/false), false);
    ConnectTo(side);
    if (::testing::Test::HasFailure()) return 2;
    const Sge sge = side.At(0, 64);
    const WorkRequest wr = Request(sge, target_);
    if (Finish(side, wr) != WcStatus::kSuccess || !channel.Tell('w')) return 3;
    for (;;) Finish(side, wr);
  });
  Side side(Options(/*peer=*/true), false);
  ASSERT_TRUE(side.device->Listen(address_).ok());
  ASSERT_TRUE(initiator.channel().Tell('g'));
  ConnectionEvent event;
  ASSERT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kConnectRequest, &event));
  side.qp = *side.device->Accept(event.request, side.qp_options(), NameOf(side));
  ASSERT_TRUE(Until(side, [&] { return initiator.channel().Ready(); }));
  ASSERT_TRUE(initiator.channel().Await('w'));
  initiator.Kill();
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_EQ(side.qp->state(), QpState::kError);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsDeath);
INSTANTIATE_TEST_SUITE_P(Links, VerbsDeath, ::testing::ValuesIn(WithVerbs({}, {LinkKind::kVerbs})),
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
