#include "rdma/faulty/fault_plan.h"

#include <utility>

#include "ring/base/clock.h"

namespace ring::rdma {

bool FaultPlan::Over(const Entry& entry, std::uint64_t now_ns) const {
  return (entry.fault.count > 0 && entry.left == 0) ||
         (entry.fault.duration_ms > 0 && now_ns >= entry.until_ns);
}

void FaultPlan::End(Entry* entry) {
  if (!entry->active) return;
  entry->active = false;
  --armed_;
}

void FaultPlan::Add(const DeviceFault& fault) {
  Entry& entry = at(fault.kind);
  entry.fault = fault;
  entry.until_ns = clock_->NowNs() + fault.duration_ms * kMillisecondNs;
  entry.left = fault.count;
  entry.known = true;
  if (!entry.active) ++armed_;
  entry.active = true;
}

void FaultPlan::Cut(std::string address, std::uint32_t duration_ms) {
  cuts_[std::move(address)] = clock_->NowNs() + duration_ms * kMillisecondNs;
}

bool FaultPlan::Stops(absl::string_view address) {
  if (cuts_.empty()) return false;
  const auto found = cuts_.find(address);
  if (found == cuts_.end()) return false;
  if (clock_->NowNs() >= found->second) {
    cuts_.erase(found);
    return false;
  }
  ++stopped_;
  return true;
}

void FaultPlan::Clear() {
  for (Entry& entry : entries_) End(&entry);
  cuts_.clear();
  ++clears_;
}

bool FaultPlan::Takes(DeviceFaultKind kind) {
  Entry& entry = at(kind);
  if (!entry.active) return false;
  if (Over(entry, clock_->NowNs())) {
    End(&entry);
    return false;
  }
  if (entry.fault.one_in > 1 && random_.Below(entry.fault.one_in) != 0) return false;
  ++entry.injected;
  if (entry.fault.count > 0 && --entry.left == 0) End(&entry);
  return true;
}

void FaultPlan::GiveBack(DeviceFaultKind kind) {
  Entry& entry = at(kind);
  --entry.injected;
  if (entry.fault.count == 0) return;
  ++entry.left;
  if (!entry.active) ++armed_;
  entry.active = true;
}

std::uint64_t FaultPlan::injected() const {
  std::uint64_t all = stopped_;
  for (const Entry& entry : entries_) all += entry.injected;
  return all;
}

std::vector<DeviceFaultStatus> FaultPlan::Status() const {
  const std::uint64_t now_ns = clock_->NowNs();
  std::vector<DeviceFaultStatus> all;
  for (const Entry& entry : entries_) {
    if (!entry.known) continue;
    DeviceFaultStatus status;
    status.fault = entry.fault;
    status.active = entry.active && !Over(entry, now_ns);
    status.injected = entry.injected;
    if (status.active) {
      status.left = entry.left;
      if (entry.fault.duration_ms > 0)
        status.left_ms = static_cast<std::uint32_t>((entry.until_ns - now_ns + kMillisecondNs - 1) /
                                                    kMillisecondNs);
    }
    all.push_back(status);
  }
  return all;
}

}  // namespace ring::rdma
