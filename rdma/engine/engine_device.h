// rdma/engine/engine_device.h — a software NIC with a processor of its own.
//
// What:      OpenEngineDevice opens a soft device (soft/soft_device.h) that a thread of its own
//            drives: sockets, arrivals, WAITs and CALCs go on whatever the host's thread does. A
//            post copies its requests into a ring and rings the doorbell; a poll takes completions
//            out of another. So a chain with WAITs needs the host once, and what the host leads
//            step by step waits for it: the difference that INEC is about.
// Shape:     posts, receives and polls that have room need no answer; connections, memory, and
//            posts for which there may be no room are calls: the host waits for the NIC's thread.
//            WAIT counts as it does everywhere: completions that the host had not polled when it
//            posted the WAIT, and those that come.
// Ownership: as in fabric.h. Calculators run in the NIC's thread.
// Threads:   the device's user is one thread, the host's. The NIC's is inside.
// Errors:    as fabric.h; a post that is refused later than its call would be a broken invariant.
// Cost:      a post copies its requests, 0.7 KiB a request at most, and is a system call only while
//            the NIC sleeps: it does after spin_turns turns without work, until the next doorbell
//            or arrival. On fewer processors than threads each step costs a change of threads.
// Source:    INEC (SC'20), figure 2: what the host does and what the NIC does.
#ifndef RING_RDMA_ENGINE_ENGINE_DEVICE_H_
#define RING_RDMA_ENGINE_ENGINE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "rdma/soft/soft_device.h"

namespace ring::rdma {

struct EngineDeviceOptions {
  SoftDeviceOptions soft;  // no attachment
  // Requests between the host and the NIC; a power of two.
  std::uint32_t doorbell_depth = 512;
  std::uint32_t spin_turns = 200;
};

// What the NIC's thread did, for tests and measurements.
struct EngineCounters {
  std::uint64_t doorbells = 0;  // posts that it found in its ring
  std::uint64_t calls = 0;      // of the host, which waited
  std::uint64_t sleeps = 0;
};

class EngineDevice : public Device {
 public:
  virtual EngineCounters counters() const = 0;
};

absl::StatusOr<std::unique_ptr<EngineDevice>> OpenEngineDevice(const EngineDeviceOptions& options);

}  // namespace ring::rdma

#endif  // RING_RDMA_ENGINE_ENGINE_DEVICE_H_
