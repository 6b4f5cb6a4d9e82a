// ec_offload/ec_send.h — encode-and-send: compute the parity updates of a put and write each to its
// parity's log.
//
// What:      EcSend runs a calculator on local memory and posts, for each parity, the caller's
//            chain of WRITEs that carry the outputs; no byte of an output leaves before the
//            calculation is done. Three ways, the first that can be taken:
//            calc queue: CALC on a queue pair of its own (a link of the device to itself) with a
//              completion queue of its own, then WRITE on each parity's queue pair; where the
//              device has not finished the CALC by then, [WAIT, WRITE];
//            one chain: without a calc queue and for one parity, [CALC, WRITE] on its queue pair;
//            host: the calculator in this thread, then the WRITEs: devices without CALC, or without
//              CRCs where CRCs are asked for (S11), and while another CALC is under way.
//            The calc queue must be separate: a WAIT counts completions, and a queue that others
//            use as well would release it too early.
// Shape:     at most kTargetCountMax parities; one post for each queue pair.
//            A library of its own: the store does not use it. There a failed CALC would cost the
//            connection to a parity, and a WAIT lets go what nobody has looked at (ADR 0021); its
//            deltas come from the delta calculator or from memgest/calc_queue.h.
//            inec/primitives.h is the primitive of the paper: it keeps operations, follows each to
//            one outcome, and owns calc queue and completions. This one posts and forgets: requests
//            complete in their owner's queue under their owner's wr_id, and where the device is
//            busy with another CALC, it calculates here.
// Ownership: descriptors (requests, gather lists, pointers) are free when Send returns; the buffers
//            belong to the device until the WRITEs complete.
// Threads:   the device's.
// Errors:    nothing is sent when the calculator refuses (kFailedPrecondition), or, where the
//            device finds out later, the waiting WRITEs are flushed: a WAIT never fires on a
//            failure. One parity that cannot be posted to (its error is told) does not keep the
//            others from being sent.
// Cost:      no allocation, except for the text of an error. A put of 1 KiB to two parities on the
//            software NIC, hot, entries copied into their logs included: host 157 ns, calc queue
//            193 ns, of which 56 are the calculation (tests/ec_offload/ec_send_bench.cc).
// Source:    INEC (SC'20), inec_ec_send; rule S11.
#ifndef RING_EC_OFFLOAD_EC_SEND_H_
#define RING_EC_OFFLOAD_EC_SEND_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

class EcSend {
 public:
  static constexpr std::size_t kTargetCountMax = 8;
  static constexpr std::size_t kBufferCountMax = 32;  // inputs, and outputs, of a calculator

  struct Options {
    rdma::Device* device = nullptr;
    // Both null: without the calc queue. Nobody else posts to or polls them.
    rdma::QueuePair* calc_qp = nullptr;
    rdma::CompletionQueue* calc_cq = nullptr;
    // Never CALC: hosts on which the calculation is faster than its work request.
    bool host_only = false;
  };

  struct Target {
    rdma::QueuePair* qp = nullptr;
    // WRITEs whose gather lists name the outputs, usually [header | delta | trailer]. Not null.
    const rdma::WorkRequest* chain = nullptr;
  };

  struct Request {
    const rdma::Calculator* calculator = nullptr;
    absl::Span<const rdma::Sge> inputs;
    absl::Span<const rdma::Sge> outputs;
    // Null, or a pointer for each output: null, or where its CRC-32C goes (the entry's trailer).
    std::uint32_t* const* crc_out = nullptr;
    absl::Span<const Target> targets;
  };

  struct Outcome {
    // Bit i: the chain of targets[i] was posted, and completes or is flushed.
    std::uint32_t posted = 0;
    // Whether the outputs (the slot, too) have their final bytes already. If not, they get them
    // before the first completion of a posted chain.
    bool calculated = false;
    absl::Status status;  // the first error, of the calculation or of a post
  };

  explicit EcSend(const Options& options);
  EcSend(const EcSend&) = delete;
  EcSend& operator=(const EcSend&) = delete;

  Outcome Send(const Request& request);

  // Takes finished CALCs off the calc queue. Send does it, too; call it when a CALC may be the last
  // for a while.
  void Drain();
  // CALCs posted to the calc queue and not yet seen to finish; and how many of them failed.
  std::uint32_t calcs_outstanding() const { return calcs_outstanding_; }
  std::uint64_t calcs_failed() const { return calcs_failed_; }

 private:
  bool MayUseDevice(const Request& request) const;
  bool CalcQueueFree();
  Outcome SendInOneChain(const Request& request) const;
  Outcome SendByCalcQueue(const Request& request);
  Outcome SendFromHost(const Request& request) const;
  static void PostTargets(const Request& request, const rdma::WorkRequest* wait, Outcome& outcome);

  Options options_;
  bool device_calculates_ = false;
  bool device_sums_ = false;
  std::uint32_t calcs_outstanding_ = 0;
  std::uint64_t calcs_failed_ = 0;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_EC_SEND_H_
