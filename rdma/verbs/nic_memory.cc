#include "rdma/verbs/nic_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/terms.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {

absl::Status RegistrationError(absl::string_view device, std::size_t size, int error) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string bytes =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur);
  return absl::ResourceExhaustedError(
      absl::StrCat("verbs device=", device, " cannot register memory of size=", size, ": ",
                   std::strerror(error), "; locked memory is limited to ", bytes,
                   " bytes: raise it with ulimit -l or systemd's LimitMEMLOCK="));
}

NicMemory::NicMemory(ibv_pd* pd, std::string device, DeviceCounters* counters)
    : pd_(pd),
      device_(std::move(device)),
      counters_(counters),
      regions_(soft::kRegionCountMax),
      table_(soft::kRegionCountMax, 0) {}

NicMemory::~NicMemory() {
  for (const Region& region : regions_) {
    if (region.mr != nullptr) Deregister(region.mr);
  }
  for (const Run& run : runs_) Deregister(run.mr);
  if (table_mr_ != nullptr) Deregister(table_mr_);
}

absl::Status NicMemory::Open() {
  RING_ASSIGN_OR_RETURN(
      table_mr_, RegisterWith(reinterpret_cast<std::byte*>(table_.data()),
                              table_.size() * sizeof(table_[0]), AccessFlagsOf(kRemoteRead)));
  return absl::OkStatus();
}

absl::StatusOr<ibv_mr*> NicMemory::RegisterWith(std::byte* address, std::size_t size, int flags) {
  ibv_mr* const mr = ibv_reg_mr(pd_, address, size, flags);
  if (mr == nullptr) return RegistrationError(device_, size, errno);
  ++counters_->card_registrations;
  return mr;
}

// A card that is gone answers nobody any more; any other that keeps a region keeps its peers.
void NicMemory::Deregister(ibv_mr* mr) {
  const int error = ibv_dereg_mr(mr);
  RING_CHECK(error == 0 || error == EIO || error == ENODEV)
      << "verbs device=" << device_ << " does not give up a region: " << std::strerror(error);
}

absl::Status NicMemory::AddRun(std::byte* address, std::size_t size) {
  Run run;
  run.begin = reinterpret_cast<std::uint64_t>(address);
  run.end = run.begin + size;
  RING_ASSIGN_OR_RETURN(run.mr, RegisterWith(address, size, IBV_ACCESS_LOCAL_WRITE));
  const auto behind =
      std::upper_bound(runs_.begin(), runs_.end(), run.begin,
                       [](std::uint64_t begin, const Run& other) { return begin < other.begin; });
  runs_.insert(behind, run);
  return absl::OkStatus();
}

void NicMemory::RemoveRun(const std::byte* address) {
  const Run* const run = FindRun(reinterpret_cast<std::uint64_t>(address));
  if (run == nullptr) return;
  Deregister(run->mr);
  runs_.erase(runs_.begin() + (run - runs_.data()));
}

const NicMemory::Run* NicMemory::FindRun(std::uint64_t address) const {
  if (last_run_ < runs_.size() && address >= runs_[last_run_].begin &&
      address < runs_[last_run_].end) {
    return &runs_[last_run_];
  }
  const auto behind =
      std::upper_bound(runs_.begin(), runs_.end(), address,
                       [](std::uint64_t wanted, const Run& run) { return wanted < run.begin; });
  if (behind == runs_.begin() || address >= (behind - 1)->end) return nullptr;
  last_run_ = static_cast<std::size_t>(behind - 1 - runs_.begin());
  return &runs_[last_run_];
}

bool NicMemory::Overlaps(const std::byte* address, std::size_t size) const {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  return std::any_of(runs_.begin(), runs_.end(), [begin, size](const Run& run) {
    return begin < run.end && run.begin < begin + size;
  });
}

absl::Status NicMemory::AddRegion(const soft::RegionRange& range) {
  Region& region = regions_[range.key & soft::kRegionIndexMask];
  region.remote = range.access != kLocalOnly;
  const auto begin = reinterpret_cast<std::uint64_t>(range.address);
  const Run* const run = FindRun(begin);
  if (!region.remote && run != nullptr && begin + range.length <= run->end) return absl::OkStatus();
  RING_ASSIGN_OR_RETURN(region.mr,
                        RegisterWith(range.address, range.length, AccessFlagsOf(range.access)));
  if (!region.remote) return absl::OkStatus();
  __atomic_store_n(&table_[range.key & soft::kRegionIndexMask],
                   std::uint64_t{region.mr->rkey} << 32 | range.key, __ATOMIC_SEQ_CST);
  return absl::OkStatus();
}

void NicMemory::CloseRegion(std::uint32_t key) {
  Region& region = regions_[key & soft::kRegionIndexMask];
  if (!region.remote) return;
  __atomic_store_n(&table_[key & soft::kRegionIndexMask], 0, __ATOMIC_SEQ_CST);
  if (region.mr != nullptr) Deregister(std::exchange(region.mr, nullptr));
}

void NicMemory::ReleaseRegion(std::uint32_t key) {
  Region& region = regions_[key & soft::kRegionIndexMask];
  if (region.mr != nullptr) Deregister(region.mr);
  region = {};
}

bool NicMemory::LocalKey(const Sge& sge, std::uint32_t* lkey) const {
  const auto begin = reinterpret_cast<std::uint64_t>(sge.address);
  if (const Run* const run = FindRun(begin); run != nullptr) {
    *lkey = run->mr->lkey;
    return begin + sge.length <= run->end;
  }
  const Region& region = regions_[sge.lkey & soft::kRegionIndexMask];
  if (region.mr == nullptr || region.remote) return false;
  *lkey = region.mr->lkey;
  return true;
}

}  // namespace ring::rdma::verbs
