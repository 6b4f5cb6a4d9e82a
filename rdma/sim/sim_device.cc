#include "rdma/sim/sim_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/sim/sim_endpoint.h"
#include "ring/base/status.h"

namespace ring::rdma::sim {
namespace {

// Calls a host when a time has come.
class Alarm final : public EventTarget {
 public:
  Alarm(SimNetwork* network, HostId host) : network_(network), host_(host) {}
  void OnEvent(std::uint64_t) override {
    if (SimHost* const process = network_->process(host_); process != nullptr) process->OnWake();
  }

 private:
  SimNetwork* network_;
  HostId host_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SimDevice>> SimDevice::Open(SimNetwork* network, HostId host,
                                                           const SoftDeviceOptions& options) {
  std::unique_ptr<SimDevice> device(new SimDevice(network, host));
  SoftDeviceOptions soft = options;
  soft.shareable = false;
  soft.clock = &network->clock();
  soft.attachment = device.get();
  RING_ASSIGN_OR_RETURN(device->soft_, OpenSoftDevice(soft));
  return device;
}

SimDevice::~SimDevice() = default;

std::unique_ptr<soft::Endpoint> SimDevice::MakeEndpoint(soft::SoftDevice* device) {
  return std::make_unique<SimEndpoint>(network_, host_, device);
}

void SimDevice::Wake() {
  woken_ = true;
  if (SimHost* const process = network_->process(host_); process != nullptr) process->OnWake();
}

bool SimDevice::Progress() {
  const bool woken = std::exchange(woken_, false);
  return soft_->Progress() || woken;
}

bool SimDevice::OutOfMemory() {
  const SimOptions& options = network_->options();
  if (network_->now_ns() < options.allocation_fail_from_ns ||
      !network_->Chance(options.allocation_fail_ppm))
    return false;
  network_->faults().Count(FaultClass::kF11Exhaustion);
  return true;
}

bool SimDevice::OutOfQueuePairs() {
  if (!network_->Chance(network_->options().queue_pair_fail_ppm)) return false;
  network_->faults().Count(FaultClass::kF11Exhaustion, "queue pairs");
  return true;
}

absl::StatusOr<std::byte*> SimDevice::Allocate(std::size_t size, MemoryKind kind) {
  if (OutOfMemory())
    return absl::ResourceExhaustedError(absl::StrCat("sim: no memory for size=", size));
  if (kind == MemoryKind::kPrivateHuge) kind = MemoryKind::kPrivate;
  return soft_->Allocate(size, kind);
}

void SimDevice::Free(std::byte* address, std::size_t size, MemoryKind kind) {
  if (kind == MemoryKind::kPrivateHuge) kind = MemoryKind::kPrivate;
  soft_->Free(address, size, kind);
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> SimDevice::Register(std::byte* address,
                                                                  std::size_t length,
                                                                  std::uint32_t access) {
  if (OutOfMemory())
    return absl::ResourceExhaustedError(absl::StrCat("sim: no region for length=", length));
  return soft_->Register(address, length, access);
}

soft::CalcVerdict SimDevice::JudgeCalc() {
  const SimOptions& options = network_->options();
  if (calc_not_before_ns_ != 0) {
    if (network_->now_ns() < calc_not_before_ns_) return soft::CalcVerdict::kLater;
    calc_not_before_ns_ = 0;
    return soft::CalcVerdict::kRun;
  }
  soft::CalcVerdict verdict = soft::CalcVerdict::kRun;
  if (network_->Chance(options.calc_fail_ppm)) {
    verdict = soft::CalcVerdict::kFail;
  } else if (network_->Chance(options.calc_wrong_ppm)) {
    verdict = soft::CalcVerdict::kWrong;
  } else if (network_->Chance(options.calc_late_ppm)) {
    verdict = soft::CalcVerdict::kLater;
    calc_not_before_ns_ =
        network_->now_ns() + 1 + network_->random().Below(options.calc_late_ns_max);
    network_->events().Schedule(calc_not_before_ns_, std::make_shared<Alarm>(network_, host_), 0);
  }
  if (verdict != soft::CalcVerdict::kRun) network_->faults().Count(FaultClass::kF15Calc);
  return verdict;
}

}  // namespace ring::rdma::sim
