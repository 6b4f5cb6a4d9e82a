#include "ec_offload/verbs_exp/region_book.h"

namespace ring::ec_verbs {

RegionBook& RegionBook::Get() {
  // Never destroyed: programs deregister in their own static destructors.
  static RegionBook& book = *new RegionBook;
  return book;
}

void RegionBook::Set(const ibv_pd* pd, std::uint32_t key, const Range& range) {
  MutexLock lock(mutex_);
  ranges_[{pd, key}] = range;
}

void RegionBook::Remove(const ibv_pd* pd, std::uint32_t key) {
  MutexLock lock(mutex_);
  ranges_.erase({pd, key});
}

bool RegionBook::HasAny(const ibv_pd* pd) {
  MutexLock lock(mutex_);
  for (const auto& [name, range] : ranges_) {
    if (name.first == pd) return true;
  }
  return false;
}

bool RegionBook::Allows(const ibv_pd* pd, absl::Span<const ibv_sge> sges, unsigned access) {
  MutexLock lock(mutex_);
  for (const ibv_sge& sge : sges) {
    if (sge.length == 0) continue;
    const auto found = ranges_.find({pd, sge.lkey});
    if (found == ranges_.end()) return false;
    const Range& range = found->second;
    const bool inside = sge.addr >= range.address && sge.length <= range.length &&
                        sge.addr - range.address <= range.length - sge.length;
    if (!inside || (range.access & access) != access) return false;
  }
  return true;
}

}  // namespace ring::ec_verbs
