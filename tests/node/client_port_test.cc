// The clients' door alone, with a client whose memory the test can see: V7.
#include "ring/node/client_port.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "rdma/soft/soft_device.h"
#include "tests/node/hostile_fixture.h"

namespace ring::node {
namespace {

using protocol::Outcome;

class ClientPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.name = "door";
    options.arena_size_max = std::uint64_t{64} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    ClientPortOptions port;
    port.device = device_.get();
    port.client_max = 4;
    port.shard_count = 1;
    ASSERT_OK_AND_ASSIGN(port_, ClientPort::Create(port));
    ASSERT_OK_AND_ASSIGN(const std::string address,
                         device_->Listen(absl::StrCat("local:door/", getpid())));
    // Connect waits for the other side, which is this thread's as well.
    std::atomic<bool> connected{false};
    std::thread door([&] {
      while (!connected.load()) Pump();
    });
    const bool in = client_.Connect(address);
    connected.store(true);
    door.join();
    ASSERT_TRUE(in) << client_.reason();
  }

  void Pump() {
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest)
        port_->OnConnectRequest(event.request, event.private_data, 1);
    }
    port_->PollCompletions(false);
    port_->PollDoorbells();
  }
  void PumpBoth() {
    for (int i = 0; i < 100; ++i) {
      Pump();
      client_.Progress();
    }
  }
  // Sends a request into this slot, takes it at the door and captures an answer.
  std::uint32_t AskAndAnswer(std::uint16_t slot, Outcome outcome, absl::string_view value = "") {
    HostileFrame frame = MakeGet("key");
    frame.header.reply_slot = slot;
    const std::uint32_t stamp = client_.Send(frame);
    Incoming incoming;
    EXPECT_TRUE(client_.WaitFor([&] {
      Pump();
      return port_->Take(&incoming);
    }));
    coordinator::Request request;
    port_->Address(incoming, &request);
    port_->AnswerBare(request.reply, outcome, NodeId(3), value);
    return stamp;
  }
  std::uint32_t StampIn(std::uint16_t slot) const { return client_.Reply(slot).word.stamp; }

  static constexpr std::uint32_t kNothing = 0xA5A5A5A5;  // HostileClient::kPoison

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<ClientPort> port_;
  HostileClient client_{"door-client"};
};

TEST_F(ClientPortTest, V7NothingIsSaidOfWhatWasCapturedBeforeTheRoleWasLost) {
  const std::uint32_t before = AskAndAnswer(0, Outcome::kNotFound);
  port_->Send([] { return true; });
  PumpBoth();
  EXPECT_EQ(StampIn(0), before);

  AskAndAnswer(1, Outcome::kNotFound);
  AskAndAnswer(2, Outcome::kOk);
  port_->Send([] { return false; });
  PumpBoth();
  EXPECT_EQ(StampIn(1), kNothing);
  EXPECT_EQ(StampIn(2), kNothing);

  // A role that is held again publishes its own answers, not those of before.
  const std::uint32_t after = AskAndAnswer(3, Outcome::kNotFound);
  port_->Send([] { return true; });
  PumpBoth();
  EXPECT_EQ(StampIn(3), after);
  EXPECT_EQ(StampIn(1), kNothing);
  EXPECT_EQ(StampIn(2), kNothing);
}

TEST_F(ClientPortTest, AClientIsNotTakenForStuckBeforeItHadTime) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  AskAndAnswer(0, Outcome::kNotFound);
  port_->Send([] { return true; });  // under way: nobody polls
  port_->EndStuck(1000 * kSecond);
  EXPECT_EQ(port_->client_count(), 1u);
  port_->EndStuck(1005 * kSecond);
  EXPECT_EQ(port_->client_count(), 1u);
  port_->EndStuck(1011 * kSecond);
  EXPECT_EQ(port_->client_count(), 0u);
}

TEST_F(ClientPortTest, V7TheRoleIsCheckedBehindTheCaptureAndBeforeTheReply) {
  const std::uint32_t stamp = AskAndAnswer(0, Outcome::kOk, "captured");
  int checks = 0;
  port_->Send([&] {
    ++checks;
    PumpBoth();
    EXPECT_EQ(client_.BytesBehindHeader(0, 8), "captured") << "asked before the value was captured";
    EXPECT_EQ(StampIn(0), kNothing) << "said before the role was checked";
    return true;
  });
  PumpBoth();
  EXPECT_EQ(checks, 1);
  EXPECT_EQ(StampIn(0), stamp);
  port_->Send([&] {
    ++checks;
    return true;
  });
  EXPECT_EQ(checks, 1) << "nobody waits for an answer";
}

}  // namespace
}  // namespace ring::node
