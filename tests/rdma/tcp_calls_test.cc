// What a batch costs on tcp, in system calls; and what is held for a peer that does not read.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

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
};

TEST_P(TcpCalls, ABatchOfUnacknowledgedWritesIsOneSendAndNoAnswer) {
  a_->device->Progress();  // a turn of its own
  const SystemCalls a_before = a_->device->system_calls();
  const SystemCalls b_before = b_->device->system_calls();
  PostChain(32, 64, true);
  EXPECT_EQ(a_->device->system_calls().sends, a_before.sends + 1);
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(WaitFor([&] { return LandedAtB(32, 64); }));
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  EXPECT_EQ(a_->device->system_calls().sends, a_before.sends + 1);
  EXPECT_EQ(a_->device->system_calls().receives, a_before.receives);
  EXPECT_EQ(b_->device->system_calls().sends, b_before.sends);
}

TEST_P(TcpCalls, ABatchOfWritesIsOneSendAndOneAcknowledgement) {
  a_->device->Progress();
  const SystemCalls a_before = a_->device->system_calls();
  const SystemCalls b_before = b_->device->system_calls();
  PostChain(32, 64, false);
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(LandedAtB(32, 64));
  EXPECT_EQ(a_->device->system_calls().sends, a_before.sends + 1);
  EXPECT_LE(b_->device->system_calls().sends, b_before.sends + 2);
}

TEST_P(TcpCalls, SmallPostsOfOneTurnShareASend) {
  a_->device->Progress();
  const SystemCalls before = a_->device->system_calls();
  const Sge sge = a_->At(0, 8);
  for (int i = 0; i < 20; ++i) {
    WorkRequest wr = Write(sge, 0);
    wr.unacknowledged = true;
    ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  }
  a_->device->Progress();
  EXPECT_LE(a_->device->system_calls().sends, before.sends + 2);
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

INSTANTIATE_TEST_SUITE_P(Links, TcpCalls, ::testing::Values(LinkKind::kTcp),
                         [](const auto& test) { return LinkKindName(test.param); });

}  // namespace
}  // namespace ring::rdma
