#include "api/client_memory.h"

#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kMinute = ClientBuffers::kQuarantineNs;

class ClientBuffersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.name = "pool";
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    pool_ = std::make_unique<ClientBuffers>(device_.get());
  }
  ClientBuffer Acquire(std::uint64_t now_ns) {
    absl::StatusOr<ClientBuffer> buffer = pool_->Acquire(8192, now_ns);
    EXPECT_OK(buffer);
    return buffer.ok() ? *std::move(buffer) : ClientBuffer();
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<ClientBuffers> pool_;
};

TEST_F(ClientBuffersTest, L5ARetiredBufferIsNotUsedAgainBeforeItsQuarantineEnds) {
  ClientBuffer buffer = Acquire(0);
  const std::byte* const address = buffer.address;
  pool_->Retire(std::move(buffer), 5);
  const ClientBuffer early = Acquire(5 + kMinute - 1);
  EXPECT_NE(early.address, address);
  const ClientBuffer late = Acquire(5 + kMinute);
  EXPECT_EQ(late.address, address);
}

TEST_F(ClientBuffersTest, L5NorWhileSomebodyHoldsBytesOfIt) {
  ClientBuffer buffer = Acquire(0);
  std::byte* const address = buffer.address;
  EXPECT_FALSE(pool_->Hold(address)) << "it is not retired";
  pool_->Retire(std::move(buffer), 0);
  EXPECT_FALSE(pool_->Hold(address + 8192)) << "it ends there";
  ASSERT_TRUE(pool_->Hold(address));
  ASSERT_TRUE(pool_->Hold(address + 8191));
  address[0] = std::byte{7};
  const ClientBuffer other = Acquire(2 * kMinute);
  EXPECT_NE(other.address, address);
  pool_->LetGo(address);
  const ClientBuffer another = Acquire(2 * kMinute);
  EXPECT_NE(another.address, address);
  EXPECT_EQ(address[0], std::byte{7});
  pool_->LetGo(address + 8191);
  const ClientBuffer again = Acquire(2 * kMinute);
  EXPECT_EQ(again.address, address);
}

}  // namespace
}  // namespace ring::api
