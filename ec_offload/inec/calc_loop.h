// ec_offload/inec/calc_loop.h — a device's queue pair to itself, on which it calculates.
//
// What:      CalcLoop connects the device with itself, and does it anew after Break. Its completion
//            queue is its own, and lives on: WAITs of other queue pairs point to it.
// Shape:     one queue pair in use; the other end receives nothing.
// Ownership: owns queue pairs and completion queue; borrows the device.
// Threads:   the device's.
// Errors:    Create: kInvalidArgument, kResourceExhausted. A connection that cannot be made is
//            tried again after kRetryNs.
// Source:    INEC (SC'20), section III-C: the calculator's send queue.
#ifndef RING_EC_OFFLOAD_INEC_CALC_LOOP_H_
#define RING_EC_OFFLOAD_INEC_CALC_LOOP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

class CalcLoop {
 public:
  static constexpr std::uint64_t kRetryNs = 1'000'000;

  // The device listens at the address. depth: requests that may be outstanding.
  static absl::StatusOr<std::unique_ptr<CalcLoop>> Create(rdma::Device* device, std::string address,
                                                          std::uint32_t depth);
  CalcLoop(const CalcLoop&) = delete;
  CalcLoop& operator=(const CalcLoop&) = delete;

  // Whether the event was of this loop.
  bool OnEvent(const rdma::ConnectionEvent& event);
  // Connects when it has to, and may.
  void Progress(std::uint64_t now_ns);

  bool ready() const { return ready_; }
  // The connection ended without Break: everything on it is flushed.
  bool lost() const { return lost_; }
  rdma::QueuePair* qp() const { return near_.get(); }  // null between two connections
  rdma::CompletionQueue* cq() const { return cq_.get(); }

  // Ends what is outstanding: from here on the device touches none of its buffers. Poll what is
  // told of it, then Break.
  void Reset();
  // The queue pairs go; Progress makes others.
  void Break();

 private:
  CalcLoop(rdma::Device* device, std::string address, std::uint32_t depth,
           std::unique_ptr<rdma::CompletionQueue> cq);
  void Accept(std::uint64_t request);

  rdma::Device* device_;
  std::string address_;
  std::uint32_t depth_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<rdma::QueuePair> near_;
  std::unique_ptr<rdma::QueuePair> far_;
  std::string word_;  // of the present connection: nobody else connects with it
  bool ready_ = false;
  bool lost_ = false;
  std::uint64_t retry_ns_ = 0;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_CALC_LOOP_H_
