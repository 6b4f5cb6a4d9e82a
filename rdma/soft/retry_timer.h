// rdma/soft/retry_timer.h — what ends a sleep for requests that nobody wakes the sender for.
//
// What:      RetryTimer: a SEND that found no receive, a WAIT that waits for a queue that nobody
//            armed: their peers ring no bell, and they are tried again by Progress alone. A device
//            that goes to sleep with such a request is woken after kPeriodNs, as a card's RNR timer
//            has it try again.
// Shape:     one for a device; each start is for one sleep.
// Units:     nanoseconds of CLOCK_MONOTONIC.
// Ownership: the device's; it is in the device's epoll set from Open on.
// Threads:   the device's.
// Errors:    kResourceExhausted: no descriptor left.
// Cost:      one system call a sleep, and only while requests wait.
#ifndef RING_RDMA_SOFT_RETRY_TIMER_H_
#define RING_RDMA_SOFT_RETRY_TIMER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class RetryTimer final : public FdHandler {
 public:
  static constexpr std::uint64_t kPeriodNs = 200'000;

  RetryTimer() = default;
  ~RetryTimer() override;
  RetryTimer(const RetryTimer&) = delete;
  RetryTimer& operator=(const RetryTimer&) = delete;

  absl::Status Open();
  int fd() const { return fd_; }
  // Readable once, kPeriodNs from now.
  void Start();
  void OnReady(std::uint32_t epoll_events) override;

 private:
  int fd_ = -1;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_RETRY_TIMER_H_
