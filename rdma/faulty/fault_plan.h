// rdma/faulty/fault_plan.h — which faults a device has to make, and whether this is one.
//
// What:      FaultPlan keeps a fault of each kind with what is left of it, and is asked whenever
//            one could happen; and which addresses nothing may reach for a while.
// Ownership: borrows the clock.
// Threads:   one, the device's.
// Errors:    none.
// Cost:      one load when nothing is asked for; else a look at the clock.
// Source:    fault classes F1 to F15.
#ifndef RING_RDMA_FAULTY_FAULT_PLAN_H_
#define RING_RDMA_FAULTY_FAULT_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "rdma/faulty/device_fault.h"
#include "ring/base/clock.h"
#include "ring/base/random.h"

namespace ring::rdma {

class FaultPlan {
 public:
  FaultPlan(const Clock* clock, std::uint64_t seed) : clock_(clock), random_(seed) {}

  // REQUIRES: CheckDeviceFault says ok.
  void Add(const DeviceFault& fault);
  // Nothing reaches the address for so long: in place of what was said of it before.
  void Cut(std::string address, std::uint32_t duration_ms);
  // No more faults; what was injected stays counted.
  void Clear();

  std::uint64_t clears() const { return clears_; }

  // Any fault may happen.
  bool armed() const { return armed_ != 0 || !cuts_.empty(); }
  // Whether something that goes there does not reach it: then it counts.
  bool Stops(absl::string_view address);
  // Whether one of this kind happens now: then it counts.
  bool Takes(DeviceFaultKind kind);
  // It was taken, and then did not happen.
  void GiveBack(DeviceFaultKind kind);
  // REQUIRES: one of the kind was added.
  const DeviceFault& fault(DeviceFaultKind kind) const { return at(kind).fault; }
  std::uint64_t NowNs() const { return clock_->NowNs(); }
  std::uint64_t Below(std::uint64_t bound) { return random_.Below(bound); }

  // Completions that are held back: there is something to do once they are due.
  void Hold(int delta) { held_ += delta; }
  bool holds() const { return held_ != 0; }

  std::uint64_t injected() const;
  // Of them, what did not reach its address.
  std::uint64_t stopped() const { return stopped_; }
  // Of each kind that was ever asked for.
  std::vector<DeviceFaultStatus> Status() const;

 private:
  struct Entry {
    DeviceFault fault;
    std::uint64_t until_ns = 0;
    std::uint32_t left = 0;
    bool active = false;
    bool known = false;
    std::uint64_t injected = 0;
  };
  const Entry& at(DeviceFaultKind kind) const {
    return entries_[static_cast<std::size_t>(kind) - 1];
  }
  Entry& at(DeviceFaultKind kind) { return entries_[static_cast<std::size_t>(kind) - 1]; }
  bool Over(const Entry& entry, std::uint64_t now_ns) const;
  void End(Entry* entry);

  const Clock* clock_;
  SeededRandom random_;
  int armed_ = 0;                                         // so many entries are active
  absl::flat_hash_map<std::string, std::uint64_t> cuts_;  // until then
  std::uint64_t stopped_ = 0;
  int held_ = 0;
  std::uint64_t clears_ = 0;
  std::array<Entry, kDeviceFaultKinds.size()> entries_;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FAULTY_FAULT_PLAN_H_
