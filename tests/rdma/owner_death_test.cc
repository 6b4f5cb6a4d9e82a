// Rule L5 on shared memory, with real processes: initiator and target killed or stopped in
// mid-copy.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/contract/fabric_harness.h"
#include "tests/rdma/child_process.h"
#include "tests/rdma/side_steps.h"

namespace ring::rdma {
namespace {

constexpr std::size_t kCopySize = 4096;

SoftDeviceOptions ShmOptions() {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = true;
  options.rnr_timeout_ms = 60'000;  // a receive may be posted late
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

bool IsAtomic(Opcode opcode) {
  return opcode == Opcode::kCmpAndSwp || opcode == Opcode::kFetchAndAdd;
}

// The first request of the chain that is completed.
WorkCompletion Complete(Side& side, const WorkRequest& chain) {
  WorkCompletion completion;
  completion.status = WcStatus::kCalcFailed;  // none came
  if (!side.qp->PostSend(chain).ok()) return completion;
  Until(side, [&] { return side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; });
  return completion;
}

WorkCompletion Execute(Side& side, Opcode opcode, const RemoteBuffer& remote) {
  const Sge sge = side.At(0, IsAtomic(opcode) ? 8 : kCopySize);
  WorkRequest wr;
  wr.opcode = opcode;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.remote_address = remote.address;
  wr.rkey = remote.rkey;
  wr.compare_or_add = 0;
  wr.swap = 1;
  wr.imm = 77;
  wr.signaled = true;
  return Complete(side, wr);
}

// A WRITE, and an atomic behind it that says it is there: how the WRITE ended.
WorkCompletion WriteThenAdd(Side& side, const RemoteBuffer& remote) {
  const Sge bytes = side.At(0, kCopySize);
  const Sge old = side.At(kCopySize, 8);
  WorkRequest add;
  add.opcode = Opcode::kFetchAndAdd;
  add.sges = absl::MakeConstSpan(&old, 1);
  add.remote_address = remote.address + kCopySize;
  add.rkey = remote.rkey;
  add.compare_or_add = 1;
  add.signaled = true;
  WorkRequest write;
  write.opcode = Opcode::kWrite;
  write.sges = absl::MakeConstSpan(&bytes, 1);
  write.remote_address = remote.address;
  write.rkey = remote.rkey;
  write.signaled = true;
  write.next = &add;
  return Complete(side, write);
}

// A process that serves its memory until it is told 'q'.
int TargetBody(const std::string& address, Channel channel) {
  Side side(ShmOptions(), false);
  if (!side.device->Listen(address).ok()) return 1;
  channel.Tell('L');
  if (!AcceptOne(side)) return 2;
  for (std::uint64_t i = 0; i < 8; ++i) {
    if (!side.qp->PostRecv(i, {}).ok()) return 4;
  }
  channel.Tell('r');
  while (!channel.Ready()) side.CollectEvents();
  return channel.Await('q') ? 0 : 3;
}

// Connects to a TargetBody, until it has receives posted: one that is killed before answers a
// WRITE_WITH_IMM as a peer without receives.
RemoteBuffer ConnectToTarget(Side& side, const std::string& address, const ChildProcess& target) {
  const RemoteBuffer remote = ConnectTo(side, address);
  const bool ready = Until(side, [&] { return target.channel().Ready(); });
  return ready && target.channel().Await('r') ? remote : RemoteBuffer{};
}

// A process that stops or blocks in mid-copy of one request, then tells by its exit code how the
// request ended.
int InitiatorBody(const std::string& address, Channel channel, Opcode opcode, bool stop,
                  bool adds) {
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
  return static_cast<int>(
      (adds ? WriteThenAdd(side, remote) : Execute(side, opcode, remote)).status);
}

std::size_t BytesOf(const Side& side, std::byte value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < kCopySize; ++i) count += side.memory[i] == value ? 1 : 0;
  return count;
}

TEST(OwnerDeath, WriteFailsWhenTheTargetIsKilledInMidCopy) {  // L5
  for (const Opcode opcode : {Opcode::kWrite, Opcode::kWriteWithImm}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    const std::string address = FreshAddress(LinkKind::kShm);
    ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
    ASSERT_TRUE(target.channel().Await('L'));
    Side side(HookedOptions(), false);
    const RemoteBuffer remote = ConnectToTarget(side, address, target);
    ASSERT_NE(remote.rkey, 0u);
    EXPECT_EQ(Execute(side, opcode, remote).status, WcStatus::kSuccess);
    mid_copy = [&] { target.Kill(); };
    EXPECT_EQ(Execute(side, opcode, remote).status, WcStatus::kRemoteAccess);
    EXPECT_EQ(side.qp->state(), QpState::kError);
    ConnectionEvent event;
    EXPECT_TRUE(AwaitEvent(side, ConnectionEvent::Kind::kDisconnected, &event));
  }
}

// L5: what an atomic publishes failed, so the atomic is not executed.
TEST(OwnerDeath, AnAtomicBehindAWriteFailsWhenTheTargetIsKilledInMidCopy) {
  const std::string address = FreshAddress(LinkKind::kShm);
  ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
  ASSERT_TRUE(target.channel().Await('L'));
  Side side(HookedOptions(), false);
  const RemoteBuffer remote = ConnectToTarget(side, address, target);
  ASSERT_NE(remote.rkey, 0u);
  EXPECT_EQ(WriteThenAdd(side, remote).status, WcStatus::kSuccess);
  WorkCompletion completion;
  EXPECT_TRUE(Until(side, [&] { return side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  mid_copy = [&] { target.Kill(); };
  EXPECT_EQ(WriteThenAdd(side, remote).status, WcStatus::kRemoteAccess);
  EXPECT_TRUE(Until(side, [&] { return side.send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  EXPECT_EQ(completion.status, WcStatus::kFlushed);
}

TEST(OwnerDeath, EveryRequestToADeadTargetFails) {  // L5: its memfd stays mapped and writable
  for (const Opcode opcode : {Opcode::kWrite, Opcode::kRead, Opcode::kWriteWithImm,
                              Opcode::kCmpAndSwp, Opcode::kFetchAndAdd}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    const std::string address = FreshAddress(LinkKind::kShm);
    ChildProcess target([&](Channel channel) { return TargetBody(address, channel); });
    ASSERT_TRUE(target.channel().Await('L'));
    Side side(ShmOptions(), false);
    const RemoteBuffer remote = ConnectToTarget(side, address, target);
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
  ASSERT_NE(ConnectToTarget(side, address, target).rkey, 0u);
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
  const RemoteBuffer remote = ConnectToTarget(side, address, target);
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
  // adds: a WRITE with an atomic behind it.
  void Start(Opcode opcode, bool stop, bool adds = false) {
    const std::string address = FreshAddress(LinkKind::kShm);
    initiator_ = std::make_unique<ChildProcess>(
        [&](Channel channel) { return InitiatorBody(address, channel, opcode, stop, adds); });
    side_ = std::make_unique<Side>(ShmOptions(), false);
    ASSERT_TRUE(side_->device->Listen(address).ok());
    initiator_->channel().Tell('c');
    ASSERT_TRUE(AcceptOne(*side_));
    if (opcode == Opcode::kSend || opcode == Opcode::kWriteWithImm) {
      const Sge sge = side_->At(0, kCopySize);
      ASSERT_TRUE(side_->qp->PostRecv(7, absl::MakeConstSpan(&sge, 1)).ok());
    }
    ASSERT_TRUE(Until(*side_, [&] { return initiator_->channel().Ready(); }));
    ASSERT_TRUE(initiator_->channel().Await('h'));
    if (stop) {
      ASSERT_TRUE(initiator_->AwaitStopped());
    }
  }

  // The initiator is gone, and its message never came.
  void ExpectReceiveIsFlushed() {
    ConnectionEvent event;
    EXPECT_TRUE(AwaitEvent(*side_, ConnectionEvent::Kind::kDisconnected, &event));
    WorkCompletion completion;
    ASSERT_EQ(side_->recv_cq->Poll(absl::MakeSpan(&completion, 1)), 1u);
    EXPECT_EQ(completion.status, WcStatus::kFlushed);
    EXPECT_EQ(completion.wr_id, 7u);
  }

  // What the atomic adds to.
  std::uint64_t WordBehindTheCopy() const {
    std::uint64_t word = 0;
    std::memcpy(&word, side_->memory + kCopySize, sizeof(word));
    return word;
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
  ExpectReceiveIsFlushed();
}

TEST_F(InitiatorDeath, WriteResumedAfterRevokeFails) {  // L5: the writer was stopped in mid-copy
  Start(Opcode::kWrite, /*stop=*/true);
  side_->region->Revoke();
  EXPECT_EQ(BytesOf(*side_, std::byte{0x5a}), kCopySize / 2);
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRemoteAccess));
}

// L5: the bytes are half there, and nobody is told that they are.
TEST_F(InitiatorDeath, KilledInMidWriteWithImmDeliversNothing) {
  Start(Opcode::kWriteWithImm, /*stop=*/false);
  initiator_->Kill();
  ExpectReceiveIsFlushed();
}

TEST_F(InitiatorDeath, WriteWithImmResumedAfterRevokeFailsAndDeliversNothing) {  // L5
  Start(Opcode::kWriteWithImm, /*stop=*/true);
  side_->region->Revoke();
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRemoteAccess));
  ExpectReceiveIsFlushed();
}

TEST_F(InitiatorDeath, WriteWithImmResumedUntouchedDelivers) {
  Start(Opcode::kWriteWithImm, /*stop=*/true);
  initiator_->Signal(SIGCONT);
  WorkCompletion completion;
  EXPECT_TRUE(
      Until(*side_, [&] { return side_->recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  EXPECT_EQ(completion.imm, 77u);
  EXPECT_EQ(BytesOf(*side_, std::byte{0x5a}), kCopySize);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kSuccess));
}

// L5: the word behind a WRITE that was stopped is not touched when the region is another one's.
TEST_F(InitiatorDeath, AnAtomicBehindAWriteResumedAfterRevokeIsNotExecuted) {
  Start(Opcode::kWrite, /*stop=*/true, /*adds=*/true);
  side_->region->Revoke();
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kRemoteAccess));
  EXPECT_EQ(WordBehindTheCopy(), 0u);
}

TEST_F(InitiatorDeath, AnAtomicBehindAWriteResumedUntouchedIsExecuted) {
  Start(Opcode::kWrite, /*stop=*/true, /*adds=*/true);
  initiator_->Signal(SIGCONT);
  EXPECT_EQ(initiator_->AwaitExit(), static_cast<int>(WcStatus::kSuccess));
  EXPECT_EQ(WordBehindTheCopy(), 1u);
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
