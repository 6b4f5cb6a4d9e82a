// rdma/soft/send_slot.h — the device's own copy of a request that could not be executed at its
// post.
//
// What:      SendSlot holds a request with its gather list, inline bytes and CALC arguments, and
//            its progress. CheckChain refuses malformed chains before anything of them is posted.
// Ownership: a slot copies everything but the buffers; its inner vectors keep their capacity for
//            the next request.
// Threads:   one.
// Errors:    CheckChain: kInvalidArgument.
#ifndef RING_RDMA_SOFT_SEND_SLOT_H_
#define RING_RDMA_SOFT_SEND_SLOT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "rdma/fabric.h"

namespace ring::rdma::soft {

inline constexpr std::uint32_t kSgeCountMax = 16;
inline constexpr std::uint32_t kInlineSizeMax = 256;
inline constexpr std::uint64_t kMessageSizeMax = std::uint64_t{1} << 30;

enum class SlotState : std::uint8_t { kQueued = 0, kIssued = 1, kDone = 2, kFailed = 3 };

// When a WAIT fires: the watched queue's total reaches target, and it saw no failure beyond
// failures.
struct WaitPlan {
  std::uint64_t target = 0;
  std::uint64_t failures = 0;
};

struct SendSlot {
  WorkRequest wr;
  SlotState state = SlotState::kQueued;
  WcStatus status = WcStatus::kSuccess;
  WaitPlan wait;
  std::uint64_t blocked_since_ns = 0;  // 0: not blocked

  void Store(const WorkRequest& request);

 private:
  std::array<Sge, kSgeCountMax> sges_;
  std::array<std::byte, kInlineSizeMax> inline_;
  CalcArguments calc_;
  std::vector<Sge> calc_sges_;
  std::vector<std::uint32_t*> crc_out_;
};

struct ChainSize {
  std::uint32_t count = 0;  // of requests
  std::uint64_t bytes = 0;
  bool more = false;  // its last one says so
};
// A chain longer than count_max (or with a cycle) gives kResourceExhausted.
absl::Status CheckChain(const WorkRequest& chain, std::uint32_t count_max, ChainSize* size);

std::uint32_t GatherLength(const WorkRequest& wr);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SEND_SLOT_H_
