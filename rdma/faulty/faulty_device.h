// rdma/faulty/faulty_device.h — a device that does what another one does, but for faults.
//
// What:      FaultyDevice goes between a node and its device. Inject asks for a fault, Cut for a
//            partition, Clear ends all, Status says what became of them. Without one it passes
//            everything on.
// Shape:     a cut is of connections that this side made: requests fail with kRetryExceeded, as if
//            nobody answered, and none is made anew. A partition is a cut at both of its sides.
// Ownership: owns the device below; borrows the clock.
// Threads:   one, the device's.
// Errors:    Inject: kInvalidArgument, as CheckDeviceFault says. Refusals that were asked for are
//            kResourceExhausted, and say that they were; connections over a cut kUnavailable.
// Cost:      a virtual call more for everything, and a walk over each chain. Who wants no faults
//            does without it.
// Source:    fault classes F7, F8, F10, F11.
#ifndef RING_RDMA_FAULTY_FAULTY_DEVICE_H_
#define RING_RDMA_FAULTY_FAULTY_DEVICE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rdma/faulty/device_fault.h"
#include "rdma/faulty/fault_plan.h"
#include "rdma/forwarding_device.h"

namespace ring::rdma {

class FaultyDevice final : public ForwardingDevice {
 public:
  // seed: of what happens by chance.
  FaultyDevice(std::unique_ptr<Device> below, const Clock* clock, std::uint64_t seed)
      : ForwardingDevice(std::move(below)), plan_(clock, seed) {}

  absl::Status Inject(const DeviceFault& fault);
  // Nothing that connects to this address, or did, reaches it for so long.
  void Cut(std::string address, std::uint32_t duration_ms) {
    plan_.Cut(std::move(address), duration_ms);
  }
  void Clear() { plan_.Clear(); }
  std::vector<DeviceFaultStatus> Status() const { return plan_.Status(); }
  std::uint64_t injected() const { return plan_.injected(); }
  std::uint64_t stopped() const { return plan_.stopped(); }  // by cuts

  absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) override;
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access) override;
  absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) override;
  absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                     const QueuePairOptions& options,
                                                     absl::string_view private_data) override;
  absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                    const QueuePairOptions& options,
                                                    absl::string_view private_data) override;
  bool PollEvent(ConnectionEvent* event) override;
  // What comes late is work: nobody else wakes who waits for it.
  bool Progress() override { return below()->Progress() || plan_.holds(); }

 private:
  absl::Status Refuses(DeviceFaultKind kind, absl::string_view what);
  // address: of the peer; empty: it connected.
  std::unique_ptr<QueuePair> Wrap(std::unique_ptr<QueuePair> qp, const QueuePairOptions& options,
                                  absl::string_view address);

  FaultPlan plan_;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FAULTY_FAULTY_DEVICE_H_
