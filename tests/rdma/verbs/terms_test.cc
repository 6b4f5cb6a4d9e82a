// What libibverbs calls what the port calls otherwise, and the numbers between them.
#include "rdma/verbs/terms.h"

#include <gtest/gtest.h>

#include <limits>

namespace ring::rdma::verbs {
namespace {

TEST(VerbsTerms, EveryNamedStatusKeepsItsMeaning) {
  EXPECT_EQ(StatusOf(IBV_WC_SUCCESS, false), WcStatus::kSuccess);
  EXPECT_EQ(StatusOf(IBV_WC_LOC_LEN_ERR, true), WcStatus::kLocalLength);
  EXPECT_EQ(StatusOf(IBV_WC_LOC_PROT_ERR, false), WcStatus::kLocalProtection);
  EXPECT_EQ(StatusOf(IBV_WC_WR_FLUSH_ERR, true), WcStatus::kFlushed);
  EXPECT_EQ(StatusOf(IBV_WC_REM_ACCESS_ERR, false), WcStatus::kRemoteAccess);
  EXPECT_EQ(StatusOf(IBV_WC_REM_INV_REQ_ERR, false), WcStatus::kRemoteInvalid);
  EXPECT_EQ(StatusOf(IBV_WC_RNR_RETRY_EXC_ERR, false), WcStatus::kRnrRetryExceeded);
  EXPECT_EQ(StatusOf(IBV_WC_RETRY_EXC_ERR, false), WcStatus::kRetryExceeded);
}

TEST(VerbsTerms, WhatThePortHasNoNameForIsALostPeer) {
  EXPECT_EQ(StatusOf(IBV_WC_FATAL_ERR, false), WcStatus::kRetryExceeded);
  EXPECT_EQ(StatusOf(IBV_WC_GENERAL_ERR, true), WcStatus::kRetryExceeded);
}

TEST(VerbsTerms, AMessageThatIsTooLongIsThatToItsReceiver) {
  for (const ibv_wc_status status :
       {IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_QP_OP_ERR}) {
    EXPECT_EQ(StatusOf(status, true), WcStatus::kLocalLength);
  }
}

TEST(VerbsTerms, AReceiverIsWaitedForAtLeastAsLongAsAsked) {
  for (std::uint32_t ms : {0u, 1u, 5u, 50u, 200u, 1000u, 3900u}) {
    const RnrPlan plan = PlanRnr(ms);
    EXPECT_GE(RnrPauseMs(plan.min_rnr_timer) * plan.rnr_retry, ms) << ms;
    EXPECT_LT(plan.rnr_retry, 7) << "for ever";
  }
  EXPECT_LE(RnrPauseMs(PlanRnr(200).min_rnr_timer) * PlanRnr(200).rnr_retry, 400);
}

TEST(VerbsTerms, AWaitLongerThanThereIsBecomesTheLongest) {
  EXPECT_EQ(RnrPauseMs(PlanRnr(60'000).min_rnr_timer), RnrPauseMs(0));
}

TEST(VerbsTerms, ACompletionNamesItsRequest) {
  for (const std::uint32_t serial : {1u, 77u, kSerialMax - 1}) {
    for (const std::uint32_t low : {0u, 1u, std::numeric_limits<std::uint32_t>::max()}) {
      const WrId id = UnpackWrId(PackWrId({serial, WrKind::kPart, low}));
      EXPECT_EQ(id.serial, serial);
      EXPECT_EQ(id.kind, WrKind::kPart);
      EXPECT_EQ(id.low, low);
    }
  }
}

TEST(VerbsTerms, ALowWordIsWidenedToTheNearestNumber) {
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32;
  EXPECT_EQ(Widen(0, 5), 5u);
  EXPECT_EQ(Widen(kWrap - 2, 1), kWrap + 1);
  EXPECT_EQ(Widen(kWrap + 3, 0xfffffffe), kWrap - 2);
  EXPECT_EQ(Widen(5 * kWrap + 9, 9), 5 * kWrap + 9);
}

TEST(VerbsTerms, LocalMemoryIsAlwaysWritableByTheCard) {
  EXPECT_EQ(AccessFlagsOf(kLocalOnly), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(AccessFlagsOf(kRemoteRead | kRemoteAtomic),
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
}

}  // namespace
}  // namespace ring::rdma::verbs
