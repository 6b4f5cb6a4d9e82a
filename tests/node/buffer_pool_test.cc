#include "ring/node/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "rdma/soft/soft_device.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

class BufferPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
  }
  std::unique_ptr<rdma::Device> device_;
};

// A device has 4,096 regions: what peers have no access to takes none of them.
TEST_F(BufferPoolTest, LocalBuffersTakeNoRegions) {
  constexpr std::size_t kCount = 5000;
  BufferPool pool(device_.get(), 64, kCount);
  std::vector<BufferPool::Buffer> buffers;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_OK_AND_ASSIGN(BufferPool::Buffer buffer, pool.Take(rdma::kLocalOnly));
    EXPECT_EQ(buffer.region, nullptr);
    EXPECT_EQ(buffer.lkey, device_->LocalKey(buffer.address));
    buffers.push_back(std::move(buffer));
  }
  EXPECT_FALSE(pool.Take(rdma::kLocalOnly).ok());
  for (BufferPool::Buffer& buffer : buffers) pool.GiveBack(std::move(buffer));
}

TEST_F(BufferPoolTest, L5AWritableBufferGetsAnotherKeyEachTimeAndIsZeroed) {
  BufferPool pool(device_.get(), 64, 1);
  ASSERT_OK_AND_ASSIGN(BufferPool::Buffer first, pool.Take(rdma::kRemoteWrite));
  const std::uint32_t key = first.region->rkey();
  std::byte* const address = first.address;
  std::memset(address, 1, 64);
  pool.GiveBack(std::move(first));
  ASSERT_OK_AND_ASSIGN(BufferPool::Buffer second, pool.Take(rdma::kRemoteWrite));
  ASSERT_EQ(second.address, address);
  EXPECT_NE(second.region->rkey(), key);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(second.address[i], std::byte{0});
  pool.GiveBack(std::move(second));
}

}  // namespace
}  // namespace ring::node
