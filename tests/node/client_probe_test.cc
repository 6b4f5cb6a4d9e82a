// Clients that are idle while their host goes without a word.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "rdma/sim/sim_device.h"
#include "rdma/sim/sim_network.h"
#include "ring/node/client_port.h"
#include "ring/protocol/hello.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A node's door and one client on a network that tells nobody of a crash.
class ClientProbeTest : public ::testing::Test {
 protected:
  ClientProbeTest() : network_(1, Silent()) {}
  ~ClientProbeTest() override {
    qp_.reset();
    cq_.reset();
    region_.reset();
    client_.reset();
    port_.reset();
    node_.reset();
    network_.ForgetHost(node_host_);
    network_.ForgetHost(client_host_);
  }
  static rdma::sim::SimOptions Silent() {
    rdma::sim::SimOptions options;
    options.crash_notice_ns = 0;
    return options;
  }
  void SetUp() override {
    node_host_ = network_.AddHost(&told_);
    client_host_ = network_.AddHost(&told_);
    rdma::SoftDeviceOptions device;
    device.arena_size_max = 16 << 20;
    ASSERT_OK_AND_ASSIGN(node_, rdma::sim::SimDevice::Open(&network_, node_host_, device));
    ASSERT_OK_AND_ASSIGN(client_, rdma::sim::SimDevice::Open(&network_, client_host_, device));
    ASSERT_OK(node_->Listen("sim:door").status());
    ClientPortOptions port;
    port.device = node_.get();
    port.client_max = 1;
    port.shard_count = 1;
    port.unwatched_transport = "sim";
    ASSERT_OK_AND_ASSIGN(port_, ClientPort::Create(port));

    constexpr std::size_t kSize = protocol::kReplySlotSize;
    ASSERT_OK_AND_ASSIGN(std::byte* const replies,
                         client_->Allocate(kSize, rdma::MemoryKind::kShared));
    ASSERT_OK_AND_ASSIGN(region_, client_->Register(replies, kSize, rdma::kRemoteWrite));
    ASSERT_OK_AND_ASSIGN(cq_, client_->CreateCompletionQueue(64));
    protocol::ClientHello hello;
    hello.client_low = 1;
    const rdma::RemoteBuffer there = region_->remote();
    hello.replies = {there.address, there.length, there.rkey, 0};
    hello.reply_slot_count = 1;
    ASSERT_OK_AND_ASSIGN(
        qp_, client_->Connect(
                 "sim:door",
                 {.send_cq = cq_.get(), .recv_cq = cq_.get(), .send_depth = 16, .recv_depth = 16},
                 protocol::EncodeHello(hello)));
    Pass(0);
    ASSERT_EQ(port_->client_count(), 1u);
    Pass(1000 * kMs);
  }
  // Time passes for the port, and all that is under way arrives.
  void Pass(std::uint64_t ns) {
    const std::uint64_t end = port_now_ns_ + ns;
    do {
      port_->EndStuck(port_now_ns_);
      Settle();
      port_now_ns_ += 100 * kMs;
    } while (port_now_ns_ <= end);
  }
  void Settle() {
    for (int i = 0; i < 10'000; ++i) {
      const bool comes = !network_.events().empty();
      if (comes) network_.events().RunNext();
      if (!network_.crashed(client_host_)) client_->Progress();
      node_->Progress();
      rdma::ConnectionEvent event;
      while (node_->PollEvent(&event)) {
        if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest)
          port_->OnConnectRequest(event.request, event.private_data);
        if (event.kind == rdma::ConnectionEvent::Kind::kDisconnected)
          port_->OnDisconnected(event.qp);
      }
      port_->PollCompletions(false);
      if (!comes && network_.events().empty()) return;
    }
  }

  struct Told final : rdma::sim::SimHost {};
  rdma::sim::SimNetwork network_;
  Told told_;
  rdma::sim::HostId node_host_ = 0;
  rdma::sim::HostId client_host_ = 0;
  std::unique_ptr<rdma::sim::SimDevice> node_;
  std::unique_ptr<rdma::sim::SimDevice> client_;
  std::unique_ptr<ClientPort> port_;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<rdma::QueuePair> qp_;
  std::uint64_t port_now_ns_ = 1000 * kMs;
};

TEST_F(ClientProbeTest, AnIdleClientWhoseHostIsGoneLosesItsPlace) {
  network_.Crash(client_host_);
  Pass(20'000 * kMs);
  EXPECT_EQ(port_->client_count(), 0u);
}

TEST_F(ClientProbeTest, AnIdleClientThatIsThereKeepsItsPlace) {
  Pass(60'000 * kMs);
  EXPECT_EQ(port_->client_count(), 1u);
  EXPECT_EQ(qp_->state(), rdma::QpState::kReadyToSend);
  rdma::WorkCompletion completion;
  EXPECT_EQ(cq_->Poll(absl::MakeSpan(&completion, 1)), 0u) << "it is told nothing";
}

}  // namespace
}  // namespace ring::node
