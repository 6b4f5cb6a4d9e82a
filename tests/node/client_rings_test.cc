// Whose bytes are in a client's request ring (L5): clients that the node cannot make run.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "ring/node/client_port.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr int kClientMax = 2;
constexpr std::uint32_t kWriteSize = 4096;

// What happens in the middle of the next copy by a client.
std::function<void()> in_mid_copy;

std::unique_ptr<rdma::Device> OpenDevice(const char* name) {
  rdma::SoftDeviceOptions options;
  options.name = name;
  options.arena_size_max = std::uint64_t{256} << 20;
  options.copy_hook.function = [](void*) {
    if (in_mid_copy) std::exchange(in_mid_copy, nullptr)();
  };
  return *rdma::OpenSoftDevice(options);
}

class ClientRingsTest : public ::testing::Test {
 protected:
  // At whose device nothing happens by itself.
  struct TestClient {
    std::unique_ptr<rdma::Device> device = OpenDevice("client");
    std::unique_ptr<rdma::CompletionQueue> cq = *device->CreateCompletionQueue(64);
    std::unique_ptr<rdma::QueuePair> qp;
    rdma::QueuePair* at_node = nullptr;
    std::string refusal;
    protocol::BufferFields ring;
  };

  void SetUp() override {
    ClientPortOptions options;
    options.device = node_.get();
    options.client_max = kClientMax;
    ASSERT_OK_AND_ASSIGN(port_, ClientPort::Create(options));
    ASSERT_OK_AND_ASSIGN(address_, node_->Listen(absl::StrCat("local:rings-", getpid())));
  }
  void Pump() {
    node_->Progress();
    rdma::ConnectionEvent event;
    while (node_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest)
        port_->OnConnectRequest(event.request, event.private_data);
      if (event.kind == rdma::ConnectionEvent::Kind::kEstablished) last_ = event.qp;
    }
  }
  std::unique_ptr<TestClient> Connect() {
    auto client = std::make_unique<TestClient>();
    protocol::ClientHello hello;
    hello.client_low = 1;
    hello.reply_slot_count = 1;
    hello.replies.length = protocol::kReplySlotSize;
    client->qp = *client->device->Connect(
        address_, {.send_cq = client->cq.get(), .recv_cq = client->cq.get()},
        protocol::EncodeHello(hello));
    rdma::ConnectionEvent event;
    testing::Await("the node's answer", [&] {
      Pump();
      client->device->Progress();
      return client->device->PollEvent(&event);
    });
    if (event.kind != rdma::ConnectionEvent::Kind::kEstablished) {
      client->refusal = event.private_data;
      return client;
    }
    client->ring = protocol::DecodeHello<protocol::ClientAccept>(event.private_data)->requests;
    client->at_node = last_;
    return client;
  }
  // The node ends the connection, as it does with one that is stuck.
  void End(const TestClient& client) { port_->OnDisconnected(client.at_node); }
  static void Write(TestClient& client) {
    std::byte* const bytes = *client.device->Allocate(kWriteSize, rdma::MemoryKind::kShared);
    std::memset(bytes, 7, kWriteSize);
    const rdma::Sge sge{bytes, kWriteSize, client.device->LocalKey(bytes)};
    rdma::WorkRequest write;
    write.opcode = rdma::Opcode::kWrite;
    write.sges = absl::MakeConstSpan(&sge, 1);
    write.remote_address = client.ring.address;
    write.rkey = client.ring.rkey;
    ASSERT_OK(client.qp->PostSend(write));
  }
  static bool IsClean(const TestClient& client) {
    const auto* const bytes = reinterpret_cast<const char*>(client.ring.address);
    return std::all_of(bytes, bytes + client.ring.length, [](char byte) { return byte == 0; });
  }

  std::unique_ptr<rdma::Device> node_ = OpenDevice("node");
  std::unique_ptr<ClientPort> port_;
  std::string address_;
  rdma::QueuePair* last_ = nullptr;  // the node's, of who came last
};

// A request's header bears no checksum: another client's bytes would be believed.
TEST_F(ClientRingsTest, L5AStoppedClientWritesIntoNobodyElsesRing) {
  const std::unique_ptr<TestClient> stopped = Connect();
  std::unique_ptr<TestClient> next;
  in_mid_copy = [&] {
    End(*stopped);
    next = Connect();
  };
  Write(*stopped);
  ASSERT_NE(next, nullptr);
  ASSERT_EQ(next->refusal, "");
  EXPECT_TRUE(IsClean(*next));
  // It runs again, and lets go: its ring is not lost.
  stopped->device->Progress();
  const std::unique_ptr<TestClient> last = Connect();
  EXPECT_EQ(last->ring.address, stopped->ring.address);
  EXPECT_TRUE(IsClean(*last));
}

TEST_F(ClientRingsTest, L5WhatStoppedClientsKeepFromUseIsBounded) {
  std::vector<std::unique_ptr<TestClient>> stopped;
  for (int i = 0; i < kClientMax; ++i) {
    stopped.push_back(Connect());
    ASSERT_EQ(stopped.back()->refusal, "");
    End(*stopped.back());
  }
  EXPECT_EQ(port_->client_count(), 0u);
  EXPECT_THAT(Connect()->refusal, ::testing::HasSubstr("all buffers are in use"));
  stopped.clear();
  EXPECT_EQ(Connect()->refusal, "");
}

}  // namespace
}  // namespace ring::node
