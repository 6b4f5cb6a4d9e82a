// SEND, RECV, WRITE_WITH_IMM, and waking a sleeper: what every link of the fabric must do.
#include <cstring>
#include <set>
#include <vector>

#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

using FabricMessaging = FabricContract;

WorkRequest Send(const Sge& sge, std::uint64_t wr_id) {
  WorkRequest wr;
  wr.wr_id = wr_id;
  wr.opcode = Opcode::kSend;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  return wr;
}

TEST_P(FabricMessaging, SendFillsTheOldestReceive) {
  PostReceiveAtB(70, 0, 16);
  PostReceiveAtB(71, 1024, 16);
  Put(a_->memory, "first!second");
  const Sge first = a_->At(0, 6);
  EXPECT_EQ(PostOne(Send(first, 1)).status, WcStatus::kSuccess);
  const Sge second = a_->At(6, 6);
  WorkRequest wr = Send(second, 2);
  wr.has_imm = true;
  wr.imm = 4711;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  const std::vector<WorkCompletion> received = Completions(*b_, *b_->recv_cq, 2);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].wr_id, 70u);
  EXPECT_EQ(received[0].opcode, Opcode::kRecv);
  EXPECT_EQ(received[0].byte_len, 6u);
  EXPECT_FALSE(received[0].has_imm);
  EXPECT_EQ(received[0].qp, b_->qp.get());
  EXPECT_EQ(received[1].wr_id, 71u);
  EXPECT_EQ(received[1].opcode, Opcode::kRecvWithImm);
  EXPECT_EQ(received[1].imm, 4711u);
  EXPECT_TRUE(BytesAtB(0, "first!"));
  EXPECT_TRUE(BytesAtB(1024, "second"));
}

TEST_P(FabricMessaging, SendScattersOverTheReceivesPieces) {
  b_->Run([&] {
    const Sge sges[] = {b_->At(0, 4), b_->At(100, 0), b_->At(200, 100)};
    ASSERT_TRUE(b_->qp->PostRecv(5, sges).ok());
  });
  Put(a_->memory, "abcdefgh");
  const Sge pieces[] = {a_->At(0, 2), a_->At(2, 6)};
  WorkRequest wr = Send(pieces[0], 1);
  wr.sges = pieces;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  const WorkCompletion received = OneCompletion(*b_, *b_->recv_cq);
  EXPECT_EQ(received.byte_len, 8u);
  EXPECT_TRUE(BytesAtB(0, "abcd"));
  EXPECT_TRUE(BytesAtB(200, "efgh"));
}

TEST_P(FabricMessaging, EmptySendArrives) {
  PostReceiveAtB(1, 0, 16);
  WorkRequest wr;
  wr.opcode = Opcode::kSend;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  const WorkCompletion received = OneCompletion(*b_, *b_->recv_cq);
  EXPECT_EQ(received.status, WcStatus::kSuccess);
  EXPECT_EQ(received.byte_len, 0u);
}

TEST_P(FabricMessaging, WriteWithImmTellsAfterTheBytes) {
  PostReceiveAtB(9, 0, 0);
  Put(a_->memory, "payload");
  const Sge sge = a_->At(0, 7);
  WorkRequest wr = Write(sge, 2048);
  wr.opcode = Opcode::kWriteWithImm;
  wr.imm = 3;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  const WorkCompletion received = OneCompletion(*b_, *b_->recv_cq);
  EXPECT_EQ(received.opcode, Opcode::kRecvWithImm);
  EXPECT_EQ(received.imm, 3u);
  EXPECT_EQ(received.byte_len, 7u);
  EXPECT_EQ(received.wr_id, 9u);
  EXPECT_TRUE(BytesAtB(2048, "payload"));
}

TEST_P(FabricMessaging, WritesBeforeASendAreSeenWithIt) {
  for (int round = 0; round < 200; ++round) {
    PostReceiveAtB(static_cast<std::uint64_t>(round), 0, 16);
    const std::uint64_t value = static_cast<std::uint64_t>(round) * 77;
    std::memcpy(a_->memory, &value, 8);
    const Sge sge = a_->At(0, 8);
    WorkRequest write = Write(sge, 4096);
    WorkRequest send = Send(sge, 2);
    write.next = &send;
    send.signaled = true;
    ASSERT_TRUE(a_->qp->PostSend(write).ok());
    EXPECT_EQ(OneCompletion(*b_, *b_->recv_cq).status, WcStatus::kSuccess);
    std::uint64_t seen = 0;
    b_->Run([&] { std::memcpy(&seen, b_->memory + 4096, 8); });
    ASSERT_EQ(seen, value);
    ASSERT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  }
}

TEST_P(FabricMessaging, SendWaitsForALateReceive) {
  Put(a_->memory, "late");
  const Sge sge = a_->At(0, 4);
  WorkRequest wr = Send(sge, 1);
  wr.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  const Sge other = a_->At(8, 4);
  WorkRequest behind = Write(other, 8192, 2);
  behind.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(behind).ok());
  PostReceiveAtB(5, 0, 16);
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, 2);
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, "late"));
}

TEST_P(FabricMessaging, SendWithoutReceiveFailsAfterItsTime) {
  const Sge sge = a_->At(0, 4);
  EXPECT_EQ(PostOne(Send(sge, 1)).status, WcStatus::kRnrRetryExceeded);
  EXPECT_EQ(a_->qp->state(), QpState::kError);
}

TEST_P(FabricMessaging, MessageLongerThanTheReceiveFailsBothSides) {
  PostReceiveAtB(8, 0, 4);
  const Sge sge = a_->At(0, 5);
  EXPECT_EQ(PostOne(Send(sge, 1)).status, WcStatus::kRemoteInvalid);
  EXPECT_EQ(OneCompletion(*b_, *b_->recv_cq).status, WcStatus::kLocalLength);
  EXPECT_EQ(a_->qp->state(), QpState::kError);
}

// The receiver fails its queue pair, and with it the connection, when it hears of the message.
TEST_P(FabricMessaging, MessageLongerThanTheReceiveFailsAsThatHoweverSoonThePeerCloses) {
  constexpr int kConnections = 20;
  for (int i = 0; i < kConnections; ++i) {
    PostReceiveAtB(8, 0, 4);
    const Sge sge = a_->At(0, 5);
    ASSERT_EQ(PostOne(Send(sge, 1)).status, WcStatus::kRemoteInvalid) << "connection=" << i;
    ASSERT_EQ(OneCompletion(*b_, *b_->recv_cq).status, WcStatus::kLocalLength);
    a_->qp.reset();
    b_->Run([&] { b_->qp.reset(); });
    Connect(&a_->qp, &b_->qp);
  }
}

TEST_P(FabricMessaging, ManyMessagesBothWays) {
  constexpr int kMessages = 500;
  int a_received = 0;
  int b_received = 0;
  int posted = 0;
  const auto post_receive = [](Side& side, std::uint64_t i) {
    const Sge sge = side.At(4096 + (i % 8) * 64, 64);
    ASSERT_TRUE(side.qp->PostRecv(i, absl::MakeConstSpan(&sge, 1)).ok());
  };
  for (std::uint64_t i = 0; i < 8; ++i) {
    post_receive(*a_, i);
    b_->Run([&] { post_receive(*b_, i); });
  }
  ASSERT_TRUE(WaitFor([&] {
    if (posted < kMessages && posted < a_received + 4) {
      std::memcpy(a_->memory + (posted % 8) * 8, &posted, 4);
      const Sge sge = a_->At(static_cast<std::size_t>(posted % 8) * 8, 8);
      EXPECT_TRUE(a_->qp->PostSend(Send(sge, 1)).ok());
      ++posted;
    }
    // b sends every message back.
    b_->Run([&] {
      WorkCompletion completion;
      while (b_->recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) {
        EXPECT_EQ(completion.status, WcStatus::kSuccess);
        const Sge echo = b_->At(4096 + (completion.wr_id % 8) * 64, completion.byte_len);
        WorkRequest wr = Send(echo, 1);
        wr.inline_data = true;
        EXPECT_TRUE(b_->qp->PostSend(wr).ok());
        post_receive(*b_, completion.wr_id);
        ++b_received;
      }
    });
    WorkCompletion completion;
    while (a_->recv_cq->Poll(absl::MakeSpan(&completion, 1)) == 1) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      int value = -1;
      std::memcpy(&value, a_->memory + 4096 + (completion.wr_id % 8) * 64, 4);
      EXPECT_EQ(value, a_received);
      ++a_received;
      post_receive(*a_, completion.wr_id);
    }
    return a_received == kMessages;
  }));
  EXPECT_EQ(b_received, kMessages);
}

TEST_P(FabricMessaging, WaitCanWatchReceives) {
  // recv-ec: b's WRITE back to a is held until a's message is in.
  PostReceiveAtB(1, 0, 16);
  b_->Run([&] { Put(b_->memory + 512, "answer"); });
  WorkRequest wait;
  wait.opcode = Opcode::kWait;
  wait.wait_count = 1;
  const Sge source = b_->At(512, 6);
  WorkRequest write;
  write.opcode = Opcode::kWrite;
  write.sges = absl::MakeConstSpan(&source, 1);
  write.remote_address = a_->AddressAt(1024);
  write.rkey = a_->region->rkey();
  write.signaled = true;
  wait.next = &write;
  b_->Run([&] {
    wait.wait_cq = b_->recv_cq.get();
    ASSERT_TRUE(b_->qp->PostSend(wait).ok());
  });
  EXPECT_TRUE(IsQuiet(*b_, *b_->send_cq));
  const Sge sge = a_->At(0, 4);
  EXPECT_EQ(PostOne(Send(sge, 1)).status, WcStatus::kSuccess);
  EXPECT_EQ(OneCompletion(*b_, *b_->send_cq).status, WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(a_->memory + 1024, "answer", 6), 0);
}

// So that who rings it knows which of its sleeps it was rung in.
TEST_P(FabricMessaging, EachSleepOfThePeerIsAnotherOne) {
  std::set<std::uint32_t> sleeps;
  for (int i = 0; i < 5; ++i) {
    b_->Run([&] { b_->device->SetSleeping(true); });
    const std::uint32_t sleep = a_->qp->PeerSleep();
    EXPECT_EQ(sleep != 0, needs_doorbells());
    EXPECT_EQ(a_->qp->PeerSleep(), sleep);
    sleeps.insert(sleep);
    b_->Run([&] { b_->device->SetSleeping(false); });
    EXPECT_EQ(a_->qp->PeerSleep(), 0u);
  }
  EXPECT_EQ(sleeps.size(), needs_doorbells() ? 5u : 1u);
}

TEST_P(FabricMessaging, ArmedQueueWakesTheSleeperOnce) {
  PostReceiveAtB(1, 0, 16);
  PostReceiveAtB(2, 64, 16);
  b_->Run([&] {
    for (int i = 0; i < 200; ++i) b_->CollectEvents();  // takes what connecting left behind
    b_->recv_cq->Arm();
    WorkCompletion completion;
    EXPECT_EQ(b_->recv_cq->Poll(absl::MakeSpan(&completion, 1)), 0u);
    b_->device->SetSleeping(true);
    if (needs_doorbells()) {
      // Posted while b's thread does nothing but wait for its descriptor.
      EXPECT_NE(a_->qp->PeerSleep(), 0u);
    }
    const Sge sge = a_->At(0, 4);
    ASSERT_TRUE(a_->qp->PostSend(Send(sge, 1)).ok());
    EXPECT_TRUE(b_->Readable(30'000));
    b_->device->SetSleeping(false);
    EXPECT_EQ(a_->qp->PeerSleep(), 0u);
  });
  EXPECT_EQ(OneCompletion(*b_, *b_->recv_cq).wr_id, 1u);
  b_->Run([&] {
    for (int i = 0; i < 200; ++i) b_->CollectEvents();
    if (mapped()) {
      // Not armed again: nothing wakes.
      const Sge sge = a_->At(0, 4);
      ASSERT_TRUE(a_->qp->PostSend(Send(sge, 1)).ok());
      EXPECT_FALSE(b_->Readable(0));
    }
  });
}

TEST_P(FabricMessaging, ArmedSendQueueWakesItsOwner) {
  for (int i = 0; i < 200; ++i) a_->CollectEvents();
  a_->send_cq->Arm();
  a_->device->SetSleeping(true);
  const Sge sge = a_->At(0, 4);
  WorkRequest wr = Write(sge, 0);
  wr.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  ASSERT_TRUE(WaitFor([&] {
    // Only b makes progress: a sleeps.
    return a_->Readable(0);
  }));
  a_->device->SetSleeping(false);
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
}

TEST_P(FabricMessaging, ReceivesAreBounded) {
  b_->Run([&] {
    const Sge sge = b_->At(0, 16);
    for (std::uint32_t i = 0; i < Side::kDepth; ++i) {
      ASSERT_TRUE(b_->qp->PostRecv(i, absl::MakeConstSpan(&sge, 1)).ok());
    }
    EXPECT_EQ(b_->qp->PostRecv(99, absl::MakeConstSpan(&sge, 1)).code(),
              absl::StatusCode::kResourceExhausted);
    Sge wrong = sge;
    wrong.lkey = 0;
    EXPECT_EQ(b_->qp->PostRecv(99, absl::MakeConstSpan(&wrong, 1)).code(),
              absl::StatusCode::kInvalidArgument);
  });
}

INSTANTIATE_TEST_SUITE_P(Links, FabricMessaging, RING_FABRIC_LINKS,
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
