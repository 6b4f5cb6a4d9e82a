// How a thread that waits for its device may sleep, step by step as the reactor and the client do
// it: no wake-up is lost.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <functional>
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
  // Without anything that would tell the peer.
  void WriteWord(const RemoteBuffer& target, std::uint64_t value) {
    std::memcpy(side.memory + 64, &value, sizeof(value));
    const Sge sge = side.At(64, sizeof(value));
    WorkRequest wr;
    wr.opcode = Opcode::kWrite;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    wr.remote_address = target.address + kWordOffset;
    wr.rkey = target.rkey;
    ASSERT_TRUE(side.qp->PostSend(wr).ok());
  }
  std::uint64_t Word() const {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(side.memory + kWordOffset),
                           __ATOMIC_ACQUIRE);
  }
  bool Turn() {
    bool worked = side.device->Progress();
    WorkCompletion completion;
    while (side.recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) worked = received = true;
    while (side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) worked = true;
    if (Word() != word_seen) worked = received = true;
    return worked;
  }
  // The order is what makes it safe: sleeping = true (a full fence), then arm, then a last turn,
  // then sleep. A peer stores its data first and looks at armed and sleeping afterwards, so one of
  // the two sees the other.
  void Sleep() {
    side.device->SetSleeping(true);
    for (CompletionQueue* queue : queues) queue->Arm();
    if (!Turn()) {
      if (sleeps_now != nullptr) *sleeps_now = true;
      pollfd entry{side.device->event_fd(), POLLIN, 0};
      EXPECT_EQ(poll(&entry, 1, 60'000), 1) << "only a wake-up ends it";
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
  void AwaitWord(std::uint64_t value, int idle_turns_max) {
    AwaitMessage(idle_turns_max);
    word_seen = Word();
    EXPECT_EQ(word_seen, value);
  }

  static constexpr std::size_t kWordOffset = 4096;
  std::uint64_t word_seen = 0;
  bool received = false;
  int sleeps = 0;
  std::atomic<bool>* sleeps_now = nullptr;  // said when nothing but a wake-up ends the sleep
};

// Two peers with a thread each, connected; the connector's ends first.
void RunPair(LinkKind kind, const std::function<void(Peer&)>& serve,
             const std::function<void(Peer&)>& ask) {
  std::string address = FreshAddress(kind);
  SoftDeviceOptions options;
  options.tcp_uring = UsesUring(kind);
  options.arena_size_max = std::uint64_t{64} << 20;
  options.rnr_timeout_ms = 60'000;  // a server may get no core for long
  std::atomic<bool> listening{false};
  std::thread server([&] {
    SoftDeviceOptions own = options;
    own.verbs = TestVerbsOptions(/*peer=*/true);
    Peer peer(own, HasEngine(kind));
    auto listens = peer.side.device->Listen(address);
    ASSERT_TRUE(listens.ok()) << listens.status();
    address = *listens;
    listening = true;
    ConnectionEvent event;
    peer.AwaitEvent(ConnectionEvent::Kind::kConnectRequest, &event);
    peer.side.qp = *peer.side.device->Accept(event.request, peer.side.qp_options(), "");
    serve(peer);
    peer.AwaitEvent(ConnectionEvent::Kind::kDisconnected, &event);
  });
  testing::Await("the listener", [&] { return listening.load(); });
  {
    SoftDeviceOptions own = options;
    own.verbs = TestVerbsOptions(/*peer=*/false);
    Peer peer(own, HasEngine(kind));
    peer.side.qp = *peer.side.device->Connect(address, peer.side.qp_options(), "");
    ConnectionEvent event;
    peer.AwaitEvent(ConnectionEvent::Kind::kEstablished, &event);
    ask(peer);
  }
  server.join();
}

constexpr int kRounds = 300;

TEST_P(SleepTest, SleepersMissNoMessage) {
  const int idle_turns_max = std::get<int>(GetParam());
  const auto serve = [&](Peer& peer) {
    peer.PostReceive();
    for (int i = 0; i < kRounds; ++i) {
      peer.AwaitMessage(idle_turns_max);
      peer.PostReceive();
      peer.Send();
    }
  };
  const auto ask = [&](Peer& peer) {
    peer.PostReceive();
    for (int i = 0; i < kRounds; ++i) {
      peer.Send();
      peer.AwaitMessage(idle_turns_max);
      peer.PostReceive();
    }
  };
  RunPair(std::get<LinkKind>(GetParam()), serve, ask);
}

INSTANTIATE_TEST_SUITE_P(
    LinksAndTurns, SleepTest,
    ::testing::Combine(::testing::ValuesIn(WithVerbs({LinkKind::kLocal, LinkKind::kTcp,
                                                      LinkKind::kTcpUring, LinkKind::kEngineLocal,
                                                      LinkKind::kEngineTcp},
                                                     {LinkKind::kVerbs})),
                       ::testing::Values(1, 50)));

// Who posts a receive rings no bell: a SEND that waits for it wakes its own device.
class SleepBehindReceive : public ::testing::TestWithParam<LinkKind> {};

TEST_P(SleepBehindReceive, ASenderThatSleepsFindsTheReceive) {
  constexpr int kIdleTurns = 1;
  std::atomic<bool> other_sleeps{false};
  const auto serve = [&](Peer& peer) {
    testing::Await("the other's sleep", [&] {
      peer.side.CollectEvents();
      return other_sleeps && peer.side.qp->PeerSleep() != 0;
    });
    peer.PostReceive();
    peer.AwaitMessage(kIdleTurns);
    peer.Send();
  };
  const auto ask = [&](Peer& peer) {
    peer.sleeps_now = &other_sleeps;
    peer.PostReceive();
    peer.Send();
    peer.AwaitMessage(kIdleTurns);
    EXPECT_GT(peer.sleeps, 0);
  };
  RunPair(GetParam(), serve, ask);
}

INSTANTIATE_TEST_SUITE_P(MappedLinks, SleepBehindReceive,
                         ::testing::Values(LinkKind::kLocal, LinkKind::kEngineLocal),
                         [](const auto& link) { return LinkKindName(link.param); });

// Over links where any message wakes the peer, a WRITE does, of which nobody is told.
class SleepWithoutDoorbell : public ::testing::TestWithParam<std::tuple<LinkKind, int>> {};

TEST_P(SleepWithoutDoorbell, SleepersMissNoWrite) {
  const int idle_turns_max = std::get<int>(GetParam());
  RemoteBuffer of_server;
  RemoteBuffer of_client;
  std::atomic<int> known{0};
  const auto meet = [&](Peer& peer, RemoteBuffer* own) {
    *own = peer.side.region->remote();
    ++known;
    testing::Await("the other's memory", [&] { return known.load() == 2; });
  };
  const auto serve = [&](Peer& peer) {
    meet(peer, &of_server);
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      peer.AwaitWord(i, idle_turns_max);
      peer.WriteWord(of_client, i);
    }
  };
  const auto ask = [&](Peer& peer) {
    meet(peer, &of_client);
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      peer.WriteWord(of_server, i);
      peer.AwaitWord(i, idle_turns_max);
    }
  };
  RunPair(std::get<LinkKind>(GetParam()), serve, ask);
}

INSTANTIATE_TEST_SUITE_P(LinksAndTurns, SleepWithoutDoorbell,
                         ::testing::Combine(::testing::ValuesIn(WithVerbs({LinkKind::kTcp,
                                                                           LinkKind::kTcpUring},
                                                                          {LinkKind::kVerbs})),
                                            ::testing::Values(1, 3, 50)));

}  // namespace
}  // namespace ring::rdma
