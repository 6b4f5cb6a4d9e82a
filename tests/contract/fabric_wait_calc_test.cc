// WAIT and CALC, the two requests of encode-and-send (S11: a failed CALC sends nothing).
#include <cstring>
#include <vector>

#include "ring/base/crc32c.h"
#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

// output 0 = xor of the inputs; output 1 = input 0 with every bit turned.
class TestCalculator final : public Calculator {
 public:
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return 2; }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override {
    if (fail) return false;
    for (std::size_t i = 0; i < length; ++i) {
      outputs[0][i] = inputs[0][i] ^ inputs[1][i];
      outputs[1][i] = ~inputs[0][i];
    }
    for (int j = 0; crcs != nullptr && j < 2; ++j) crcs[j] = Crc32c(outputs[j], length);
    return true;
  }
  bool fail = false;
};

class FabricWaitCalc : public FabricContract {
 protected:
  static constexpr std::size_t kLength = 512;

  void SetUp() override {
    FabricContract::SetUp();
    calc_cq_ = *a_->device->CreateCompletionQueue(64);
    QueuePairOptions options = a_->qp_options();
    options.send_cq = calc_cq_.get();
    // CALC has a queue pair of its own, whose completions the senders wait for.
    Connect(&calc_qp_, &calc_peer_, options);
    for (std::size_t i = 0; i < kLength; ++i) {
      a_->memory[i] = static_cast<std::byte>(i);
      a_->memory[kLength + i] = static_cast<std::byte>(i * 3);
    }
    inputs_ = {a_->At(0, kLength), a_->At(kLength, kLength)};
    outputs_ = {a_->At(2 * kLength, kLength), a_->At(3 * kLength, kLength)};
    arguments_.calculator = &calculator_;
    arguments_.inputs = inputs_;
    arguments_.outputs = outputs_;
  }
  void TearDown() override {
    calc_qp_.reset();
    b_->Run([&] { calc_peer_.reset(); });
    calc_cq_.reset();
    FabricContract::TearDown();
  }

  WorkRequest Calc(std::uint64_t wr_id) const {
    WorkRequest wr;
    wr.wr_id = wr_id;
    wr.opcode = Opcode::kCalc;
    wr.calc = &arguments_;
    wr.signaled = true;
    return wr;
  }
  WorkRequest Wait(std::uint32_t count, CompletionQueue* cq) const {
    WorkRequest wr;
    wr.wr_id = 900;
    wr.opcode = Opcode::kWait;
    wr.wait_cq = cq;
    wr.wait_count = count;
    return wr;
  }
  // ... and the WRITE behind it, 3, to 4096: of it nothing is there.
  void ExpectWaitIsFlushed() {
    const std::vector<WorkCompletion> flushed = Completions(*a_, *a_->send_cq, 2);
    ASSERT_EQ(flushed.size(), 2u);
    EXPECT_EQ(flushed[0].status, WcStatus::kFlushed);
    EXPECT_EQ(flushed[1].status, WcStatus::kFlushed);
    EXPECT_EQ(flushed[1].wr_id, 3u);
    EXPECT_EQ(a_->qp->state(), QpState::kError);
    EXPECT_TRUE(BytesAtB(4096, std::string(kLength, '\0')));
  }
  void ConnectAnew() {
    calc_qp_.reset();
    a_->qp.reset();
    b_->Run([&] {
      calc_peer_.reset();
      b_->qp.reset();
    });
    Connect(&a_->qp, &b_->qp);
    QueuePairOptions options = a_->qp_options();
    options.send_cq = calc_cq_.get();
    Connect(&calc_qp_, &calc_peer_, options);
  }
  bool SawXorAtB(std::size_t offset) {
    return BytesAtB(offset,
                    absl::string_view(reinterpret_cast<char*>(a_->memory + 2 * kLength), kLength));
  }

  TestCalculator calculator_;
  CalcArguments arguments_;
  std::vector<Sge> inputs_;
  std::vector<Sge> outputs_;
  std::unique_ptr<CompletionQueue> calc_cq_;
  std::unique_ptr<QueuePair> calc_qp_;
  std::unique_ptr<QueuePair> calc_peer_;
};

TEST_P(FabricWaitCalc, CalcFillsOutputsAndCrcs) {
  std::uint32_t crc = 0;
  std::uint32_t* const crc_out[] = {nullptr, &crc};
  arguments_.crc_out = crc_out;
  const WorkCompletion completion = PostOne(Calc(5));
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  EXPECT_EQ(completion.opcode, Opcode::kCalc);
  for (std::size_t i = 0; i < kLength; ++i) {
    ASSERT_EQ(a_->memory[2 * kLength + i], a_->memory[i] ^ a_->memory[kLength + i]);
  }
  EXPECT_EQ(crc, Crc32c(a_->memory + 3 * kLength, kLength));
}

TEST_P(FabricWaitCalc, CalcInPlace) {
  outputs_[0] = inputs_[0];
  arguments_.outputs = outputs_;
  std::vector<std::byte> expected(kLength);
  for (std::size_t i = 0; i < kLength; ++i) expected[i] = a_->memory[i] ^ a_->memory[kLength + i];
  EXPECT_EQ(PostOne(Calc(5)).status, WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(a_->memory, expected.data(), kLength), 0);
}

TEST_P(FabricWaitCalc, EncodeAndSendInOneChain) {
  WorkRequest calc = Calc(1);
  WorkRequest wait = Wait(1, a_->send_cq.get());
  WorkRequest write = Write(outputs_[0], 4096, 3);
  calc.next = &wait;
  wait.next = &write;
  write.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(calc).ok());
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, 2);
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[1].wr_id, 3u);
  EXPECT_EQ(completions[1].status, WcStatus::kSuccess);
  EXPECT_TRUE(SawXorAtB(4096));
}

TEST_P(FabricWaitCalc, WaitPostedFirstHoldsTheWritesBack) {
  WorkRequest wait = Wait(1, calc_cq_.get());
  WorkRequest write = Write(outputs_[0], 4096, 3);
  wait.next = &write;
  write.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wait).ok());
  const WorkRequest behind = Write(inputs_[0], 8192, 4);
  ASSERT_TRUE(a_->qp->PostSend(behind).ok());
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  EXPECT_TRUE(BytesAtB(4096, std::string(kLength, '\0')));
  ASSERT_TRUE(calc_qp_->PostSend(Calc(1)).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).wr_id, 3u);
  EXPECT_TRUE(SawXorAtB(4096));
}

TEST_P(FabricWaitCalc, WaitPostedAfterTheCalcCountsIt) {
  ASSERT_TRUE(calc_qp_->PostSend(Calc(1)).ok());
  WorkRequest wait = Wait(1, calc_cq_.get());
  WorkRequest write = Write(outputs_[0], 4096, 3);
  wait.next = &write;
  write.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wait).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).wr_id, 3u);
  EXPECT_TRUE(SawXorAtB(4096));
}

TEST_P(FabricWaitCalc, WaitCountsEachCompletionOnce) {
  WorkRequest first = Wait(1, calc_cq_.get());
  WorkRequest one = Write(inputs_[0], 4096, 1);
  WorkRequest second = Wait(1, calc_cq_.get());
  WorkRequest two = Write(inputs_[0], 8192, 2);
  first.next = &one;
  one.next = &second;
  second.next = &two;
  one.signaled = two.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(first).ok());
  ASSERT_TRUE(calc_qp_->PostSend(Calc(1)).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).wr_id, 1u);
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  ASSERT_TRUE(calc_qp_->PostSend(Calc(2)).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).wr_id, 2u);
}

TEST_P(FabricWaitCalc, WaitDoesNotCountWhatWasPolled) {
  ASSERT_TRUE(calc_qp_->PostSend(Calc(1)).ok());
  EXPECT_EQ(OneCompletion(*a_, *calc_cq_).wr_id, 1u);
  WorkRequest wait = Wait(1, calc_cq_.get());
  wait.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wait).ok());
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  ASSERT_TRUE(calc_qp_->PostSend(Calc(2)).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).opcode, Opcode::kWait);
}

// A queue made after another was destroyed may stand at the same address: its counts start anew.
TEST_P(FabricWaitCalc, WaitOnANewQueueCountsFromItsStart) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    WorkRequest wait = Wait(1, calc_cq_.get());
    wait.signaled = true;
    ASSERT_TRUE(calc_qp_->PostSend(Calc(i)).ok());
    ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
    calc_qp_.reset();
    b_->Run([&] { calc_peer_.reset(); });
    calc_cq_.reset();
    calc_cq_ = *a_->device->CreateCompletionQueue(64);
    QueuePairOptions options = a_->qp_options();
    options.send_cq = calc_cq_.get();
    Connect(&calc_qp_, &calc_peer_, options);
  }
}

TEST_P(FabricWaitCalc, FailedCalcFlushesTheWaitingWrites) {  // S11
  for (const bool wait_first : {true, false}) {
    SCOPED_TRACE(wait_first);
    calculator_.fail = true;
    WorkRequest wait = Wait(1, calc_cq_.get());
    WorkRequest write = Write(inputs_[0], 4096, 3);
    wait.next = &write;
    if (wait_first) {
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    ASSERT_TRUE(calc_qp_->PostSend(Calc(1)).ok());
    if (!wait_first) {
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    ExpectWaitIsFlushed();
    EXPECT_EQ(OneCompletion(*a_, *calc_cq_).status, WcStatus::kCalcFailed);
    EXPECT_EQ(calc_qp_->state(), QpState::kError);
    ConnectAnew();
  }
}

// A failed WRITE, in the queue that is waited for, is no completion that lets anything go.
TEST_P(FabricWaitCalc, FailedWriteFlushesTheWaitingWrites) {  // S11
  for (const bool wait_first : {true, false}) {
    SCOPED_TRACE(wait_first);
    WorkRequest wait = Wait(1, calc_cq_.get());
    WorkRequest write = Write(inputs_[0], 4096, 3);
    wait.next = &write;
    WorkRequest failing = Write(inputs_[0], 8192, 1);
    failing.rkey ^= 1u << 13;
    failing.signaled = true;
    if (wait_first) {
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    ASSERT_TRUE(calc_qp_->PostSend(failing).ok());
    if (!wait_first) {
      ASSERT_TRUE(WaitFor([&] { return calc_qp_->state() == QpState::kError; }));
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    ExpectWaitIsFlushed();
    EXPECT_EQ(OneCompletion(*a_, *calc_cq_).status, WcStatus::kRemoteAccess);
    ConnectAnew();
  }
}

// Nor is a receive that is flushed, of a connection that ends.
TEST_P(FabricWaitCalc, FlushedReceiveFlushesTheWaitingWrites) {
  for (const bool wait_first : {true, false}) {
    SCOPED_TRACE(wait_first);
    calc_qp_.reset();
    b_->Run([&] { calc_peer_.reset(); });
    QueuePairOptions options = a_->qp_options();
    options.recv_cq = calc_cq_.get();
    Connect(&calc_qp_, &calc_peer_, options);
    ASSERT_TRUE(calc_qp_->PostRecv(1, {}).ok());
    WorkRequest wait = Wait(1, calc_cq_.get());
    WorkRequest write = Write(inputs_[0], 4096, 3);
    wait.next = &write;
    if (wait_first) {
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    calc_qp_->Reset();
    if (!wait_first) {
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
    }
    ExpectWaitIsFlushed();
    EXPECT_EQ(OneCompletion(*a_, *calc_cq_).status, WcStatus::kFlushed);
    ConnectAnew();
  }
}

TEST_P(FabricWaitCalc, CalcChecksLocalKeys) {
  outputs_[1].lkey ^= 1u << 13;
  EXPECT_EQ(PostOne(Calc(1)).status, WcStatus::kLocalProtection);
}

TEST_P(FabricWaitCalc, CalcWithWrongCountsIsNotPosted) {
  inputs_.pop_back();
  arguments_.inputs = inputs_;
  EXPECT_EQ(a_->qp->PostSend(Calc(1)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(FabricWaitCalc, ResetFlushesHeldRequests) {
  WorkRequest wait = Wait(1, calc_cq_.get());
  WorkRequest write = Write(inputs_[0], 4096, 3);
  wait.next = &write;
  ASSERT_TRUE(a_->qp->PostSend(wait).ok());
  a_->qp->Reset();
  const std::vector<WorkCompletion> flushed = Completions(*a_, *a_->send_cq, 2);
  ASSERT_EQ(flushed.size(), 2u);
  EXPECT_EQ(flushed[1].status, WcStatus::kFlushed);
}

INSTANTIATE_TEST_SUITE_P(Links, FabricWaitCalc, RING_FABRIC_LINKS,
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
