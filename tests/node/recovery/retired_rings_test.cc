// Rings that were taken from a coordinator: who gets their memory, and when (L5).
#include "ring/node/recovery/retired_rings.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr cluster::Holder kWriter = {NodeId(3), Incarnation(7)};

class RetiredRingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    pool_ = std::make_unique<BufferPool>(device_.get(), 64, 1);
    retired_ = std::make_unique<RetiredRings>(pool_.get());
    ASSERT_OK_AND_ASSIGN(BufferPool::Buffer ring, pool_->Take(rdma::kRemoteWrite));
    ring.region->Revoke();
    retired_->Add(kWriter, std::move(ring));
  }
  // Whether the pool, which has one buffer, would give the ring's memory to another.
  bool MayBeUsed() {
    absl::StatusOr<BufferPool::Buffer> buffer = pool_->Take(rdma::kRemoteWrite);
    if (buffer.ok()) pool_->GiveBack(*std::move(buffer));
    return buffer.ok();
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<RetiredRings> retired_;
};

// A coordinator that was stopped in the middle of a copy goes on with it when it is woken.
TEST_F(RetiredRingsTest, L5AStoppedWritersRingIsNotUsedAgainBeforeItConnects) {
  EXPECT_FALSE(MayBeUsed());
  retired_->OnConnect({kWriter.node, Incarnation(8)});
  retired_->OnConnect({NodeId(4), kWriter.incarnation});
  retired_->OnIncarnation(kWriter.node, kWriter.incarnation);
  retired_->OnIncarnation(kWriter.node, Incarnation());  // removed, and added again
  retired_->OnIncarnation(NodeId(4), Incarnation(8));
  EXPECT_FALSE(MayBeUsed());
  retired_->OnConnect(kWriter);
  EXPECT_TRUE(MayBeUsed());
  EXPECT_EQ(retired_->size(), 0u);
}

TEST_F(RetiredRingsTest, L5ADeadWritersRingIsUsedAgain) {
  retired_->OnIncarnation(kWriter.node, Incarnation(8));
  EXPECT_TRUE(MayBeUsed());
}

}  // namespace
}  // namespace ring::node
