// ec_offload/inec/operation.h — one operation of an INEC primitive on its way.
//
// What:      InecOperation: a copy of the caller's descriptors, and how far it has come.
// Ownership: its vectors keep their capacity for the next operation of the slot; buffers, queues
//            and the calculator are borrowed.
// Threads:   one.
// Errors:    none.
#ifndef RING_EC_OFFLOAD_INEC_OPERATION_H_
#define RING_EC_OFFLOAD_INEC_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ec_offload/inec/descriptors.h"
#include "ec_offload/inec/hybrid.h"
#include "ec_offload/inec/receive_ledger.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

// What an operation does, one after the other.
enum class InecStep : std::uint8_t {
  kNone = 0,
  kTurn = 1,  // waits for the calc queue, for operations that go the other way, or for old debts
  kReceive = 2,
  kCalculation = 3,
  kSend = 4,
};

// wr_id of a channel's requests: the operation's sequence number, and the channel in the lowest
// bits.
inline constexpr unsigned kInecChannelBits = 8;
static_assert(kInecChannelCountMax <= std::size_t{1} << kInecChannelBits);

struct InecOperation {
  enum class Stage : std::uint8_t {
    kFree = 0,
    kHeld = 1,         // nothing is posted
    kReceiving = 2,    // incoherent: receives are polled for
    kCalculating = 3,  // coherent: receives and calculation; incoherent: the calculation is posted
    kCalculated = 4,   // incoherent: the sends may be posted
    kSending = 5,      // ends when no channel is open
    kTold = 6,         // the outcome was told; the slot waits for its turn
  };
  struct Channel {
    rdma::QueuePair* qp = nullptr;
    std::size_t request_begin = 0;  // of `requests`
    std::size_t request_end = 0;
    bool after_calculation = true;
    bool open = false;  // posted, and not known to have ended
  };
  struct Receive {
    rdma::CompletionQueue* cq = nullptr;
    std::uint32_t count = 0;
    ReceiveLedger::Claim claim;
  };

  void Copy(const InecWait& wait, const InecCalc& calc, const InecMemory& memory,
            const InecStripe& stripe);

  std::uint64_t id = 0;
  InecPrimitive primitive = InecPrimitive::kEcSend;
  InecWay way = InecWay::kCoherent;
  Stage stage = Stage::kFree;
  std::uint64_t deadline_ns = 0;
  const rdma::Calculator* calculator = nullptr;
  bool sums = false;
  std::vector<std::uint32_t*> crc_out;
  std::vector<rdma::Sge> inputs;
  std::vector<rdma::Sge> outputs;
  std::vector<Receive> receives;
  std::vector<Channel> channels;
  std::vector<rdma::WorkRequest> requests;
  std::vector<rdma::Sge> sges;
  std::size_t channels_open = 0;
  bool claimed = false;         // its receives
  std::uint64_t calc_mark = 0;  // the calc queue has so many completions when its CALC is done
  bool calc_failed = false;     // and is not to be tried again
  // Of a channel: told only if nothing says why.
  rdma::WorkCompletion wait_failed;
  std::size_t wait_failed_channel = 0;
  InecStep failed_step = InecStep::kNone;
  std::size_t failed_channel = 0;
  absl::Status error;  // the first
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_OPERATION_H_
