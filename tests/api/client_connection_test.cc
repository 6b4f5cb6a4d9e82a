// One connection to a node that the test plays, step by step.
#include "api/client_connection.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

constexpr std::size_t kOpCount = 128;

// A device with what both sides have.
struct Side {
  explicit Side(const char* name) {
    rdma::SoftDeviceOptions options;
    options.name = name;
    options.arena_size_max = std::uint64_t{64} << 20;
    device = *rdma::OpenSoftDevice(options);
    send_cq = *device->CreateCompletionQueue(1024);
    recv_cq = *device->CreateCompletionQueue(1024);
  }
  std::unique_ptr<rdma::Device> device;
  std::unique_ptr<rdma::CompletionQueue> send_cq;
  std::unique_ptr<rdma::CompletionQueue> recv_cq;
};

class ConnectionTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kNodeReceives = 8;  // what a node posts (ring/node)

  void SetUp() override {
    ring_ = *node_.device->Allocate(protocol::kRequestRingSize, rdma::MemoryKind::kShared);
    ring_region_ = *node_.device->Register(ring_, protocol::kRequestRingSize, rdma::kRemoteWrite);
    const std::string address =
        *node_.device->Listen(absl::StrCat("local:ring-connection-", getpid()));
    frames_ = *client_.device->Allocate(kOpCount * kFrameStride, rdma::MemoryKind::kShared);
    frames_region_ = *client_.device->Register(frames_, kOpCount * kFrameStride, rdma::kLocalOnly);
    pool_ = std::make_unique<ClientBuffers>(client_.device.get());
    context_.device = client_.device.get();
    context_.send_cq = client_.send_cq.get();
    context_.recv_cq = client_.recv_cq.get();
    context_.pool = pool_.get();
    context_.op_count = kOpCount;
    context_.frame_lkey = frames_region_->lkey();
    connection_ = std::make_unique<Connection>(&context_, std::vector<std::string>{address});
    // Connect waits for the other side, which is this thread's as well.
    std::atomic<bool> connected{false};
    std::thread node([&] {
      while (!connected.load()) Accept();
    });
    rdma::ConnectionEvent event;
    const bool ready = ring::testing::HoldsWithin(ring::testing::kPatience, [&] {
      connection_->Connect(1);
      client_.device->Progress();
      while (client_.device->PollEvent(&event)) connection_->OnEvent(event, 1);
      return connection_->ready();
    });
    connected.store(true);
    node.join();
    ASSERT_TRUE(ready) << connection_->last_error();
  }

  void Accept() {
    node_.device->Progress();
    rdma::ConnectionEvent event;
    if (!node_.device->PollEvent(&event)) return;
    if (event.kind != rdma::ConnectionEvent::Kind::kConnectRequest) return;
    protocol::ClientAccept accept;
    const rdma::RemoteBuffer remote = ring_region_->remote();
    accept.requests = {remote.address, remote.length, remote.rkey, 0};
    rdma::QueuePairOptions options;
    options.send_cq = node_.send_cq.get();
    options.recv_cq = node_.recv_cq.get();
    ASSERT_OK_AND_ASSIGN(
        qp_, node_.device->Accept(event.request, options, protocol::EncodeHello(accept)));
    for (std::uint32_t i = 0; i < kNodeReceives; ++i) ASSERT_OK(qp_->PostRecv(i, {}));
  }
  // A get, sent by itself.
  Operation& Send() {
    Operation& op = ops_[sent_];
    op.index = static_cast<std::uint16_t>(sent_);
    op.frame = frames_ + sent_++ * kFrameStride;
    protocol::RequestHeader header;
    header.word.operation = protocol::Operation::kGet;
    header.word.key_length = 1;
    std::memcpy(op.frame, &header, sizeof(header));
    op.cells = static_cast<std::uint32_t>(protocol::RequestCells(1, false, 0));
    EXPECT_TRUE(connection_->Enqueue(&op, 0));
    connection_->OnAsked();
    connection_->Flush(now_ns_);
    return op;
  }
  // Doorbells that arrived since the last call. What they took is posted again.
  int TakeBells() {
    rdma::WorkCompletion completions[32];
    const std::size_t count = node_.recv_cq->Poll(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) EXPECT_OK(qp_->PostRecv(i, {}));
    return static_cast<int>(count);
  }
  void ExpectNoFailure() {
    rdma::WorkCompletion completions[32];
    while (const std::size_t count = client_.send_cq->Poll(absl::MakeSpan(completions))) {
      for (std::size_t i = 0; i < count; ++i) connection_->OnSendCompletion(completions[i]);
    }
    EXPECT_FALSE(connection_->broken()) << connection_->last_error();
  }

  Side node_{"node"};
  Side client_{"client"};
  std::byte* ring_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> ring_region_;
  std::unique_ptr<rdma::QueuePair> qp_;
  std::byte* frames_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> frames_region_;
  std::unique_ptr<ClientBuffers> pool_;
  ConnectionContext context_;
  std::unique_ptr<Connection> connection_;
  Operation ops_[kOpCount];
  std::size_t sent_ = 0;
  std::uint64_t now_ns_ = 1'000'000'000;
};

// Each bell takes one of the node's receives: more than it has would end the connection.
TEST_F(ConnectionTest, ANodeThatSleepsIsRungOnce) {
  node_.device->SetSleeping(true);
  for (int i = 0; i < 30; ++i) Send();
  ExpectNoFailure();
  EXPECT_EQ(TakeBells(), 1);
  EXPECT_FALSE(connection_->wants_flush());
}

// It woke up, and sleeps again before it could see the last request, however often.
TEST_F(ConnectionTest, ANodeThatSleepsAgainIsRungAgain) {
  for (int i = 0; i < 30; ++i) {
    node_.device->SetSleeping(true);
    Send();
    EXPECT_EQ(TakeBells(), 1) << i;
    node_.device->SetSleeping(false);
    ExpectNoFailure();
  }
}

TEST_F(ConnectionTest, ANodeThatIsAwakeIsNotRung) {
  for (int i = 0; i < 10; ++i) Send();
  EXPECT_EQ(TakeBells(), 0);
  node_.device->SetSleeping(true);
  for (int i = 0; i < 10; ++i) Send();
  EXPECT_GT(TakeBells(), 0);
  node_.device->SetSleeping(false);  // it looks at its rings before it sleeps again
  connection_->Flush(now_ns_);
  EXPECT_FALSE(connection_->wants_flush());
  node_.device->SetSleeping(true);
  Send();
  EXPECT_EQ(TakeBells(), 1);
  ExpectNoFailure();
}

// Nobody takes completions: the program stood still, and what it meant to send is too old by now.
TEST_F(ConnectionTest, X4RequestsThatFoundNoRoomForAMinuteAreNotSent) {
  while (!connection_->held_up() && sent_ < kOpCount) Send();
  ASSERT_TRUE(connection_->held_up());
  now_ns_ += protocol::kSilencePeriodNs - 1;
  connection_->Flush(now_ns_);
  EXPECT_FALSE(connection_->broken());
  now_ns_ += 1;
  connection_->Flush(now_ns_);
  EXPECT_TRUE(connection_->broken());
}

// ... and what found room again in time is.
TEST_F(ConnectionTest, RequestsThatFoundNoRoomAreSentWhenThereIsSome) {
  while (!connection_->held_up() && sent_ < kOpCount) Send();
  ASSERT_TRUE(connection_->held_up());
  ExpectNoFailure();
  connection_->Flush(now_ns_ + 1);
  EXPECT_FALSE(connection_->held_up());
  now_ns_ += 2 * protocol::kSilencePeriodNs;
  Send();
  ExpectNoFailure();
}

}  // namespace
}  // namespace ring::api
