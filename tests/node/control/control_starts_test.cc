// Starts of a node that others meet in another order than they came (L8), or that stand still.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/forwarding_device.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/base/status.h"
#include "ring/node/control/control_port.h"
#include "ring/protocol/hello.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

absl::StatusOr<std::unique_ptr<rdma::Device>> OpenDevice(const std::string& name) {
  static const BootClock clock;
  rdma::SoftDeviceOptions options;
  options.name = name;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.clock = &clock;
  return rdma::OpenSoftDevice(options);
}

// Counts the bytes that it is asked for.
class CountingDevice final : public rdma::ForwardingDevice {
 public:
  explicit CountingDevice(std::unique_ptr<rdma::Device> below)
      : ForwardingDevice(std::move(below)) {}
  absl::StatusOr<std::byte*> Allocate(std::size_t size, rdma::MemoryKind kind) override {
    allocated_ += size;
    return below()->Allocate(size, kind);
  }
  std::size_t allocated() const { return allocated_; }

 private:
  std::size_t allocated_ = 0;
};

// A port alone, and who connects to it as node 0 in one start or another.
class LonePort {
 public:
  // A process of node 0 with a connection. It stands still but for its device's Progress.
  struct Process {
    std::unique_ptr<rdma::Device> device;
    std::unique_ptr<rdma::CompletionQueue> cq;
    std::unique_ptr<rdma::QueuePair> qp;
  };

  absl::Status Open(absl::string_view address = "local:lone/5") {
    RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::Device> device, OpenDevice("port"));
    device_ = std::make_unique<CountingDevice>(std::move(device));
    RING_ASSIGN_OR_RETURN(address_, device_->Listen(address));
    RING_ASSIGN_OR_RETURN(port_, ControlPort::Create({.device = device_.get(),
                                                      .node = NodeId(5),
                                                      .incarnation = Incarnation(1),
                                                      .cluster = 9,
                                                      .node_count = 6}));
    return OpenPeer();
  }
  ControlPort& port() { return *port_; }
  // By the port's device, ever.
  std::size_t allocated() const { return device_->allocated(); }
  // Null: it was refused.
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Connect(std::uint64_t incarnation) {
    protocol::ControlHello hello;
    hello.cluster = 9;
    hello.incarnation = incarnation;
    RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::QueuePair> qp,
                          peer_->Connect(address_, {.send_cq = cq_.get(), .recv_cq = cq_.get()},
                                         protocol::EncodeHello(hello)));
    std::optional<bool> accepted;
    ::ring::testing::Await("the port's answer", [&] {
      Pump();
      for (rdma::ConnectionEvent event; peer_->PollEvent(&event);) {
        if (event.qp == qp.get())
          accepted = event.kind == rdma::ConnectionEvent::Kind::kEstablished;
      }
      return accepted.has_value();
    });
    if (!*accepted) qp.reset();
    return qp;
  }
  // Connects, and ends that connection once it was there. False: it was refused.
  bool Accepts(std::uint64_t incarnation) {
    absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp = Connect(incarnation);
    EXPECT_OK(qp.status());
    if (!qp.ok() || *qp == nullptr) return false;
    const std::uint32_t generation = port_->generation(NodeId(0));
    qp->reset();
    ::ring::testing::Await("the connection's end", [&] {
      Pump();
      return !port_->connected(NodeId(0)) || port_->generation(NodeId(0)) != generation;
    });
    return true;
  }
  // A start that connects, and stands still from then on. Those after it are of other processes.
  absl::StatusOr<Process> Stops(std::uint64_t incarnation) {
    Process process;
    RING_ASSIGN_OR_RETURN(process.qp, Connect(incarnation));
    if (process.qp == nullptr) return absl::FailedPreconditionError("it was refused");
    process.cq = std::move(cq_);
    process.device = std::move(peer_);
    RING_RETURN_IF_ERROR(OpenPeer());
    return process;
  }
  // Another start of node 0 that connects, and says something before it is gone.
  void Meets(std::uint64_t incarnation) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<ControlPort> peer,
                         ControlPort::Create({.device = peer_.get(),
                                              .node = NodeId(0),
                                              .incarnation = Incarnation(incarnation),
                                              .cluster = 9,
                                              .node_count = 6}));
    peer->SetAddresses({"", "", "", "", "", address_}, std::vector<bool>(6, false));
    bool asked = false;
    bool answered = false;
    std::uint64_t now_ns = 1;
    ::ring::testing::Await("an answer", [&] {
      Pump();
      port_->Progress(++now_ns);
      peer->Progress(now_ns += 1'000'000);
      for (rdma::ConnectionEvent event; peer_->PollEvent(&event);) peer->OnEvent(event, now_ns);
      if (!asked && peer->connected(NodeId(5))) {
        asked = true;
        peer->Call(NodeId(5), ControlType::kPing, "", 1'000'000'000'000,
                   [&](const absl::StatusOr<std::string>&) { answered = true; });
      }
      return answered;
    });
    peer.reset();
    ::ring::testing::Await("the connection's end", [&] {
      Pump();
      return !port_->connected(NodeId(0));
    });
  }

 private:
  absl::Status OpenPeer() {
    RING_ASSIGN_OR_RETURN(peer_, OpenDevice("peer"));
    RING_ASSIGN_OR_RETURN(cq_, peer_->CreateCompletionQueue(64));
    return absl::OkStatus();
  }
  void Pump() {
    device_->Progress();
    peer_->Progress();
    for (rdma::ConnectionEvent event; device_->PollEvent(&event);) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
        port_->OnConnectRequest(event.request, event.private_data);
      } else {
        port_->OnEvent(event, 1);
      }
    }
  }

  std::unique_ptr<CountingDevice> device_;
  std::unique_ptr<rdma::Device> peer_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<ControlPort> port_;
  std::string address_;
};

TEST(ControlPort, L8ALateHandshakeOfAFormerStartShutsNobodyOut) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  constexpr std::uint64_t kFormer = 3;
  constexpr std::uint64_t kPresent = 7;
  lone.port().OnRegistered(NodeId(0), Incarnation(kPresent));
  EXPECT_TRUE(lone.Accepts(kPresent));
  EXPECT_TRUE(lone.Accepts(kFormer)) << "who has not met it cannot know";
  EXPECT_TRUE(lone.Accepts(kPresent));
  constexpr std::uint64_t kLater = 8;
  lone.port().OnRegistered(NodeId(0), Incarnation(kLater));
  EXPECT_TRUE(lone.Accepts(kLater));
  EXPECT_FALSE(lone.Accepts(kPresent)) << "another start registered since";
}

// Its process stands still, and its system answers for it: nothing ends that connection.
TEST(ControlPort, L8AStartThatFailedKeepsNoOtherOneOut) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  constexpr std::uint64_t kFrozen = 7;
  constexpr std::uint64_t kLater = 8;
  lone.port().OnRegistered(NodeId(0), Incarnation(kFrozen));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<rdma::QueuePair> frozen, lone.Connect(kFrozen));
  EXPECT_FALSE(lone.Accepts(kLater)) << "the cluster counts on the former one";
  EXPECT_TRUE(lone.port().connected(NodeId(0)));
  lone.port().OnRegistered(NodeId(0), Incarnation(kFrozen), /*away=*/true);
  EXPECT_TRUE(lone.port().connected(NodeId(0))) << "it may come back as who it was";
  EXPECT_TRUE(lone.Accepts(kLater));
  lone.port().OnRegistered(NodeId(0), Incarnation(kLater));
  EXPECT_FALSE(lone.Accepts(kFrozen));
}

// Neither of the two is registered yet: who comes late must not be taken for the later one.
TEST(ControlPort, L8ALateHandshakeShutsNobodyOutWhoHasYetToRegister) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  constexpr std::uint64_t kGone = 3;
  constexpr std::uint64_t kPresent = 7;
  ASSERT_NO_FATAL_FAILURE(lone.Meets(kPresent));
  EXPECT_TRUE(lone.Accepts(kGone)) << "who has not met it cannot know";
  EXPECT_TRUE(lone.Accepts(kPresent));
  ASSERT_NO_FATAL_FAILURE(lone.Meets(kPresent));
  constexpr std::uint64_t kLater = 8;
  ASSERT_NO_FATAL_FAILURE(lone.Meets(kLater));
  EXPECT_FALSE(lone.Accepts(kPresent)) << "another start spoke since";
}

constexpr std::uint64_t kStarts = 8;

// Each may have been stopped in the middle of a SEND.
TEST(ControlPort, L5MemoryOfAStartThatStandsStillIsNotUsedAgainBeforeItsEndLetGo) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  std::vector<LonePort::Process> stopped;
  std::uint64_t start = 1;
  for (; start <= kStarts; ++start) {
    lone.port().OnRegistered(NodeId(0), Incarnation(start));  // which ends the former one's
    ASSERT_OK_AND_ASSIGN(LonePort::Process process, lone.Stops(start));
    stopped.push_back(std::move(process));
  }
  const std::size_t allocated = lone.allocated();
  EXPECT_GE(allocated, kStarts * ControlLink::kMemorySize) << "all of them may write yet";
  for (; start <= 3 * kStarts; ++start) {
    lone.port().OnRegistered(NodeId(0), Incarnation(start));
    for (LonePort::Process& process : stopped) process.device->Progress();  // they go on
    ASSERT_OK_AND_ASSIGN(LonePort::Process process, lone.Stops(start));
    stopped.push_back(std::move(process));
  }
  EXPECT_EQ(lone.allocated(), allocated) << "those that went on write no more";
}

// It is no matter why, and that no other start was there yet.
TEST(ControlPort, L5MemoryOfAnyConnectionThatEndedIsNotUsedAgainBeforeItsPeersEndLetGo) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  std::vector<LonePort::Process> stopped;
  for (std::uint64_t start = 1; start <= kStarts; ++start) {
    ASSERT_OK_AND_ASSIGN(LonePort::Process process, lone.Stops(start));
    stopped.push_back(std::move(process));
    lone.port().Break(NodeId(0));
  }
  EXPECT_GE(lone.allocated(), kStarts * ControlLink::kMemorySize);
}

TEST(ControlPort, MemoryOfAStartThatMapsNothingIsUsedAgainAtOnce) {
  LonePort lone;
  ASSERT_OK(lone.Open("tcp:127.0.0.1:0"));
  std::vector<LonePort::Process> stopped;
  std::size_t allocated = 0;
  for (std::uint64_t start = 1; start <= kStarts; ++start) {
    lone.port().OnRegistered(NodeId(0), Incarnation(start));
    ASSERT_OK_AND_ASSIGN(LonePort::Process process, lone.Stops(start));
    stopped.push_back(std::move(process));
    if (start == 1) allocated = lone.allocated();
  }
  EXPECT_GE(allocated, ControlLink::kMemorySize);
  EXPECT_EQ(lone.allocated(), allocated);
}

TEST(ControlPort, AStartThatStandsStillAndComesBackAgainAndAgainCostsItsMemoryOnce) {
  LonePort lone;
  ASSERT_OK(lone.Open());
  constexpr std::uint64_t kStart = 7;
  lone.port().OnRegistered(NodeId(0), Incarnation(kStart));
  lone.port().OnRegistered(NodeId(0), Incarnation(kStart), /*away=*/true);
  std::uint64_t now_ns = 0;
  std::size_t allocated = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<rdma::QueuePair> qp, lone.Connect(kStart));
    ASSERT_NE(qp, nullptr);
    if (i == 0) allocated = lone.allocated();
    // It is probed in vain, and given up.
    for (std::uint32_t step = 0; step < 3 * ControlLink::kProbesMax; ++step)
      lone.port().Progress(now_ns += 2'000'000'000);
    ASSERT_FALSE(lone.port().connected(NodeId(0)));
  }
  EXPECT_GE(allocated, ControlLink::kMemorySize);
  EXPECT_EQ(lone.allocated(), allocated);
}

TEST(ControlPort, AnAttemptThatThePeerNeverAnswersEndsAndIsMadeAgain) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<rdma::Device> device, OpenDevice("asks"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<rdma::Device> peer, OpenDevice("stands still"));
  ASSERT_OK_AND_ASSIGN(const std::string address, peer->Listen("local:silent/1"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ControlPort> port,
                       ControlPort::Create({.device = device.get(),
                                            .node = NodeId(0),
                                            .incarnation = Incarnation(1),
                                            .cluster = 9,
                                            .node_count = 2}));
  port->SetAddresses({"", address}, {true, true});
  int requests = 0;
  const auto pass = [&](std::uint64_t now_ns) {
    port->Progress(now_ns);
    device->Progress();
    peer->Progress();
    for (rdma::ConnectionEvent event; device->PollEvent(&event);) port->OnEvent(event, now_ns);
    for (rdma::ConnectionEvent event; peer->PollEvent(&event);)
      requests += event.kind == rdma::ConnectionEvent::Kind::kConnectRequest ? 1 : 0;
  };
  constexpr std::uint64_t kSecond = 1'000'000'000;
  pass(kSecond);
  EXPECT_EQ(requests, 1);
  pass(2 * kSecond);
  EXPECT_EQ(requests, 1) << "it may be slow";
  pass(5 * kSecond);
  EXPECT_THAT(port->Missing(), ::testing::HasSubstr("did not answer the handshake"));
  pass(6 * kSecond);
  EXPECT_EQ(requests, 2);
}

}  // namespace
}  // namespace ring::node
