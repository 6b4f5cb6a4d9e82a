// rdma/poller.h — how a thread waits for its device: poll a bounded number of times, then sleep.
//
// What:      Poller::Wait runs the caller's turn until it finds work; after spin_turns_max idle
//            turns it arms the queues, tells peers that it sleeps, looks once more, and sleeps on
//            the device's descriptor.
// Units:     turns; milliseconds.
// Ownership: borrows device and queues.
// Threads:   the device's.
// Errors:    none; a signal or a time-out ends a sleep like a wake-up.
// Cost:      two system calls a sleep; none while there is work.
//
// The order is what makes it safe: arm, then sleeping = true (a full fence), then a last turn, then
// sleep. A peer stores its data first and looks at armed and sleeping afterwards, so one of the two
// sees the other.
#ifndef RING_RDMA_POLLER_H_
#define RING_RDMA_POLLER_H_

#include <poll.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"

namespace ring::rdma {

struct PollerOptions {
  // Threads that poll like this one, and processors that they share. With more pollers than
  // processors a turn without work takes the processor from whoever has some: then nothing spins.
  std::uint32_t pollers = 1;
  std::uint32_t processors = 1;
  std::uint32_t spin_turns_max = 20'000;
  // Upper bound of a sleep: deferred requests (a SEND without receive) are looked at again without
  // a wake-up.
  std::uint32_t sleep_ms_max = 10;
};

class Poller {
 public:
  Poller(Device* device, absl::Span<CompletionQueue* const> queues, const PollerOptions& options)
      : device_(device),
        queues_(queues),
        spin_turns_(options.pollers > options.processors ? 1 : options.spin_turns_max),
        sleep_ms_max_(static_cast<int>(options.sleep_ms_max)) {}

  // turn: one turn of the caller's loop, Progress and Poll of all queues included; gives whether it
  // found work. Returns after the first turn that did (true), or after one sleep without (false).
  bool Wait(absl::FunctionRef<bool()> turn) {
    for (std::uint32_t i = 0; i < spin_turns_; ++i) {
      if (turn()) return true;
    }
    for (CompletionQueue* queue : queues_) queue->Arm();
    device_->SetSleeping(true);
    bool worked = turn();
    if (!worked) {
      pollfd entry{device_->event_fd(), POLLIN, 0};
      poll(&entry, 1, sleep_ms_max_);
      ++sleeps_;
    }
    device_->SetSleeping(false);
    if (!worked) worked = turn();
    return worked;
  }

  std::uint64_t sleeps() const { return sleeps_; }

 private:
  Device* device_;
  absl::Span<CompletionQueue* const> queues_;
  std::uint32_t spin_turns_;
  int sleep_ms_max_;
  std::uint64_t sleeps_ = 0;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_POLLER_H_
