#include "rdma/verbs/terms.h"

#include <algorithm>
#include <array>

namespace ring::rdma::verbs {
namespace {

// By code, in hundredths of a millisecond. The codes do not begin with the shortest.
constexpr std::array<std::uint32_t, 32> kRnrPauses = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr std::uint8_t kRnrRetryMax = 6;

}  // namespace

WcStatus StatusOf(ibv_wc_status status, bool receive) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return WcStatus::kSuccess;
    case IBV_WC_LOC_LEN_ERR:
      return WcStatus::kLocalLength;
    case IBV_WC_LOC_PROT_ERR:
      return WcStatus::kLocalProtection;
    case IBV_WC_WR_FLUSH_ERR:
      return WcStatus::kFlushed;
    case IBV_WC_REM_ACCESS_ERR:
      return WcStatus::kRemoteAccess;
    case IBV_WC_REM_INV_REQ_ERR:
      return receive ? WcStatus::kLocalLength : WcStatus::kRemoteInvalid;
    // Soft-RoCE's words for a message that is longer than the receive, at either end.
    case IBV_WC_LOC_QP_OP_ERR:
      return receive ? WcStatus::kLocalLength : WcStatus::kRetryExceeded;
    case IBV_WC_REM_OP_ERR:
      return WcStatus::kRemoteInvalid;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return WcStatus::kRnrRetryExceeded;
    default:
      return WcStatus::kRetryExceeded;
  }
}

int AccessFlagsOf(std::uint32_t access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if ((access & kRemoteRead) != 0) flags |= IBV_ACCESS_REMOTE_READ;
  if ((access & kRemoteWrite) != 0) flags |= IBV_ACCESS_REMOTE_WRITE;
  if ((access & kRemoteAtomic) != 0) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

ibv_wr_opcode OpcodeOf(const WorkRequest& wr) {
  switch (wr.opcode) {
    case Opcode::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Opcode::kWriteWithImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Opcode::kRead:
      return IBV_WR_RDMA_READ;
    case Opcode::kCmpAndSwp:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Opcode::kFetchAndAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return wr.has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
  }
}

double RnrPauseMs(std::uint8_t min_rnr_timer) { return kRnrPauses[min_rnr_timer % 32] / 100.0; }

RnrPlan PlanRnr(std::uint32_t timeout_ms) {
  const std::uint64_t wanted = (std::uint64_t{timeout_ms} * 100 + kRnrRetryMax - 1) / kRnrRetryMax;
  const auto found = std::lower_bound(kRnrPauses.begin() + 1, kRnrPauses.end(), wanted);
  const auto code = found == kRnrPauses.end() ? 0 : found - kRnrPauses.begin();
  return {static_cast<std::uint8_t>(code), kRnrRetryMax};
}

}  // namespace ring::rdma::verbs
