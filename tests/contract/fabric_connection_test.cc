// Connecting, refusing, resetting and losing peers: what every link of the fabric must do (L5:
// reset fences).
#include <vector>

#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

class FabricConnection : public FabricContract {
 protected:
  ConnectionEvent EventAtA(ConnectionEvent::Kind kind) {
    ConnectionEvent event;
    EXPECT_TRUE(WaitFor([&] { return a_->TakeEvent(kind, &event); }));
    return event;
  }
  ConnectionEvent EventAtB(ConnectionEvent::Kind kind) {
    ConnectionEvent event;
    EXPECT_TRUE(WaitFor([&] {
      bool found = false;
      b_->Run([&] { found = b_->TakeEvent(kind, &event); });
      return found;
    }));
    return event;
  }
};

TEST_P(FabricConnection, RejectCarriesItsReason) {
  auto qp = *a_->device->Connect(address_, a_->qp_options(), "please");
  const ConnectionEvent request = EventAtB(ConnectionEvent::Kind::kConnectRequest);
  EXPECT_EQ(request.private_data, "please");
  b_->Run([&] { b_->device->Reject(request.request, "no: wrong incarnation"); });
  const ConnectionEvent rejected = EventAtA(ConnectionEvent::Kind::kRejected);
  EXPECT_EQ(rejected.qp, qp.get());
  EXPECT_EQ(rejected.private_data, "no: wrong incarnation");
  EXPECT_EQ(qp->state(), QpState::kError);
}

TEST_P(FabricConnection, NobodyListensIsARejection) {
  std::string nowhere = FreshAddress(GetParam());
  if (IsTcp(GetParam())) nowhere = "tcp:127.0.0.1:1";
  if (IsVerbs(GetParam())) nowhere = address_.substr(0, address_.rfind(':')) + ":1";
  auto qp = *a_->device->Connect(nowhere, a_->qp_options(), "");
  const ConnectionEvent rejected = EventAtA(ConnectionEvent::Kind::kRejected);
  EXPECT_EQ(rejected.qp, qp.get());
  EXPECT_EQ(rejected.private_data, "");
}

// L5: what it was stopped in the middle of lands in b's memory all the same.
TEST_P(FabricConnection, APeerThatMapsMemoryHoldsOnUntilItsEndLetGo) {
  std::uint32_t number = 0;
  const auto holds_on = [&] {
    bool holds = false;
    b_->Run([&] { holds = b_->device->PeerHoldsOn(number); });
    return holds;
  };
  b_->Run([&] {
    number = b_->qp->number();
    b_->qp.reset();
  });
  const bool at_first = holds_on();
  EXPECT_TRUE(HasEngine(GetParam()) || at_first == mapped()) << "an engine alone runs by itself";
  EXPECT_TRUE(WaitFor([&] { return !holds_on(); }));
}

TEST_P(FabricConnection, ListeningTwiceAtOneAddressIsRefused) {
  b_->Run([&] {
    const auto again = b_->device->Listen(address_);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists) << again.status();
  });
}

TEST_P(FabricConnection, PostingBeforeTheConnectionIsRefused) {
  auto qp = *a_->device->Connect(address_, a_->qp_options(), "");
  const Sge sge = a_->At(0, 8);
  EXPECT_EQ(qp->state(), QpState::kInit);
  EXPECT_EQ(qp->PostSend(Write(sge, 0)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(FabricConnection, AcceptAfterTheConnectorLeftIsNoCrash) {
  auto qp = *a_->device->Connect(address_, a_->qp_options(), "");
  const ConnectionEvent request = EventAtB(ConnectionEvent::Kind::kConnectRequest);
  qp.reset();
  for (int i = 0; i < 200; ++i) a_->CollectEvents();
  std::unique_ptr<QueuePair> accepted;
  b_->Run([&] {
    auto result = b_->device->Accept(request.request, b_->qp_options(), "");
    if (result.ok()) accepted = std::move(*result);
  });
  if (accepted != nullptr) {
    EXPECT_EQ(EventAtB(ConnectionEvent::Kind::kDisconnected).qp, accepted.get());
  }
  b_->Run([&] { accepted.reset(); });
}

// Whoever takes a message knows whose it is, and may answer it.
TEST_P(FabricConnection, NothingArrivesBeforeTheConnectionStands) {
  auto qp = *a_->device->Connect(address_, a_->qp_options(), "");
  const Sge to = a_->At(0, 16);
  ASSERT_TRUE(qp->PostRecv(7, absl::MakeConstSpan(&to, 1)).ok());
  const ConnectionEvent request = EventAtB(ConnectionEvent::Kind::kConnectRequest);
  std::unique_ptr<QueuePair> at_b;
  bool sent = false;
  const auto send = [&] {
    const Sge from = b_->At(0, 8);
    WorkRequest wr;
    wr.opcode = Opcode::kSend;
    wr.sges = absl::MakeConstSpan(&from, 1);
    sent = at_b->PostSend(wr).ok();
  };
  b_->Run([&] {
    at_b = *b_->device->Accept(request.request, b_->qp_options(), "");
    send();  // mapped links: before a's device looks at the answer
  });
  EXPECT_TRUE(sent || !mapped());
  WorkCompletion received;
  bool arrived = a_->recv_cq->Poll(absl::MakeSpan(&received, 1)) == 1;
  EXPECT_TRUE(!arrived || HasEngine(GetParam()));
  EXPECT_TRUE(arrived || WaitFor([&] {
                if (!sent) b_->Run(send);
                return a_->recv_cq->Poll(absl::MakeSpan(&received, 1)) == 1;
              }));
  a_->CollectEvents();
  ConnectionEvent event;
  EXPECT_TRUE(a_->TakeEvent(ConnectionEvent::Kind::kEstablished, &event));
  EXPECT_EQ(received.status, WcStatus::kSuccess);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.qp, qp.get());
  b_->Run([&] { at_b.reset(); });
}

TEST_P(FabricConnection, LongPrivateDataIsRefused) {
  const std::string longest(kPrivateDataSizeMax, 'x');
  EXPECT_EQ(a_->device->Connect(address_, a_->qp_options(), longest + "x").status().code(),
            absl::StatusCode::kInvalidArgument);
  auto qp = *a_->device->Connect(address_, a_->qp_options(), longest);
  EXPECT_EQ(EventAtB(ConnectionEvent::Kind::kConnectRequest).private_data, longest);
}

TEST_P(FabricConnection, ResetFencesThePeer) {  // L5, L8
  const Sge sge = a_->At(0, 8);
  Put(a_->memory, "late");
  b_->Run([&] { b_->qp->Reset(); });
  const WorkCompletion late = PostOne(Write(sge, 0));
  EXPECT_NE(late.status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, std::string(8, '\0')));
  EXPECT_EQ(EventAtA(ConnectionEvent::Kind::kDisconnected).qp, a_->qp.get());
  EXPECT_EQ(a_->qp->state(), QpState::kError);
  EXPECT_EQ(b_->qp->state(), QpState::kReset);
}

TEST_P(FabricConnection, DestroyingAQueuePairFencesThePeer) {
  const Sge sge = a_->At(0, 8);
  b_->Run([&] { b_->qp.reset(); });
  EXPECT_NE(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  EXPECT_EQ(EventAtA(ConnectionEvent::Kind::kDisconnected).qp, a_->qp.get());
}

TEST_P(FabricConnection, DisconnectFlushesReceives) {
  PostReceiveAtB(1, 0, 16);
  PostReceiveAtB(2, 64, 16);
  a_->qp.reset();
  const std::vector<WorkCompletion> flushed = Completions(*b_, *b_->recv_cq, 2);
  ASSERT_EQ(flushed.size(), 2u);
  EXPECT_EQ(flushed[0].wr_id, 1u);
  EXPECT_EQ(flushed[1].wr_id, 2u);
  EXPECT_EQ(flushed[0].status, WcStatus::kFlushed);
  EventAtB(ConnectionEvent::Kind::kDisconnected);
  b_->Run([&] { EXPECT_EQ(b_->qp->state(), QpState::kError); });
}

TEST_P(FabricConnection, MessagesSentBeforeTheResetArrive) {
  PostReceiveAtB(1, 0, 16);
  Put(a_->memory, "farewell");
  const Sge sge = a_->At(0, 8);
  WorkRequest wr;
  wr.opcode = Opcode::kSend;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  a_->qp.reset();
  const WorkCompletion received = OneCompletion(*b_, *b_->recv_cq);
  EXPECT_EQ(received.status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, "farewell"));
}

TEST_P(FabricConnection, PeerDeviceGoneIsADisconnect) {
  b_.reset();
  ConnectionEvent event;
  const auto gone = [&] {
    a_->CollectEvents();
    return a_->TakeEvent(ConnectionEvent::Kind::kDisconnected, &event);
  };
  EXPECT_TRUE(ring::testing::HoldsWithin(ring::testing::kPatience, gone));
  EXPECT_EQ(a_->qp->state(), QpState::kError);
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  b_ = std::make_unique<Side>(options, false, network_.get());  // for TearDown
}

TEST_P(FabricConnection, DroppedQueuePairsCompletionsAreDropped) {
  const Sge sge = a_->At(0, 8);
  WorkRequest wr = Write(sge, 0);
  wr.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  a_->qp.reset();
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
}

// Connections come and go for as long as the process lives: nothing of them may be used up (F11).
TEST_P(FabricConnection, FourThousandConnectionsLeaveNothingBehind) {
  const Sge sge = a_->At(0, 8);
  const bool threads = IsCrossThread(GetParam()) || HasEngine(GetParam());
  const int rounds = threads ? 300 : 4000;
  for (int i = 0; i < rounds; ++i) {
    if (i % 2 == 0) {
      a_->qp.reset();
      b_->Run([&] { b_->qp.reset(); });
    } else {
      b_->Run([&] { b_->qp.reset(); });
      a_->qp.reset();
    }
    Connect(&a_->qp, &b_->qp);
    if (HasFatalFailure()) return;
    a_->events.clear();
    b_->Run([&] { b_->events.clear(); });
  }
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
}

TEST_P(FabricConnection, ManyQueuePairsBetweenTwoDevices) {
  std::vector<std::unique_ptr<QueuePair>> at_a(100);
  std::vector<std::unique_ptr<QueuePair>> at_b(100);
  for (std::size_t i = 0; i < at_a.size(); ++i) {
    Connect(&at_a[i], &at_b[i]);
    if (HasFatalFailure()) return;
    b_->Run([&] {
      const Sge sge = b_->At(i * 64, 64);
      ASSERT_TRUE(at_b[i]->PostRecv(i, absl::MakeConstSpan(&sge, 1)).ok());
    });
  }
  const Sge sge = a_->At(0, 8);
  for (auto& qp : at_a) {
    WorkRequest wr;
    wr.opcode = Opcode::kSend;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    ASSERT_TRUE(qp->PostSend(wr).ok());
  }
  std::vector<bool> seen(at_a.size(), false);
  for (const WorkCompletion& completion : Completions(*b_, *b_->recv_cq, at_a.size())) {
    EXPECT_EQ(completion.status, WcStatus::kSuccess);
    EXPECT_EQ(completion.qp, at_b[completion.wr_id].get());
    seen[completion.wr_id] = true;
  }
  for (const bool one : seen) EXPECT_TRUE(one);
  at_a.clear();
  b_->Run([&] { at_b.clear(); });
}

INSTANTIATE_TEST_SUITE_P(Links, FabricConnection, RING_FABRIC_LINKS,
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
