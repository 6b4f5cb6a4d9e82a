// Rings that were taken from a peer: who gets their memory, and when (L5).
#include "ring/node/retired_rings.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/rdma/lasting_peer.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

// What happens in the middle of the peer's next copy.
std::function<void()> in_mid_copy;

class RetiredRingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    ASSERT_OK_AND_ASSIGN(cq_, device_->CreateCompletionQueue(64));
    ASSERT_OK_AND_ASSIGN(local_, device_->Listen(absl::StrCat("local:retired-", getpid())));
    ASSERT_OK_AND_ASSIGN(tcp_, device_->Listen("tcp:127.0.0.1:0"));
    pool_ = std::make_unique<BufferPool>(device_.get(), 64, 1);
    retired_ = std::make_unique<RetiredRings>(device_.get(), pool_.get());
    ASSERT_OK_AND_ASSIGN(ring_, pool_->Take(rdma::kRemoteWrite));
    rdma::soft::CopyHook hook;
    hook.function = [](void*) {
      if (in_mid_copy) std::exchange(in_mid_copy, nullptr)();
    };
    peer_ = std::make_unique<testing::LastingPeer>(hook);
  }
  void Connect(const std::string& address) {
    qp_ = peer_->Connect(address, device_.get(), cq_.get());
  }
  // The node ends the connection, and puts the ring aside.
  void Retire() {
    const std::uint32_t number = qp_->number();
    qp_.reset();
    retired_->Add(number, std::move(ring_));
  }
  // Whether the pool, which has one buffer, would give the ring's memory to another.
  bool MayBeUsed() {
    device_->Progress();
    retired_->Reclaim();
    absl::StatusOr<BufferPool::Buffer> buffer = pool_->Take(rdma::kRemoteWrite);
    if (buffer.ok()) pool_->GiveBack(*std::move(buffer));
    return buffer.ok();
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::string local_;
  std::string tcp_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<RetiredRings> retired_;
  BufferPool::Buffer ring_;
  std::unique_ptr<testing::LastingPeer> peer_;
  std::unique_ptr<rdma::QueuePair> qp_;
};

// A peer that was stopped in the middle of a copy goes on with it when it is woken.
TEST_F(RetiredRingsTest, L5AStoppedWritersRingIsNotUsedAgainBeforeItsEndLetGo) {
  Connect(local_);
  bool parked = false;
  in_mid_copy = [&] {
    parked = true;
    Retire();
    EXPECT_FALSE(MayBeUsed());
  };
  alignas(64) char bytes[64] = "from before";
  const rdma::Sge sge{reinterpret_cast<std::byte*>(bytes), sizeof(bytes), 0};
  rdma::WorkRequest write;
  write.opcode = rdma::Opcode::kWrite;
  write.inline_data = true;
  write.sges = absl::MakeConstSpan(&sge, 1);
  write.remote_address = ring_.region->remote().address;
  write.rkey = ring_.region->rkey();
  ASSERT_OK(peer_->qp->PostSend(write));
  ASSERT_TRUE(parked);
  EXPECT_FALSE(MayBeUsed()) << "nothing says that the copy is over";
  peer_->device->Progress();
  EXPECT_TRUE(MayBeUsed());
  EXPECT_EQ(retired_->size(), 0u);
}

TEST_F(RetiredRingsTest, L5ADeadWritersRingIsUsedAgain) {
  Connect(local_);
  Retire();
  EXPECT_FALSE(MayBeUsed());
  peer_.reset();
  EXPECT_TRUE(MayBeUsed());
}

// Its bytes are copied by the node itself.
TEST_F(RetiredRingsTest, ARingOfAPeerThatMapsNothingIsUsedAgainAtOnce) {
  Connect(tcp_);
  Retire();
  EXPECT_EQ(retired_->size(), 0u);
  EXPECT_TRUE(MayBeUsed());
}

}  // namespace
}  // namespace ring::node
