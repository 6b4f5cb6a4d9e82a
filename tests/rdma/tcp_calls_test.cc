// What a batch costs on tcp, in system calls; and what is held for a peer that does not read.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "rdma/soft/hot_sockets.h"
#include "rdma/soft/send_slot.h"
#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

class TcpCalls : public FabricContract {
 protected:
  // A chain of unacknowledged WRITEs of `size` bytes each, one behind the other.
  void PostChain(std::size_t count, std::size_t size, bool unacknowledged) {
    std::vector<WorkRequest> chain(count);
    std::vector<Sge> sges(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::memset(a_->memory + i * size, static_cast<int>(i + 1), size);
      sges[i] = a_->At(i * size, size);
      chain[i] = Write(sges[i], i * size, i);
      chain[i].unacknowledged = unacknowledged;
      chain[i].signaled = i + 1 == count;
      chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
    }
    ASSERT_TRUE(a_->qp->PostSend(chain[0]).ok());
  }
  bool LandedAtB(std::size_t count, std::size_t size) {
    return BytesAtB((count - 1) * size, std::string(size, static_cast<char>(count)));
  }
  // One unacknowledged WRITE of a word, which `there` then finds with its next turn.
  static void SendWord(QueuePair& qp, Side& here, Side& there, std::size_t offset,
                       std::uint64_t value) {
    std::memcpy(here.memory + offset, &value, sizeof(value));
    const Sge sge = here.At(offset, sizeof(value));
    WorkRequest wr;
    wr.opcode = Opcode::kWrite;
    wr.unacknowledged = true;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    wr.remote_address = there.AddressAt(offset);
    wr.rkey = there.region->rkey();
    ASSERT_TRUE(qp.PostSend(wr).ok());
    AwaitReadable(there);
  }
  // Waits, without a turn, until the device has something to receive.
  static void AwaitReadable(Side& side) {
    // Telling a device without io_uring that it sleeps makes it look at its descriptors.
    const bool uring = HasUring(side);
    if (uring) side.device->SetSleeping(true);
    pollfd entry{side.device->event_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 30'000), 1);
    if (uring) side.device->SetSleeping(false);
  }
  static bool HasUring(const Side& side) { return side.device->device_counters().urings != 0; }
  static std::uint64_t WordOf(const Side& side, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, side.memory + offset, sizeof(value));
    return value;
  }
  static std::uint64_t CallsToReceive(const Side& side) {
    const DeviceCounters calls = side.device->device_counters();
    return calls.receives + calls.waits + calls.uring_enters;
  }
  // A word every turn, until b has learnt that there is no other socket to ask for.
  void MakeBusy(int rounds = 1000) {
    for (int i = 0; i < rounds; ++i) {
      SendWord(*a_->qp, *a_, *b_, 0, 1);
      a_->device->Progress();
      b_->device->Progress();
    }
  }
  static constexpr std::uint64_t kPeriod = soft::HotSockets::kPeriodMax;
  static constexpr std::uint64_t kBatchesPerLook = soft::HotSockets::kBatchesPerLook;
  static constexpr std::uint64_t kSlack = 16;
};

TEST_P(TcpCalls, ABatchOfUnacknowledgedWritesIsOneSendAndNoAnswer) {
  a_->device->Progress();  // a turn of its own
  const DeviceCounters a_before = a_->device->device_counters();
  const DeviceCounters b_before = b_->device->device_counters();
  PostChain(32, 64, true);
  EXPECT_EQ(a_->device->device_counters().sends, a_before.sends + 1);
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(WaitFor([&] { return LandedAtB(32, 64); }));
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  EXPECT_EQ(a_->device->device_counters().sends, a_before.sends + 1);
  EXPECT_EQ(b_->device->device_counters().sends, b_before.sends);
}

TEST_P(TcpCalls, ABatchOfWritesIsOneSendAndOneAcknowledgement) {
  a_->device->Progress();
  const DeviceCounters a_before = a_->device->device_counters();
  const DeviceCounters b_before = b_->device->device_counters();
  PostChain(32, 64, false);
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(LandedAtB(32, 64));
  EXPECT_EQ(a_->device->device_counters().sends, a_before.sends + 1);
  EXPECT_LE(b_->device->device_counters().sends, b_before.sends + 2);
}

TEST_P(TcpCalls, SmallPostsOfOneTurnShareASend) {
  a_->device->Progress();
  const DeviceCounters before = a_->device->device_counters();
  const Sge sge = a_->At(0, 8);
  for (int i = 0; i < 20; ++i) {
    WorkRequest wr = Write(sge, 0);
    wr.unacknowledged = true;
    ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  }
  a_->device->Progress();
  EXPECT_LE(a_->device->device_counters().sends, before.sends + 2);
}

TEST_P(TcpCalls, ABusySocketCostsOneCallABatchInEachDirection) {
  MakeBusy();
  constexpr std::uint64_t kBatches = 800;
  const DeviceCounters a_before = a_->device->device_counters();
  const std::uint64_t b_before = CallsToReceive(*b_);
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    SendWord(*a_->qp, *a_, *b_, 0, i + 2);
    a_->device->Progress();
    b_->device->Progress();
    ASSERT_EQ(WordOf(*b_, 0), i + 2);
  }
  EXPECT_EQ(a_->device->device_counters().sends, a_before.sends + kBatches);
  // A look now and then, and nothing to find out that a socket is empty.
  EXPECT_LE(CallsToReceive(*b_), b_before + kBatches + kBatches / kBatchesPerLook);
}

TEST_P(TcpCalls, RequestsAndAnswersInTurnCostOneCallATurn) {
  std::uint64_t turns_of_a = 0;
  std::uint64_t turns_of_b = 0;
  const auto round = [&](std::uint64_t value) {
    SendWord(*a_->qp, *a_, *b_, 0, value);
    for (; WordOf(*b_, 0) != value; ++turns_of_b) b_->device->Progress();
    // Turns in which there is nothing yet are one call, too.
    for (int i = 0; i < 3; ++i, ++turns_of_a) a_->device->Progress();
    SendWord(*b_->qp, *b_, *a_, 8, value);
    for (; WordOf(*a_, 8) != value; ++turns_of_a) a_->device->Progress();
    for (int i = 0; i < 3; ++i, ++turns_of_b) b_->device->Progress();
  };
  for (std::uint64_t i = 1; i <= 500; ++i) round(i);
  turns_of_a = turns_of_b = 0;
  const std::uint64_t a_before = CallsToReceive(*a_);
  const std::uint64_t b_before = CallsToReceive(*b_);
  constexpr std::uint64_t kRounds = 200;
  for (std::uint64_t i = 1; i <= kRounds; ++i) round(1000 + i);
  EXPECT_EQ(turns_of_a, 4 * kRounds);  // what is readable is found by the next turn
  EXPECT_EQ(turns_of_b, 4 * kRounds);
  EXPECT_LE(CallsToReceive(*a_) - a_before, turns_of_a + turns_of_a / kPeriod);
  EXPECT_LE(CallsToReceive(*b_) - b_before, turns_of_b + turns_of_b / kPeriod);
}

TEST_P(TcpCalls, AQuietSocketIsServedWhileAnotherIsBusy) {
  std::unique_ptr<QueuePair> quiet_a;
  std::unique_ptr<QueuePair> quiet_b;
  Connect(&quiet_a, &quiet_b);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    MakeBusy(50 * static_cast<int>(round));
    SendWord(*quiet_a, *a_, *b_, 64, round);
    std::uint64_t turns = 0;
    for (; WordOf(*b_, 64) != round && turns < 100; ++turns) {
      SendWord(*a_->qp, *a_, *b_, 0, turns);
      a_->device->Progress();
      b_->device->Progress();
    }
    EXPECT_LE(turns, kBatchesPerLook);
  }
}

// Words go both ways over every pair in every turn, however many there are: a send for each batch
// sent, a receive for each batch received, and next to nothing besides.
TEST_P(TcpCalls, OfAnyNumberOfBusySocketsEachCostsOneCallABatchInEachDirection) {
  for (const std::size_t pairs : {4, 7, 16}) {
    std::vector<std::unique_ptr<QueuePair>> at_a(pairs);
    std::vector<std::unique_ptr<QueuePair>> at_b(pairs);
    for (std::size_t i = 0; i < pairs; ++i) Connect(&at_a[i], &at_b[i]);
    const auto turns = [&](std::uint64_t count) {
      for (std::uint64_t turn = 1; turn <= count; ++turn) {
        for (std::size_t i = 0; i < pairs; ++i) SendWord(*at_a[i], *a_, *b_, 64 * i, turn);
        for (std::size_t i = 0; i < pairs; ++i) SendWord(*at_b[i], *b_, *a_, 64 * i + 8, turn);
        // The last word that was sent is readable: those before it are, too.
        a_->device->Progress();
        b_->device->Progress();
      }
    };
    turns(200);
    const DeviceCounters before = a_->device->device_counters();
    const DeviceCounters b_before = b_->device->device_counters();
    constexpr std::uint64_t kTurns = 400;
    turns(kTurns);
    for (std::size_t i = 0; i < pairs; ++i) EXPECT_EQ(WordOf(*b_, 64 * i), kTurns);
    for (const bool is_a : {true, false}) {
      const DeviceCounters& from = is_a ? before : b_before;
      const DeviceCounters to = (is_a ? a_ : b_)->device->device_counters();
      const std::uint64_t batches = to.batches_received - from.batches_received;
      EXPECT_GE(batches, kTurns * pairs * 9 / 10);
      EXPECT_LE(to.uring_enters - from.uring_enters, batches);
      EXPECT_LE(to.receives - from.receives, batches + batches / kBatchesPerLook + kSlack);
      EXPECT_LE(to.receives_in_vain - from.receives_in_vain, batches / kBatchesPerLook + kSlack);
      EXPECT_LE(to.waits - from.waits, batches / kBatchesPerLook + kSlack);
      EXPECT_EQ(to.batches_sent - from.batches_sent, kTurns * pairs);
      EXPECT_EQ(to.sends - from.sends, kTurns * pairs);
    }
  }
}

// One word in each turn, on one of many connections in turn: what nobody can foresee costs a look
// and a receive, and no more.
TEST_P(TcpCalls, SocketsThatAreSeldomBusyAreFoundByALook) {
  constexpr std::size_t kPairs = 6;
  std::vector<std::unique_ptr<QueuePair>> from_a(kPairs);
  std::vector<std::unique_ptr<QueuePair>> at_b(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) Connect(&from_a[i], &at_b[i]);
  constexpr std::uint64_t kTurns = 600;
  const DeviceCounters before = b_->device->device_counters();
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    const std::size_t i = turn % kPairs;
    SendWord(*from_a[i], *a_, *b_, 64 * i, turn);
    a_->device->Progress();
    for (int tries = 0; WordOf(*b_, 64 * i) != turn && tries < 10; ++tries) b_->device->Progress();
    ASSERT_EQ(WordOf(*b_, 64 * i), turn);
  }
  const DeviceCounters after = b_->device->device_counters();
  EXPECT_LE(after.receives - before.receives, kTurns + kTurns / kBatchesPerLook + kSlack);
  EXPECT_LE(after.waits - before.waits, kTurns + kTurns / kBatchesPerLook + kSlack);
}

// With io_uring the bound holds to the letter, whoever is busy and in whatever order: what comes
// and goes costs, at each side, no more calls than batches.
class TcpUringCalls : public TcpCalls {
 protected:
  void SetUp() override {
    TcpCalls::SetUp();
    ASSERT_TRUE(HasUring(*a_)) << "run these where the system allows io_uring";
  }
  void TearDown() override {
    at_a_.clear();
    at_b_.clear();
    TcpCalls::TearDown();
  }
  void ConnectPairs(std::size_t pairs) {
    at_a_.resize(pairs);
    at_b_.resize(pairs);
    for (std::size_t i = 0; i < pairs; ++i) Connect(&at_a_[i], &at_b_[i]);
    for (int i = 0; i < 10; ++i) {  // what connecting left behind
      a_->device->Progress();
      b_->device->Progress();
    }
  }
  void FromA(std::size_t i, std::uint64_t value) { SendWord(*at_a_[i], *a_, *b_, 64 * i, value); }
  void FromB(std::size_t i, std::uint64_t value) {
    SendWord(*at_b_[i], *b_, *a_, 64 * i + 8, value);
  }
  // The work leaves nothing that was sent and has not come.
  void ExpectOneCallABatch(absl::FunctionRef<void()> work) {
    const DeviceCounters a_before = a_->device->device_counters();
    const DeviceCounters b_before = b_->device->device_counters();
    work();
    ASSERT_FALSE(HasFatalFailure());
    const DeviceCounters a_after = a_->device->device_counters();
    const DeviceCounters b_after = b_->device->device_counters();
    for (const auto& [before, after] :
         {std::pair(a_before, a_after), std::pair(b_before, b_after)}) {
      const std::uint64_t came = after.batches_received - before.batches_received;
      const std::uint64_t left = after.batches_sent - before.batches_sent;
      EXPECT_LE(after.sends - before.sends, left);
      EXPECT_LE(after.uring_enters - before.uring_enters, came);
      EXPECT_EQ(after.receives - before.receives, 0u);
      EXPECT_EQ(after.waits - before.waits, 0u);
      EXPECT_EQ(after.uring_enters_in_vain - before.uring_enters_in_vain, 0u);
    }
  }
  void AwaitWord(Side& side, std::size_t offset, std::uint64_t value) {
    ASSERT_TRUE(WaitFor([&] { return WordOf(side, offset) == value; }));
  }

  std::vector<std::unique_ptr<QueuePair>> at_a_;
  std::vector<std::unique_ptr<QueuePair>> at_b_;
};

TEST_P(TcpUringCalls, ABatchCostsAtMostOneCallWhoeverIsBusy) {
  for (const std::size_t pairs : {1, 4, 16, 100}) {
    ConnectPairs(pairs);
    const std::size_t seldom = pairs / 3 + 1;
    ExpectOneCallABatch([&] {
      for (std::uint64_t turn = 1; turn <= 300; ++turn) {
        for (std::size_t i = 0; i < pairs; ++i) {
          if (i % 2 == 0 || turn % seldom == i % seldom) FromA(i, turn);
          if (i % 3 != 0 || turn % seldom == i % seldom) FromB(i, turn);
        }
        a_->device->Progress();
        b_->device->Progress();
      }
      for (std::size_t i = 0; i < pairs; ++i) {
        FromA(i, 1000);
        FromB(i, 1000);
      }
      for (std::size_t i = 0; i < pairs; ++i) {
        AwaitWord(*b_, 64 * i, 1000);
        AwaitWord(*a_, 64 * i + 8, 1000);
      }
    });
  }
}

TEST_P(TcpUringCalls, ARequestAndItsAnswerCostOneCallEachAtEachSide) {
  ConnectPairs(1);
  ExpectOneCallABatch([&] {
    for (std::uint64_t round = 1; round <= 500; ++round) {
      FromA(0, round);
      AwaitWord(*b_, 0, round);
      FromB(0, round);
      AwaitWord(*a_, 8, round);
    }
  });
}

TEST_P(TcpUringCalls, OneCallReceivesWhatCameOnAllConnections) {
  constexpr std::size_t kPairs = 16;
  constexpr std::uint64_t kTurns = 100;
  ConnectPairs(kPairs);
  const std::uint64_t before = CallsToReceive(*b_);
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    for (std::size_t i = 0; i < kPairs; ++i) FromA(i, turn);
    for (std::size_t i = 0; i < kPairs; ++i) AwaitWord(*b_, 64 * i, turn);
  }
  // A segment may be late now and then.
  EXPECT_LE(CallsToReceive(*b_) - before, kTurns * kPairs / 2);
}

// Long payloads too: pieces of a kernel's buffer are no calls of their own.
TEST_P(TcpUringCalls, LongWritesCostNoMoreCallsThanBatches) {
  ConnectPairs(1);
  for (const std::size_t size : {5'000, 100'000, 1'000'000}) {
    const DeviceCounters before = b_->device->device_counters();
    const Sge sge = a_->At(0, size);
    std::memset(a_->memory, static_cast<int>(size % 251), size);
    ASSERT_TRUE(at_a_[0]->PostSend(Write(sge, 0)).ok());
    EXPECT_TRUE(
        WaitFor([&] { return BytesAtB(0, std::string(size, static_cast<char>(size % 251))); }));
    const DeviceCounters after = b_->device->device_counters();
    EXPECT_LE(after.uring_enters - before.uring_enters,
              after.batches_received - before.batches_received);
    EXPECT_EQ(after.receives - before.receives, 0u);
  }
}

TEST_P(TcpUringCalls, ATurnInWhichNothingComesCostsNoCall) {
  ConnectPairs(8);
  FromA(0, 1);
  AwaitWord(*b_, 0, 1);
  const DeviceCounters before = b_->device->device_counters();
  for (int i = 0; i < 5000; ++i) b_->device->Progress();
  EXPECT_EQ(b_->device->device_counters(), before);
}

// A peer that is gone without its socket having told is no reason to ask it for ever.
TEST_P(TcpCalls, ASocketThatFellSilentIsNotAskedForLong) {
  MakeBusy();
  const std::uint64_t before = b_->device->device_counters().receives;
  for (int i = 0; i < 1000; ++i) b_->device->Progress();
  EXPECT_LE(b_->device->device_counters().receives,
            before + soft::HotSockets::kCreditMax / soft::HotSockets::kMissCost);
}

TEST_P(TcpCalls, ABusySocketWakesASleeper) {
  MakeBusy();
  for (std::uint64_t round = 2; round < 100; ++round) {
    b_->device->SetSleeping(true);
    b_->device->Progress();
    pollfd entry{b_->device->event_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0);  // what was received before does not wake
    SendWord(*a_->qp, *a_, *b_, 0, round);
    b_->device->SetSleeping(false);
    b_->device->Progress();
    EXPECT_EQ(WordOf(*b_, 0), round);
    a_->device->Progress();
  }
}

TEST_P(TcpCalls, TheEndOfABusyConnectionIsSeen) {
  MakeBusy();
  a_->qp.reset();
  ConnectionEvent event;
  EXPECT_TRUE(WaitFor([&] { return b_->TakeEvent(ConnectionEvent::Kind::kDisconnected, &event); }));
  EXPECT_EQ(b_->qp->state(), QpState::kError);
}

TEST_P(TcpCalls, WhatAPeerDoesNotReadIsCopiedUpToABoundOnly) {
  // b makes no progress here: its socket fills, then what is copied, then requests wait in slots.
  constexpr std::size_t kSize = 16 << 10;
  std::uint64_t completed = 0;
  std::uint64_t posted = 0;
  WorkCompletion completions[16];
  const Sge sge = a_->At(0, kSize);
  while (posted < 20'000) {
    WorkRequest wr = Write(sge, 0, posted);
    wr.unacknowledged = wr.signaled = true;
    if (!a_->qp->PostSend(wr).ok()) break;
    ++posted;
    a_->device->Progress();
    completed += a_->send_cq->Poll(absl::MakeSpan(completions));
  }
  EXPECT_LT(posted, 20'000u);  // a full send queue is told
  EXPECT_EQ(posted - completed, Side::kDepth);
  EXPECT_EQ(Completions(*a_, *a_->send_cq, Side::kDepth).size(), std::size_t{Side::kDepth});
}

INSTANTIATE_TEST_SUITE_P(Links, TcpCalls, ::testing::Values(LinkKind::kTcp, LinkKind::kTcpUring),
                         [](const auto& test) { return LinkKindName(test.param); });
INSTANTIATE_TEST_SUITE_P(Links, TcpUringCalls, ::testing::Values(LinkKind::kTcpUring),
                         [](const auto& test) { return LinkKindName(test.param); });

}  // namespace
}  // namespace ring::rdma
