// A NIC with a thread of its own: chains go on while the host does nothing, posts that cannot be
// taken are refused at once, and nothing that a poll took is counted twice. What every device does
// is in tests/contract and sleep_test.cc.
#include "rdma/engine/engine_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

class Xor final : public Calculator {
 public:
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return 1; }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t*) const override {
    for (std::size_t i = 0; i < length; ++i) outputs[0][i] = inputs[0][i] ^ inputs[1][i];
    return true;
  }
};

class EngineDeviceTest : public FabricContract {
 protected:
  EngineCounters Counters(const Side& side) {
    return static_cast<EngineDevice*>(side.device.get())->counters();
  }
};

// Receive, calculate, send on: posted once, and from then on this thread only waits for what
// arrives at the other side.
TEST_P(EngineDeviceTest, AChainRunsWhileItsHostDoesNothing) {
  constexpr std::size_t kLength = 64;
  std::unique_ptr<QueuePair> back_out, back_in;  // b's end sends, a's receives
  Connect(&back_in, &back_out);
  const Sge into = a_->At(0, kLength);
  ASSERT_TRUE(back_in->PostRecv(1, absl::MakeConstSpan(&into, 1)).ok());
  std::memset(a_->memory + 64, 0x0f, kLength);
  const Sge inputs[] = {into, a_->At(64, kLength)};
  const Sge output = a_->At(128, kLength);
  const Xor calculator;
  const CalcArguments arguments{&calculator, inputs, absl::MakeConstSpan(&output, 1)};
  WorkRequest wait, calc;
  wait.opcode = Opcode::kWait;
  wait.wait_cq = a_->recv_cq.get();
  wait.wait_count = 1;
  wait.next = &calc;
  calc.opcode = Opcode::kCalc;
  calc.calc = &arguments;
  WorkRequest write = Write(output, 4096);
  write.signaled = true;
  calc.next = &write;
  ASSERT_TRUE(a_->qp->PostSend(wait).ok());
  std::memset(b_->memory, 0x35, kLength);
  const Sge chunk = b_->At(0, kLength);
  WorkRequest send;
  send.opcode = Opcode::kSend;
  send.sges = absl::MakeConstSpan(&chunk, 1);
  ASSERT_TRUE(back_out->PostSend(send).ok());
  const auto* const word = reinterpret_cast<std::uint64_t*>(b_->memory + 4096 + kLength - 8);
  testing::Await("the result",
                 [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0x3a3a3a3a3a3a3a3a; });
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
}

TEST_P(EngineDeviceTest, ItSleepsWithoutWorkAndADoorbellWakesIt) {
  const Sge sge = a_->At(0, 8);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t sleeps = Counters(*a_).sleeps;
    testing::Await("a sleep of the NIC", [&] { return Counters(*a_).sleeps > sleeps; });
    EXPECT_EQ(PostOne(Write(sge, 4096)).status, WcStatus::kSuccess);
  }
  EXPECT_GE(Counters(*a_).doorbells, 20u);
}

TEST_P(EngineDeviceTest, PostsNeedNoAnswer) {
  const Sge sge = a_->At(0, 8);
  const std::uint64_t calls = Counters(*a_).calls;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(PostOne(Write(sge, 4096)).status, WcStatus::kSuccess);
  EXPECT_EQ(Counters(*a_).calls, calls);
}

// As a device that has no thread: while they are held, no more than the depth.
TEST_P(EngineDeviceTest, WhatFindsNoRoomIsRefusedAtOnce) {
  auto never = *a_->device->CreateCompletionQueue(4);
  WorkRequest wait;
  wait.opcode = Opcode::kWait;
  wait.wait_cq = never.get();
  wait.wait_count = 1;
  for (std::uint32_t i = 0; i < Side::kDepth; ++i) ASSERT_TRUE(a_->qp->PostSend(wait).ok()) << i;
  EXPECT_EQ(a_->qp->PostSend(wait).code(), absl::StatusCode::kResourceExhausted);
  a_->qp->Reset();
  EXPECT_EQ(Completions(*a_, *a_->send_cq, Side::kDepth).size(), Side::kDepth);
  a_->qp.reset();  // its requests point to the queue
}

// However fast the host polls behind its posts: a WAIT that was posted while a completion was not
// polled counts it, and one that was posted behind the poll does not.
TEST_P(EngineDeviceTest, PollsAndWaitsKeepTheirOrder) {
  auto watched = *a_->device->CreateCompletionQueue(64);
  QueuePairOptions options = a_->qp_options();
  options.send_cq = watched.get();
  std::unique_ptr<QueuePair> watched_qp, peer;
  Connect(&watched_qp, &peer, options);
  const Sge sge = a_->At(0, 8);
  WorkRequest wait;
  wait.opcode = Opcode::kWait;
  wait.wait_cq = watched.get();
  wait.wait_count = 1;
  wait.signaled = true;
  WorkRequest write = Write(sge, 4096);
  write.signaled = true;
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(watched_qp->PostSend(write).ok());
    if (round % 2 == 0) {  // counted, though polled at once
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
      ASSERT_EQ(OneCompletion(*a_, *watched).status, WcStatus::kSuccess);
      ASSERT_EQ(OneCompletion(*a_, *a_->send_cq).opcode, Opcode::kWait);
    } else {
      ASSERT_EQ(OneCompletion(*a_, *watched).status, WcStatus::kSuccess);
      ASSERT_TRUE(a_->qp->PostSend(wait).ok());
      WorkCompletion completion;
      ASSERT_EQ(a_->send_cq->Poll(absl::MakeSpan(&completion, 1)), 0u);
      ASSERT_TRUE(watched_qp->PostSend(write).ok());
      ASSERT_EQ(OneCompletion(*a_, *watched).status, WcStatus::kSuccess);
      ASSERT_EQ(OneCompletion(*a_, *a_->send_cq).opcode, Opcode::kWait);
    }
  }
  watched_qp.reset();
}

TEST(EngineDevice, WhatCannotBeOpenedIsAnError) {
  EngineDeviceOptions options;
  options.soft.arena_size_max = std::uint64_t{1} << 62;
  EXPECT_FALSE(OpenEngineDevice(options).ok());
}

INSTANTIATE_TEST_SUITE_P(Links, EngineDeviceTest,
                         ::testing::Values(LinkKind::kEngineLocal, LinkKind::kEngineShm,
                                           LinkKind::kEngineTcp),
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
