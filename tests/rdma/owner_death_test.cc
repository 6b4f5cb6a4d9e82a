// Rule L5 on shared memory, with real processes: initiator and target killed or stopped in
// mid-copy.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/contract/fabric_harness.h"
#include "tests/rdma/child_process.h"

namespace ring::rdma {
namespace {

constexpr std::size_t kCopySize = 4096;

SoftDeviceOptions ShmOptions() {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = true;
  options.rnr_timeout_ms = 50;
  return options;
}

// What happens when half of a copy is done; empty: nothing.
std::function<void()> mid_copy;

SoftDeviceOptions HookedOptions() {
  SoftDeviceOptions options = ShmOptions();
  options.copy_hook.function = [](void*) {
    if (mid_copy) std::exchange(mid_copy, nullptr)();
  };
  return options;
}

std::string NameOf(const Side& side) {
  const RemoteBuffer remote = side.region->remote();
  return std::string(reinterpret_cast<const char*>(&remote), sizeof(remote));
}
RemoteBuffer BufferOf(const std::string& name) {
  RemoteBuffer remote;
  if (name.size() == sizeof(remote)) std::memcpy(&remote, name.data(), sizeof(remote));
  return remote;
}

// Until a condition holds; progress in between. False after the deadline.
bool Until(Side& side, absl::FunctionRef<bool()> condition) {
  const time_t deadline = time(nullptr) + 20;
  while (!condition()) {
    if (time(nullptr) > deadline) return false;
    side.CollectEvents();
  }
  return true;
}

bool AwaitEvent(Side& side, ConnectionEvent::Kind kind, ConnectionEvent* event) {
  return Until(side, [&] { return side.TakeEvent(kind, event); });
}

RemoteBuffer ConnectTo(Side& side, const std::string& address) {
  auto qp = side.device->Connect(address, side.qp_options(), "");
  if (!qp.ok()) return {};
  side.qp = std::move(*qp);
  ConnectionEvent event;
  if (!AwaitEvent(side, ConnectionEvent::Kind::kEstablished, &event)) return {};
  return BufferOf(event.private_data);
}

bool AcceptOne(Side& side) {
  ConnectionEvent event;
  if (!AwaitEvent(side, ConnectionEvent::Kind::kConnectRequest, &event)) return false;
  auto qp = side.device->Accept(event.request, side.qp_options(), NameOf(side));
  if (!qp.ok()) return false;
  side.qp = std::move(*qp);
  return AwaitEvent(side, ConnectionEvent::Kind::kEstablished, &event);
}

WorkCompletion Execute(Side& side, Opcode opcode, const RemoteBuffer& remote) {
  const Sge sge = side.At(0, kCopySize);
  WorkRequest wr;
  wr.opcode = opcode;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.remote_address = remote.address;
  wr.rkey = remote.rkey;
  wr.signaled = true;
  WorkCompletion completion;
  completion.status = WcStatus::kCalcFailed;  // none came
  if (!side.qp->PostSend(wr).ok()) return completion;
  Until(side, [&] { return side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; });
  return completion;
}

// A process that serves its memory until it is told 'q'.
int TargetBody(const std::string& address, Channel channel) {
  Side side(ShmOptions(), false);
  if (!side.device->Listen(address).ok()) return 1;
  channel.Tell('L');
  if (!AcceptOne(side)) return 2;
  while (!channel.Ready()) side.CollectEvents();
  return channel.Await('q') ? 0 : 3;
}

// A process that stops or blocks in mid-copy of one request, then tells by its exit code how the
// request ended.
int InitiatorBody(const std::string& address, Channel channel, Opcode opcode, bool stop) {
  if (!channel.Await('c')) return 100;
  Side side(HookedOptions(), false);
  const RemoteBuffer remote = ConnectTo(side, address);
  if (remote.rkey == 0) return 101;
  std::memset(side.memory, 0x5a, kCopySize);
  mid_copy = [&] {
    channel.Tell('h');
    if (stop) {
      raise(SIGSTOP);
    } else {
      for (;;) pause();
    }
  };
  return static_cast<int>(Execute(side, opcode, remote).status);
}

std::size_t BytesOf(const Side& side, std::byte value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < kCopySize; ++i) count += side.memory[i] == value ? 1 : 0;
  return count;
}

TEST(OwnerDeath, WriteFailsWhenTheTargetIsKilledInMidCopy) {  // L5
  const std::string address = FreshAddress(LinkKind::kShm);
  ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
  ASSERT_TRUE(target.channel().Await('L'));
  Side side(HookedOptions(), false);
  const RemoteBuffer remote = ConnectTo(side, address);
  ASSERT_NE(remote.rkey, 0u);
  EXPECT_EQ(Execute(side, Opcode::kWrite, remote).status, WcStatus::kSuccess);
  mid_copy = [&] { target.Kill(); };
  EXPECT_EQ(Execute(side, Opcode::kWrite, remote).status, WcStatus::kRemoteAccess);
  EXPECT_EQ(side.qp->state(), QpState::kError);
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
}

TEST(OwnerDeath, EveryRequestToADeadTargetFails) {  // L5: its memfd stays mapped and writable
  for (const Opcode opcode : {Opcode::kWrite, Opcode::kRead}) {
    const std::string address = FreshAddress(LinkKind::kShm);
    ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
    ASSERT_TRUE(target.channel().Await('L'));
    Side side(ShmOptions(), false);
    const RemoteBuffer remote = ConnectTo(side, address);
    ASSERT_NE(remote.rkey, 0u);
    target.Kill();
    // No progress in between: the hang-up has not been seen yet.
    EXPECT_EQ(Execute(side, opcode, remote).status, WcStatus::kRemoteAccess);
  }
}

TEST(OwnerDeath, KilledTargetIsADisconnect) {
  const std::string address = FreshAddress(LinkKind::kShm);
  ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
  ASSERT_TRUE(target.channel().Await('L'));
  Side side(ShmOptions(), false);
  ASSERT_NE(ConnectTo(side, address).rkey, 0u);
  target.Kill();
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_EQ(event.qp, side.qp.get());
  EXPECT_EQ(side.qp->state(), QpState::kError);
}

TEST(OwnerDeath, StoppedTargetIsStillWritten) {
  const std::string address = FreshAddress(LinkKind::kShm);
  ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
  ASSERT_TRUE(target.channel().Await('L'));
  Side side(HookedOptions(), false);
  const RemoteBuffer remote = ConnectTo(side, address);
  ASSERT_NE(remote.rkey, 0u);
  mid_copy = [&] {
    target.Signal(SIGSTOP);
    ASSERT_TRUE(target.AwaitStopped());
  };
  // It has revoked nothing, and will see the bytes when it goes on.
  EXPECT_EQ(Execute(side, Opcode::kWrite, remote).status, WcStatus::kSuccess);
  target.Signal(SIGCONT);
  target.channel().Tell('q');
  EXPECT_EQ(target.AwaitExit(), 0);
}

class InitiatorDeath : public ::testing::Test {
 protected:
  // Forks the initiator, then becomes its target, until the initiator is in mid-copy.
  void Start(Opcode opcode, bool stop) {
    const std::string address = FreshAddress(LinkKind::kShm);
    initiator_ = std::make_unique<ChildProcess>(
        [&](Channel channel) { return InitiatorBody(address, channel, opcode, stop); });
    side_ = std::make_unique<Side>(ShmOptions(), false);
    ASSERT_TRUE(side_->device->Listen(address).ok());
    initiator_->channel().Tell('c');
    ASSERT_TRUE(AcceptOne(*side_));
    if (opcode == Opcode::kSend) {
      const Sge sge = side_->At(0, kCopySize);
      ASSERT_TRUE(side_->qp->PostRecv(7, absl::MakeConstSpan(&sge, 1)).ok());
    }
    ASSERT_TRUE(Until(*side_, [&] { return initiator_->channel().Ready(); }));
    ASSERT_TRUE(initiator_->channel().Await('h'));
    if (stop) {
      ASSERT_TRUE(initiator_->AwaitStopped());
    }
  }

  std::unique_ptr<ChildProcess> initiator_;
  std::unique_ptr<Side> side_;
};

TEST_F(InitiatorDeath, KilledInMidWriteIsADisconnectAndLeavesHalf) {  // L5
  Start(Opcode::kWrite, /*stop=*/false);
  initiator_->Kill();
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(*side_, ConnectionEvent::Kind::kDisconnected, &event));
  side_->region->Revoke();
  EXPECT_EQ(BytesOf(*side_, std::byte{0x5a}), kCopySize / 2);
}

TEST_F(InitiatorDeath, KilledInMidSendDeliversNothing) {
  Start(Opcode::kSend, /*stop=*/false);
  initiator_->Kill();
  ConnectionEvent event;
  EXPECT_TRUE(AwaitEvent(*side_, ConnectionEvent::Kind::kDisconnected, &event));
  WorkCompletion completion;
  ASSERT_EQ(side_->recv_cq->Poll(absl::MakeSpan(&completion, 1)), 1u);
  EXPECT_EQ(completion.status, WcStatus::kFlushed);
  EXPECT_EQ(completion.wr_id, 7u);
}

TEST_F(InitiatorDeath, WriteResumedAfterRevokeFails) {  // L5: the writer was stopped in mid-copy
  Start(Opcode::kWrite, /*stop=*/true);
  side_->region->Revoke();
  EXPECT_EQ(BytesOf(*side_, std::byte{0x5a}), kCopySize / 2);
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRemoteAccess));
}

TEST_F(InitiatorDeath, WriteResumedAfterResetFails) {  // L5, L8
  Start(Opcode::kWrite, /*stop=*/true);
  side_->qp->Reset();
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRetryExceeded));
}

TEST_F(InitiatorDeath, WriteResumedUntouchedSucceeds) {
  Start(Opcode::kWrite, /*stop=*/true);
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kSuccess));
  EXPECT_EQ(BytesOf(*side_, std::byte{0x5a}), kCopySize);
}

// A mailbox must not pass to a new connection while a stopped writer may still write into it.
TEST_F(InitiatorDeath, SendResumedAfterResetIsHeardByNobody) {
  Start(Opcode::kSend, /*stop=*/true);
  side_->qp.reset();
  WorkCompletion completion;
  while (side_->recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) {
  }
  // Every other mailbox is used once; the stopped one's turn would come among them.
  const std::string address = FreshAddress(LinkKind::kLocal);
  ASSERT_TRUE(side_->device->Listen(address).ok());
  const Sge sge = side_->At(8192, 64);
  std::vector<std::unique_ptr<QueuePair>> waiting;
  for (std::uint32_t i = 0; i < ShmOptions().qp_count_max; ++i) {
    auto qp = side_->device->Connect(address, side_->qp_options(), "");
    if (!qp.ok()) {
      EXPECT_EQ(qp.status().code(), absl::StatusCode::kResourceExhausted);
      break;
    }
    if (i % 8 == 0) {
      ASSERT_TRUE((*qp)->PostRecv(i, absl::MakeConstSpan(&sge, 1)).ok());
    }
    waiting.push_back(std::move(*qp));
  }
  EXPECT_EQ(waiting.size(), ShmOptions().qp_count_max - 1);
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRetryExceeded));
  EXPECT_EQ(side_->recv_cq->Poll(absl::MakeSpan(&completion, 1)), 0u);
  // The writer is gone now, so its mailbox may be used again.
  EXPECT_TRUE(Until(*side_, [&] {
    auto qp = side_->device->Connect(address, side_->qp_options(), "");
    if (!qp.ok()) return false;
    waiting.push_back(std::move(*qp));
    return true;
  }));
  waiting.clear();
}

}  // namespace
}  // namespace ring::rdma
