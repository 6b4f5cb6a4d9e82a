// How a thread that waits for its device may sleep, step by step as the reactor and the client do
// it: no wake-up is lost.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

// A server that sleeps between messages, and a client that does so too. The second parameter: turns
// without work before a sleep.
class SleepTest : public ::testing::TestWithParam<std::tuple<LinkKind, int>> {};

struct Peer {
  Side side;
  std::vector<CompletionQueue*> queues;
  Peer(const SoftDeviceOptions& options, bool engine)
      : side(options, false, nullptr, engine), queues{side.recv_cq.get()} {}

  void PostReceive() {
    const Sge sge = side.At(0, 64);
    ASSERT_TRUE(side.qp->PostRecv(1, absl::MakeConstSpan(&sge, 1)).ok());
  }
  void Send() {
    const Sge sge = side.At(64, 8);
    WorkRequest wr;
    wr.opcode = Opcode::kSend;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    ASSERT_TRUE(side.qp->PostSend(wr).ok());
  }
  bool Turn() {
    bool worked = side.device->Progress();
    WorkCompletion completion;
    while (side.recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) worked = received = true;
    return worked;
  }
  // The order is what makes it safe: arm, then sleeping = true (a full fence), then a last turn,
  // then sleep. A peer stores its data first and looks at armed and sleeping afterwards, so one of
  // the two sees the other.
  void Sleep() {
    for (CompletionQueue* queue : queues) queue->Arm();
    side.device->SetSleeping(true);
    if (!Turn()) {
      pollfd entry{side.device->event_fd(), POLLIN, 0};
      poll(&entry, 1, 60'000);  // only a wake-up ends it in time
      ++sleeps;
    }
    side.device->SetSleeping(false);
  }
  void AwaitEvent(ConnectionEvent::Kind kind, ConnectionEvent* event) {
    testing::Await("an event of the connection", [&] {
      side.CollectEvents();
      return side.TakeEvent(kind, event);
    });
  }
  void AwaitMessage(int idle_turns_max) {
    received = false;
    for (int idle_turns = 0; !received;) {
      idle_turns = Turn() ? 0 : idle_turns + 1;
      if (idle_turns < idle_turns_max || received) continue;
      Sleep();
      idle_turns = 0;
    }
  }
  bool received = false;
  int sleeps = 0;
};

TEST_P(SleepTest, SleepersMissNoMessage) {
  constexpr int kRounds = 300;
  std::string address = FreshAddress(std::get<LinkKind>(GetParam()));
  SoftDeviceOptions options;
  options.tcp_uring = UsesUring(std::get<LinkKind>(GetParam()));
  options.arena_size_max = std::uint64_t{64} << 20;
  const int idle_turns_max = std::get<int>(GetParam());
  std::atomic<bool> listening{false};
  std::thread server([&] {
    Peer peer(options, HasEngine(std::get<LinkKind>(GetParam())));
    auto listens = peer.side.device->Listen(address);
    ASSERT_TRUE(listens.ok()) << listens.status();
    address = *listens;
    listening = true;
    ConnectionEvent event;
    peer.AwaitEvent(ConnectionEvent::Kind::kConnectRequest, &event);
    peer.side.qp = *peer.side.device->Accept(event.request, peer.side.qp_options(), "");
    peer.PostReceive();
    for (int i = 0; i < kRounds; ++i) {
      peer.AwaitMessage(idle_turns_max);
      peer.PostReceive();
      peer.Send();
    }
    peer.AwaitEvent(ConnectionEvent::Kind::kDisconnected, &event);
  });
  testing::Await("the listener", [&] { return listening.load(); });
  {
    Peer peer(options, HasEngine(std::get<LinkKind>(GetParam())));
    peer.side.qp = *peer.side.device->Connect(address, peer.side.qp_options(), "");
    ConnectionEvent event;
    peer.AwaitEvent(ConnectionEvent::Kind::kEstablished, &event);
    peer.PostReceive();
    for (int i = 0; i < kRounds; ++i) {
      peer.Send();
      peer.AwaitMessage(idle_turns_max);
      peer.PostReceive();
    }
  }
  server.join();
}

INSTANTIATE_TEST_SUITE_P(
    LinksAndTurns, SleepTest,
    ::testing::Combine(::testing::Values(LinkKind::kLocal, LinkKind::kTcp, LinkKind::kTcpUring,
                                         LinkKind::kEngineLocal, LinkKind::kEngineTcp),
                       ::testing::Values(1, 50)));

}  // namespace
}  // namespace ring::rdma
