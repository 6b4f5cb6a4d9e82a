#include "rdma/poller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

// A server that sleeps between messages, and a client that does so too: no wake-up may be lost.
class PollerTest : public ::testing::TestWithParam<std::tuple<LinkKind, std::uint32_t>> {};

struct Peer {
  Side side;
  std::vector<CompletionQueue*> queues;
  explicit Peer(const SoftDeviceOptions& options)
      : side(options, false), queues{side.recv_cq.get()} {}

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
  void AwaitMessage(Poller& poller) {
    bool received = false;
    while (!received) {
      poller.Wait([&] {
        bool worked = side.device->Progress();
        WorkCompletion completion;
        while (side.recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) worked = received = true;
        return worked;
      });
    }
  }
};

TEST_P(PollerTest, SleepersMissNoMessage) {
  constexpr int kRounds = 300;
  std::string address = FreshAddress(std::get<LinkKind>(GetParam()));
  SoftDeviceOptions options;
  options.tcp_uring = UsesUring(std::get<LinkKind>(GetParam()));
  options.arena_size_max = std::uint64_t{64} << 20;
  PollerOptions polling;
  polling.pollers = 2;
  polling.processors = std::get<std::uint32_t>(GetParam());
  polling.spin_turns_max = 50;
  polling.sleep_ms_max = 60'000;  // only a wake-up ends a sleep in time
  std::atomic<bool> listening{false};
  std::thread server([&] {
    Peer peer(options);
    auto listens = peer.side.device->Listen(address);
    ASSERT_TRUE(listens.ok()) << listens.status();
    address = *listens;
    listening = true;
    ConnectionEvent event;
    while (!peer.side.TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event))
      peer.side.CollectEvents();
    peer.side.qp = *peer.side.device->Accept(event.request, peer.side.qp_options(), "");
    peer.PostReceive();
    Poller poller(peer.side.device.get(), peer.queues, polling);
    for (int i = 0; i < kRounds; ++i) {
      peer.AwaitMessage(poller);
      peer.PostReceive();
      peer.Send();
    }
    while (!peer.side.TakeEvent(ConnectionEvent::Kind::kDisconnected, &event))
      peer.side.CollectEvents();
  });
  while (!listening) std::this_thread::yield();
  {
    Peer peer(options);
    peer.side.qp = *peer.side.device->Connect(address, peer.side.qp_options(), "");
    ConnectionEvent event;
    while (!peer.side.TakeEvent(ConnectionEvent::Kind::kEstablished, &event))
      peer.side.CollectEvents();
    peer.PostReceive();
    Poller poller(peer.side.device.get(), peer.queues, polling);
    for (int i = 0; i < kRounds; ++i) {
      peer.Send();
      peer.AwaitMessage(poller);
      peer.PostReceive();
    }
  }
  server.join();
}

INSTANTIATE_TEST_SUITE_P(LinksAndProcessors, PollerTest,
                         ::testing::Combine(::testing::Values(LinkKind::kLocal, LinkKind::kTcp,
                                                              LinkKind::kTcpUring),
                                            ::testing::Values(1u, 2u)));

}  // namespace
}  // namespace ring::rdma
