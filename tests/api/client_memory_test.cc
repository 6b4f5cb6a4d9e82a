#include "api/client_memory.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/rdma/lasting_peer.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

class ClientBuffersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.name = "pool";
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    ASSERT_OK_AND_ASSIGN(cq_, device_->CreateCompletionQueue(64));
    pool_ = std::make_unique<ClientBuffers>(device_.get());
  }
  ClientBuffer Acquire(std::size_t size = 8192) {
    absl::StatusOr<ClientBuffer> buffer = pool_->Acquire(size);
    EXPECT_OK(buffer);
    return buffer.ok() ? *std::move(buffer) : ClientBuffer();
  }
  // The number of a queue pair that is gone here, and whose peer holds on.
  std::uint32_t HeldConnection() {
    const std::string address = *device_->Listen(absl::StrCat("local:buffers-", getpid()));
    const std::unique_ptr<rdma::QueuePair> qp = peer_.Connect(address, device_.get(), cq_.get());
    return qp->number();
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<ClientBuffers> pool_;
  testing::LastingPeer peer_;
};

TEST_F(ClientBuffersTest, L5ARetiredBufferIsNotUsedAgainBeforeItsWriterLetGo) {
  const std::uint32_t number = HeldConnection();
  ClientBuffer buffer = Acquire();
  const std::byte* const address = buffer.address;
  pool_->Retire(std::move(buffer), number);
  device_->Progress();
  const ClientBuffer early = Acquire();
  EXPECT_NE(early.address, address);
  peer_.device->Progress();
  device_->Progress();
  const ClientBuffer late = Acquire();
  EXPECT_EQ(late.address, address);
}

TEST_F(ClientBuffersTest, L5NorWhileSomebodyHoldsBytesOfIt) {
  ClientBuffer buffer = Acquire();
  std::byte* const address = buffer.address;
  EXPECT_FALSE(pool_->Hold(address)) << "it is not retired";
  pool_->Retire(std::move(buffer), /*qp_number=*/0);  // nobody holds on to that
  EXPECT_FALSE(pool_->Hold(address + 8192)) << "it ends there";
  ASSERT_TRUE(pool_->Hold(address));
  ASSERT_TRUE(pool_->Hold(address + 8191));
  address[0] = std::byte{7};
  const ClientBuffer other = Acquire();
  EXPECT_NE(other.address, address);
  pool_->LetGo(address);
  const ClientBuffer another = Acquire();
  EXPECT_NE(another.address, address);
  EXPECT_EQ(address[0], std::byte{7});
  pool_->LetGo(address + 8191);
  const ClientBuffer again = Acquire();
  EXPECT_EQ(again.address, address);
}

// Each of them takes a run of the device, whatever its size.
TEST_F(ClientBuffersTest, WhatOtherSizesDoNotUseIsForThisOne) {
  for (const std::size_t size : {4096, 16384, 65536}) {
    std::vector<ClientBuffer> lent;
    for (;;) {
      absl::StatusOr<ClientBuffer> buffer = pool_->Acquire(size);
      if (!buffer.ok()) {
        EXPECT_THAT(buffer.status(), testing::StatusIs(absl::StatusCode::kResourceExhausted));
        break;
      }
      lent.push_back(*std::move(buffer));
    }
    EXPECT_GT(lent.size(), 16u) << size;
    for (ClientBuffer& buffer : lent) {
      if (&buffer != &lent.front()) {
        pool_->Release(std::move(buffer));
      } else {
        pool_->Retire(std::move(buffer), /*qp_number=*/0);
      }
    }
  }
}

}  // namespace
}  // namespace ring::api
