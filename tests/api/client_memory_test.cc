#include "api/client_memory.h"

#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kMinute = BufferPool::kQuarantineNs;

class BufferPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.name = "pool";
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    pool_ = std::make_unique<BufferPool>(device_.get());
  }
  Buffer Acquire(std::uint64_t now_ns) {
    absl::StatusOr<Buffer> buffer = pool_->Acquire(8192, now_ns);
    EXPECT_OK(buffer);
    return buffer.ok() ? *std::move(buffer) : Buffer();
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<BufferPool> pool_;
};

TEST_F(BufferPoolTest, L5ARetiredBufferIsNotUsedAgainBeforeItsQuarantineEnds) {
  Buffer buffer = Acquire(0);
  const std::byte* const address = buffer.address;
  pool_->Retire(std::move(buffer), 5);
  const Buffer early = Acquire(5 + kMinute - 1);
  EXPECT_NE(early.address, address);
  const Buffer late = Acquire(5 + kMinute);
  EXPECT_EQ(late.address, address);
}

TEST_F(BufferPoolTest, L5NorWhileSomebodyHoldsBytesOfIt) {
  Buffer buffer = Acquire(0);
  std::byte* const address = buffer.address;
  EXPECT_FALSE(pool_->Hold(address)) << "it is not retired";
  pool_->Retire(std::move(buffer), 0);
  EXPECT_FALSE(pool_->Hold(address + 8192)) << "it ends there";
  ASSERT_TRUE(pool_->Hold(address));
  ASSERT_TRUE(pool_->Hold(address + 8191));
  address[0] = std::byte{7};
  const Buffer other = Acquire(2 * kMinute);
  EXPECT_NE(other.address, address);
  pool_->LetGo(address);
  const Buffer another = Acquire(2 * kMinute);
  EXPECT_NE(another.address, address);
  EXPECT_EQ(address[0], std::byte{7});
  pool_->LetGo(address + 8191);
  const Buffer again = Acquire(2 * kMinute);
  EXPECT_EQ(again.address, address);
}

}  // namespace
}  // namespace ring::api
