// ec_offload/inec/descriptors.h — what an INEC primitive is told: its calculation, memory, stripe
// and what it waits for.
//
// What:      The four parameters of INEC's listing 1. InecCalc: the calculator; InecMemory: its
//            inputs and outputs; InecStripe: what leaves, by which queue pairs; InecWait: which
//            receives come first.
// Shape:     calculators: MakeBlockCalculator for EC, MakeXorCalculator for XOR
//            (block_calculator.h), or any other one.
// Units:     bytes; all inputs and outputs of an operation have one length, the chunk size.
// Ownership: spans and the requests behind them are free once the primitive was submitted; the
//            calculator, the buffers and the queues are lent until the operation's outcome.
// Threads:   values.
// Errors:    the checks give kInvalidArgument naming what is wrong; the primitives make them.
// Source:    INEC (SC'20), listing 1.
#ifndef RING_EC_OFFLOAD_INEC_DESCRIPTORS_H_
#define RING_EC_OFFLOAD_INEC_DESCRIPTORS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

struct InecCalc {
  // Null: nothing is calculated, and what would follow the calculation follows the receives: send,
  // recv-send, recv. Then mem's inputs say the chunk size alone.
  const rdma::Calculator* calculator = nullptr;
  // Null, or a pointer for each output: null, or where its CRC-32C goes before it is sent. Lent as
  // the buffers are.
  std::uint32_t* const* crc_out = nullptr;
};

struct InecMemory {
  absl::Span<const rdma::Sge> inputs;   // chunks that are here, and those that receives bring
  absl::Span<const rdma::Sge> outputs;  // an output may be an input (in place)
};

// One outgoing queue pair, and what is posted on it.
struct InecChannel {
  // Its send_cq is InecPrimitives::send_cq().
  rdma::QueuePair* qp = nullptr;
  // SENDs and WRITE_WITH_IMMs, so that the next node's WAIT is released, or WRITEs, where nobody
  // waits. wr_id and signaled are the primitive's.
  const rdma::WorkRequest* chain = nullptr;
  // False: the chain carries nothing that is calculated (data chunks), and leaves at once.
  bool after_calculation = true;
};

struct InecStripe {
  absl::Span<const InecChannel> channels;  // at most kInecChannelCountMax
};
inline constexpr std::size_t kInecChannelCountMax = 64;

struct InecReceive {
  rdma::CompletionQueue* cq = nullptr;
  std::uint32_t count = 0;
};

// Receive completions, of each queue so many. The caller has posted the receives.
struct InecWait {
  absl::Span<const InecReceive> receives;  // at most kInecReceiveQueueCountMax
};
inline constexpr std::size_t kInecReceiveQueueCountMax = 32;

// Whether descriptors make sense. Of mem: as the calculator of calc wants it.
absl::Status CheckInecMemory(const InecCalc& calc, const InecMemory& memory);
absl::Status CheckInecStripe(const InecStripe& stripe);
absl::Status CheckInecWait(const InecWait& wait);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_DESCRIPTORS_H_
