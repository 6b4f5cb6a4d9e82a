// rdma/verbs/terms.h — what libibverbs calls what the fabric port calls otherwise.
//
// What:      statuses, access rights and opcodes of requests; how long a receiver that has posted
//            nothing is waited for; the word that comes back with a completion.
// Units:     milliseconds.
// Threads:   any: pure functions.
// Errors:    none.
// Source:    ibv_poll_cq(3), ibv_post_send(3), ibv_modify_qp(3).
#ifndef RING_RDMA_VERBS_TERMS_H_
#define RING_RDMA_VERBS_TERMS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "rdma/fabric.h"

namespace ring::rdma::verbs {

WcStatus StatusOf(ibv_wc_status status, bool receive);
int AccessFlagsOf(std::uint32_t access);
ibv_wr_opcode OpcodeOf(const WorkRequest& wr);

constexpr bool IsOneSided(Opcode opcode) { return opcode != Opcode::kSend; }
constexpr bool IsAtomic(Opcode opcode) {
  return opcode == Opcode::kCmpAndSwp || opcode == Opcode::kFetchAndAdd;
}
// Whether its answer carries data, so that what is posted behind it may overtake it.
constexpr bool IsRead(Opcode opcode) { return opcode == Opcode::kRead || IsAtomic(opcode); }

// The receiver names the pause, the sender counts the attempts.
struct RnrPlan {
  std::uint8_t min_rnr_timer = 0;  // the code of a pause
  std::uint8_t rnr_retry = 0;      // 7 would be for ever
};
// The shortest that is at least timeout_ms, or the longest that there is.
RnrPlan PlanRnr(std::uint32_t timeout_ms);
double RnrPauseMs(std::uint8_t min_rnr_timer);

enum class WrKind : std::uint8_t {
  kRead = 1,     // the last of a batch; nothing of it changed the peer's memory unseen
  kWrite = 2,    // the last of a batch that wrote what nobody at the peer is told of
  kReceive = 3,  // of these three the low word is the request's number
  kControl = 4,  // a message of the connection's own
  kControlReceive = 5,
  kKeyRead = 6,
  kSleepWord = 7,
  kPart = 8,  // the last of a batch, and not of its request: as kRead, but that is not yet done
};

// Which connection a completion is of, and of which request: an error tells nothing else.
struct WrId {
  std::uint32_t serial = 0;  // of the connection, below kSerialMax
  WrKind kind = WrKind::kRead;
  std::uint32_t low = 0;
};
inline constexpr std::uint32_t kSerialMax = 1u << 28;
constexpr std::uint64_t PackWrId(const WrId& id) {
  return std::uint64_t{id.serial} << 36 | std::uint64_t{static_cast<std::uint8_t>(id.kind)} << 32 |
         id.low;
}
constexpr WrId UnpackWrId(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 36), static_cast<WrKind>(word >> 32 & 15),
          static_cast<std::uint32_t>(word)};
}
// The number next to `near` whose low word this is.
constexpr std::uint64_t Widen(std::uint64_t near, std::uint32_t low) {
  const auto distance = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(near));
  return near + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
}

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_TERMS_H_
