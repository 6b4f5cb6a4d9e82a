// The clients' door alone, with a client whose memory the test can see: V7.
#include "ring/node/client_port.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "rdma/soft/soft_device.h"
#include "ring/base/crc32c.h"
#include "ring/coordinator/key_hash.h"
#include "tests/node/hostile/hostile_fixture.h"

namespace ring::node {
namespace {

using protocol::Outcome;

class ClientPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rdma::SoftDeviceOptions options;
    options.name = "door";
    options.arena_size_max = std::uint64_t{256} << 20;
    ASSERT_OK_AND_ASSIGN(device_, rdma::OpenSoftDevice(options));
    ClientPortOptions port;
    port.device = device_.get();
    port.client_max = 4;
    port.shard_count = 1;
    ASSERT_OK_AND_ASSIGN(port_, ClientPort::Create(port));
    ASSERT_OK_AND_ASSIGN(address_, device_->Listen(absl::StrCat("local:door/", getpid())));
    ASSERT_OK_AND_ASSIGN(arena_, memgest::DeltaArena::Create(device_.get()));
    coordinator::ShardOptions shard;
    shard.epoch = Epoch(1);
    shard.s = 3;
    shard.d = 2;
    shard_ = std::make_unique<coordinator::ShardCoordinator>(shard, device_.get(), arena_.get(),
                                                             port_.get());
    Connect(&client_);
  }

  // It waits for the other side, which is this thread's as well.
  void Connect(HostileClient* client) {
    std::atomic<bool> connected{false};
    std::thread door([&] {
      while (!connected.load()) Pump();
    });
    const bool in = client->Connect(address_);
    connected.store(true);
    door.join();
    ASSERT_TRUE(in) << client->reason();
  }

  void Pump() {
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest)
        port_->OnConnectRequest(event.request, event.private_data);
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
  // Sends a request into this slot, takes it at the door and captures an answer; with a value it is
  // the node's own.
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
    if (value.empty()) {
      coordinator::Reply reply;
      reply.outcome = outcome;
      port_->Answer(request.reply, reply, *shard_);
    } else {
      port_->AnswerBare(request.reply, outcome, NodeId(3), value);
    }
    return stamp;
  }
  // Sends a get into the first slot; whether the door takes it.
  bool AskOne(Incoming* incoming) {
    client_.Send(MakeGet("key"));
    client_.Progress();
    Pump();
    return port_->Take(incoming);
  }
  // The same, and the shard answers.
  bool AskKey() {
    Incoming incoming;
    if (!AskOne(&incoming)) return false;
    coordinator::Request get;
    port_->Address(incoming, &get);
    get.key = "key";
    get.hash = coordinator::KeyHash(get.key, shard_->options().hash_seed);
    shard_->Submit(get);
    return true;
  }
  std::uint64_t Pins() {
    const memgest::LineTable& lines = shard_->lines();
    std::uint64_t pins = 0;
    for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i)
      pins += lines.Has(i) ? lines.line(i).pins : 0u;
    return pins;
  }
  void StoreKey() {
    protocol::MemgestDescriptor rep1;
    rep1.id = MemgestId(1);
    rep1.name = "REP1";
    shard_->AddMemgest(rep1);
    static constexpr char kValue[] = "value";
    coordinator::Request put;
    put.operation = protocol::Operation::kPut;
    put.memgest = rep1.id;
    put.key = "key";
    put.hash = coordinator::KeyHash(put.key, shard_->options().hash_seed);
    put.value = reinterpret_cast<const std::byte*>(kValue);
    put.value_length = 5;
    put.value_crc = Crc32c(kValue, 5);
    put.client = shard_->AdmitClient({7, 7});
    put.seq = 1;
    put.request_crc = coordinator::RequestCrc(put);
    shard_->Submit(put);
    ASSERT_OK(shard_->Flush());
    shard_->Commit();
    shard_->EndTurn(1);
  }
  std::uint32_t StampIn(std::uint16_t slot) const { return client_.Reply(slot).word.stamp; }

  static constexpr std::uint32_t kNothing = 0xA5A5A5A5;  // HostileClient::kPoison

  std::string address_;
  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<memgest::DeltaArena> arena_;
  std::unique_ptr<ClientPort> port_;
  std::unique_ptr<coordinator::ShardCoordinator> shard_;
  coordinator::OpenFence open_;
  HostileClient client_{"door-client"};
};

// Lets pass what the test says.
class FakeFence final : public coordinator::Fence {
 public:
  std::uint64_t Decide(std::uint64_t captured) override {
    asked = captured;
    if (on_decide) on_decide();
    if (passes) passed = captured;
    return passed;
  }
  absl::string_view name() const override { return "fake"; }

  bool passes = true;
  std::uint64_t asked = 0;
  std::uint64_t passed = 0;
  std::function<void()> on_decide;
};

TEST_F(ClientPortTest, V7WhatDoesNotPassIsHeldUntilTheFencePassesAgain) {
  FakeFence fence;
  const std::uint32_t before = AskAndAnswer(0, Outcome::kNotFound);
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), before);

  fence.passes = false;
  const std::uint32_t first = AskAndAnswer(1, Outcome::kNotFound);
  port_->Send(fence);
  const std::uint32_t second = AskAndAnswer(2, Outcome::kNotFound);
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(1), kNothing);
  EXPECT_EQ(StampIn(2), kNothing);

  fence.passed = fence.asked - 1;  // a check that was posted before the second was captured
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(1), first);
  EXPECT_EQ(StampIn(2), kNothing);

  fence.passes = true;
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(2), second);
}

TEST_F(ClientPortTest, V7WhatIsHeldIsNeverSaidOnceTheRoleIsLost) {
  FakeFence fence;
  fence.passes = false;
  AskAndAnswer(0, Outcome::kNotFound);
  AskAndAnswer(1, Outcome::kOk);
  const std::uint32_t view = AskAndAnswer(2, Outcome::kOk, "a view");
  fence.passed = 0;
  port_->DropHeld(shard_.get());
  fence.passes = true;  // of other roles
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), kNothing);
  EXPECT_EQ(StampIn(1), kNothing);
  EXPECT_EQ(StampIn(2), view);
  EXPECT_EQ(port_->client_count(), 0u) << "the client would wait for what is never said (X1)";
}

// A put that no member need acknowledge (Rep(1)) commits at a zombie, too: nobody hears of it.
TEST_F(ClientPortTest, L3AnAcknowledgementPassesTheFenceLikeAnyAnswer) {
  FakeFence fence;
  fence.passes = false;
  AskAndAnswer(0, Outcome::kOk);
  for (int turn = 0; turn < 3; ++turn) port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), kNothing);
  port_->DropHeld(shard_.get());  // the role went to another node
  fence.passes = true;
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), kNothing);
}

// It may not even name a role: where else to ask must be heard from who was cut off, too.
TEST_F(ClientPortTest, WhatTheNodeSaysForItselfPassesNoFence) {
  FakeFence fence;
  fence.passes = false;
  AskAndAnswer(0, Outcome::kNotFound);
  const std::uint32_t view = AskAndAnswer(1, Outcome::kOk, "a view");
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), kNothing);
  EXPECT_EQ(StampIn(1), view);
}

TEST_F(ClientPortTest, ASlotThatIsUsedAgainGetsTheLaterAnswerAlone) {
  FakeFence fence;
  fence.passes = false;
  AskAndAnswer(0, Outcome::kNotFound);
  port_->Send(fence);
  fence.passed = fence.asked;
  const std::uint32_t later = AskAndAnswer(0, Outcome::kVersionMismatch);
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), kNothing) << "the later answer went out with the earlier one's pass";
  fence.passes = true;
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(StampIn(0), later);
}

// It asks nothing more, and sleeps on what it asked for before.
TEST_F(ClientPortTest, AClientThatSleepsBetweenItsAnswersIsRungForEach) {
  constexpr std::uint16_t kCount = 10;
  std::array<coordinator::Request, kCount> requests;
  for (std::uint16_t slot = 0; slot < kCount; ++slot) {
    HostileFrame frame = MakeGet("key");
    frame.header.reply_slot = slot;
    client_.Send(frame);
    Incoming incoming;
    ASSERT_TRUE(client_.WaitFor([&] {
      Pump();
      return port_->Take(&incoming);
    }));
    port_->Address(incoming, &requests[slot]);
  }
  FakeFence fence;
  for (std::uint16_t slot = 0; slot < kCount; ++slot) {
    const std::size_t before = client_.bells();
    client_.device().SetSleeping(true);
    coordinator::Reply reply;
    reply.outcome = Outcome::kNotFound;
    port_->Answer(requests[slot].reply, reply, *shard_);
    port_->Send(fence);
    for (int i = 0; i < 20; ++i) Pump();
    client_.device().SetSleeping(false);
    PumpBoth();
    EXPECT_EQ(client_.bells(), before + 1) << "answer " << slot;
  }
}

TEST_F(ClientPortTest, AClientIsNotTakenForStuckBeforeItHadTime) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  AskAndAnswer(0, Outcome::kNotFound);
  port_->Send(open_);  // under way: nobody polls
  port_->EndStuck(1000 * kSecond);
  EXPECT_EQ(port_->client_count(), 1u);
  port_->EndStuck(1005 * kSecond);
  EXPECT_EQ(port_->client_count(), 1u);
  port_->EndStuck(1011 * kSecond);
  EXPECT_EQ(port_->client_count(), 0u);
}

// Section "Bad input": an honest client has one request in a reply slot. Of one that has thousands
// there, the values of the answers would all be memory of this node, and their slots pinned (V6).
TEST_F(ClientPortTest, AClientIsNotHeardFurtherThanItsSlotsBearAnswers) {
  StoreKey();
  ASSERT_TRUE(AskKey());
  port_->Send(open_);
  PumpBoth();
  ASSERT_EQ(client_.Reply(0).word.outcome, Outcome::kOk) << "there is no value to pin";
  FakeFence closed;
  closed.passes = false;
  std::size_t answered = 0;
  while (answered < 10'000 && AskKey()) {
    ++answered;
    port_->Send(closed);
  }
  EXPECT_GE(answered, std::size_t{HostileClient::kSlotCount});
  EXPECT_LT(answered, std::size_t{HostileClient::kSlotCount} * 10);
  port_->Send(open_);
  PumpBoth();
  Incoming incoming;
  EXPECT_TRUE(port_->Take(&incoming)) << "what was not taken is heard when the answers are gone";
}

TEST_F(ClientPortTest, AClientThatAlwaysHasARequestLeavesTurnsToOthers) {
  constexpr int kAhead = 40;  // more than is taken in a turn
  HostileClient other("door-other");
  Connect(&other);
  Incoming incoming;
  const auto take = [&] {
    client_.Send(MakeGet("key"));
    client_.Progress();
    Pump();
    return port_->Take(&incoming);
  };
  for (int i = 0; i < kAhead; ++i) client_.Send(MakeGet("key"));
  ASSERT_TRUE(take());
  const std::uint32_t busy = incoming.connection;
  other.Send(MakeGet("key"));
  other.Progress();
  int taken = 0;
  while (incoming.connection == busy && taken < kAhead && take()) ++taken;
  EXPECT_NE(incoming.connection, busy) << "it was not heard while another had something to say";
}

TEST_F(ClientPortTest, V6WhatIsNotSaidAnyMoreIsUnpinned) {
  StoreKey();
  FakeFence closed;
  closed.passes = false;
  std::size_t answered = 0;
  while (answered < 10'000 && AskKey()) {
    ++answered;
    port_->Send(closed);
  }
  EXPECT_GT(Pins(), 0u);
  port_->DropHeld(shard_.get());  // the role went to another node
  EXPECT_EQ(Pins(), 0u) << "no answer is under way whose end could unpin it";
}

// The lost shard's memory stays while a line of it is pinned, and this client says no more.
TEST_F(ClientPortTest, V6WhatWasDroppedIsUnpinnedOnceNothingIsUnderWay) {
  StoreKey();
  Incoming own;
  ASSERT_TRUE(AskOne(&own));
  HostileFrame second = MakeGet("key");
  second.header.reply_slot = 1;
  client_.Send(second);
  client_.Progress();
  Pump();
  Incoming keys;
  ASSERT_TRUE(port_->Take(&keys));
  coordinator::Request request;
  port_->Address(own, &request);
  port_->AnswerBare(request.reply, Outcome::kOk, NodeId(3), "of the node");
  port_->Send(open_);  // under way until the next Pump
  coordinator::Request get;
  port_->Address(keys, &get);
  get.key = "key";
  get.hash = coordinator::KeyHash(get.key, shard_->options().hash_seed);
  shard_->Submit(get);
  FakeFence closed;
  closed.passes = false;
  port_->Send(closed);
  port_->DropHeld(shard_.get());  // the role went to another node
  EXPECT_EQ(Pins(), 1u);
  PumpBoth();
  EXPECT_EQ(Pins(), 0u);
}

TEST_F(ClientPortTest, AClientIsNotHeardWhileThousandsOfWritesWaitForIt) {
  std::size_t answered = 0;
  Incoming incoming;
  for (; answered < 20'000 && AskOne(&incoming); ++answered) {
    coordinator::Request request;
    port_->Address(incoming, &request);
    port_->AnswerBare(request.reply, Outcome::kOk, NodeId(3), "a view");
  }
  EXPECT_LT(answered, 10'000u);
  bool heard = false;
  for (int i = 0; i < 10 && !heard; ++i) {  // the queue pair holds some of the writes at a time
    port_->Send(open_);
    PumpBoth();
    heard = port_->Take(&incoming);
  }
  EXPECT_TRUE(heard);
}

// V6: two newer views do not write over the one that is being sent.
TEST_F(ClientPortTest, V6AViewStaysAsItIsUntilTheClientHasIt) {
  const std::vector<std::string> views = {"view 1", "view 2", "view 3", "view 4"};
  std::vector<Incoming> asked(views.size());
  for (std::size_t slot = 0; slot < views.size(); ++slot) {
    HostileFrame frame = MakeGet("key");
    frame.header.reply_slot = static_cast<std::uint16_t>(slot);
    client_.Send(frame);
    ASSERT_TRUE(client_.WaitFor([&] {
      Pump();
      return port_->Take(&asked[slot]);
    }));
  }
  for (std::size_t slot = 0; slot < views.size(); ++slot) {
    coordinator::Request request;
    port_->Address(asked[slot], &request);
    port_->AnswerBare(request.reply, Outcome::kOk, NodeId(3), views[slot]);
  }
  port_->Send(open_);
  PumpBoth();
  for (std::size_t slot = 0; slot < views.size(); ++slot)
    EXPECT_EQ(client_.BytesBehindHeader(static_cast<std::uint16_t>(slot), 6), views[slot]);
}

TEST_F(ClientPortTest, V7TheRoleIsCheckedBehindTheCaptureAndBeforeTheReply) {
  const std::uint32_t stamp = AskAndAnswer(0, Outcome::kOk, "captured");
  int checks = 0;
  FakeFence fence;
  fence.on_decide = [&] {
    ++checks;
    PumpBoth();
    EXPECT_EQ(client_.BytesBehindHeader(0, 8), "captured") << "asked before the value was captured";
    EXPECT_EQ(StampIn(0), kNothing) << "said before the role was checked";
  };
  port_->Send(fence);
  PumpBoth();
  EXPECT_EQ(checks, 1);
  EXPECT_EQ(StampIn(0), stamp);
  port_->Send(fence);
  EXPECT_EQ(checks, 1) << "nobody waits for an answer";
}

}  // namespace
}  // namespace ring::node
