// rdma/sim/sim_device.h — a device on the simulated fabric.
//
// What:      SimDevice is a soft device whose system is a SimNetwork, and whose memory may run out
//            or rot on purpose (F10, F11).
// Shape:     no huge pages and no descriptors: cheap to make by the thousand.
// Ownership: borrows the network.
// Threads:   one.
// Errors:    see fabric.h.
#ifndef RING_RDMA_SIM_SIM_DEVICE_H_
#define RING_RDMA_SIM_SIM_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "rdma/sim/sim_network.h"
#include "rdma/soft/attachment.h"
#include "rdma/soft/soft_device.h"

namespace ring::rdma::sim {

class SimDevice final : public Device, private soft::Attachment {
 public:
  // Of the options name, arena_size_max, qp_count_max, recv_depth_max and rnr_timeout_ms count.
  static absl::StatusOr<std::unique_ptr<SimDevice>> Open(SimNetwork* network, HostId host,
                                                         const SoftDeviceOptions& options);
  ~SimDevice() override;

  const Caps& caps() const override { return soft_->caps(); }
  absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) override;
  void Free(std::byte* address, std::size_t size, MemoryKind kind) override;
  void PreferHuge(std::byte*, std::size_t) override {}
  // Virtual time knows no page faults, and half of a run's were for pages that it never used.
  void Populate(std::byte*, std::size_t) override {}
  std::uint32_t LocalKey(const std::byte* address) const override {
    return soft_->LocalKey(address);
  }
  void Discard(std::byte* address, std::size_t size) override { soft_->Discard(address, size); }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access) override;
  absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) override {
    return soft_->CreateCompletionQueue(depth);
  }
  absl::StatusOr<std::string> Listen(absl::string_view address) override {
    return soft_->Listen(address);
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                     const QueuePairOptions& options,
                                                     absl::string_view private_data) override {
    if (OutOfQueuePairs()) return absl::ResourceExhaustedError("sim: no queue pair");
    return soft_->Connect(address, options, private_data);
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                    const QueuePairOptions& options,
                                                    absl::string_view private_data) override {
    if (OutOfQueuePairs()) return absl::ResourceExhaustedError("sim: no queue pair");
    return soft_->Accept(request, options, private_data);
  }
  void Reject(std::uint64_t request, absl::string_view private_data) override {
    soft_->Reject(request, private_data);
  }
  bool PollEvent(ConnectionEvent* event) override { return soft_->PollEvent(event); }
  bool Progress() override;
  int event_fd() const override { return -1; }  // SimHost::OnWake
  void SetSleeping(bool sleeping) override { soft_->SetSleeping(sleeping); }
  // A simulated WRITE lands or fails: none that was stopped goes on.
  bool PeerHoldsOn(std::uint32_t) const override { return false; }
  DeviceCounters device_counters() const override { return soft_->device_counters(); }
  absl::Status CardStatus() const override { return soft_->CardStatus(); }

 private:
  SimDevice(SimNetwork* network, HostId host) : network_(network), host_(host) {}
  std::unique_ptr<soft::Endpoint> MakeEndpoint(soft::SoftDevice* device) override;
  void Wake() override;
  soft::CalcVerdict JudgeCalc() override;
  bool OutOfMemory();
  bool OutOfQueuePairs();

  SimNetwork* network_;
  HostId host_;
  bool woken_ = false;
  std::uint64_t calc_not_before_ns_ = 0;
  std::unique_ptr<Device> soft_;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_SIM_DEVICE_H_
