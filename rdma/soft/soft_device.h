// rdma/soft/soft_device.h — opens a software NIC.
//
// What:      OpenSoftDevice gives a Device with the links "local:NAME" (devices of one process),
//            "shm:PATH" (processes of one host; needs shareable), "tcp:HOST:PORT", and
//            "rdma:HOST:PORT" where an RDMA card is there.
// Shape:     an established queue pair that is not Reset gives one kDisconnected when its peer's
//            end is closed, also when its own failed request was the cause.
// Units:     bytes, milliseconds.
// Ownership: queue pairs, queues and regions made from the device go before it.
// Threads:   one thread uses the device. A shareable one is opened, used and destroyed by the same
//            thread (its owner mutex tells peers that the thread lives: rule L5); any other may be
//            opened elsewhere.
// Errors:    kResourceExhausted (no address space or descriptors).
#ifndef RING_RDMA_SOFT_SOFT_DEVICE_H_
#define RING_RDMA_SOFT_SOFT_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "rdma/verbs/verbs_options.h"
#include "ring/base/clock.h"

namespace ring::rdma {

namespace soft {
// For tests: called by the initiator when half of a copy into mapped memory is done.
struct CopyHook {
  void (*function)(void* context) = nullptr;
  void* context = nullptr;
};
class Attachment;
}  // namespace soft

struct SoftDeviceOptions {
  std::string name = "soft";
  std::uint64_t arena_size_max = std::uint64_t{1}
                                 << 30;  // address space; memory is used as it is touched
  std::uint64_t warm_size = 0;           // of private memory that is kept ready (warm_runs.h)
  bool shareable = false;                // memfd: "shm:" peers can map it
  std::uint32_t qp_count_max = 1024;
  std::uint32_t recv_depth_max = 256;
  // How long a SEND waits for a receive on a mapped link, or at a tcp target, before it fails.
  std::uint32_t rnr_timeout_ms = 200;
  // Socket links: a connection without a valid hello is closed after this; at most so many at a
  // time.
  std::uint32_t hello_timeout_ms = 5000;
  std::uint32_t connection_count_max = 1024;
  std::uint32_t hello_count_max = 128;  // connections that have not yet said hello
  // tcp: bytes that wait to be sent per connection before requests are held back, and bytes read
  // per turn.
  std::uint32_t tcp_transmit_limit = 4u << 20;
  std::uint32_t tcp_receive_buffer = 256u << 10;
  // tcp: receives from all sockets through one io_uring (soft/uring_receiver.h) where the system
  // allows it; else from one after the other.
  bool tcp_uring = true;
  VerbsOptions verbs;  // "rdma:" addresses
  // Null: CLOCK_BOOTTIME.
  const Clock* clock = nullptr;
  soft::CopyHook copy_hook;
  // For simulations: takes the system's place (attachment.h).
  soft::Attachment* attachment = nullptr;
};

absl::StatusOr<std::unique_ptr<Device>> OpenSoftDevice(const SoftDeviceOptions& options);

}  // namespace ring::rdma

#endif  // RING_RDMA_SOFT_SOFT_DEVICE_H_
