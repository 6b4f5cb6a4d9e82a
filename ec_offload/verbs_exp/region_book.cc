#include "ec_offload/verbs_exp/region_book.h"

namespace ring::ec_verbs {

RegionBook& RegionBook::Get() {
  // Never destroyed: programs deregister in their own static destructors.
  static RegionBook& book = *new RegionBook;
  return book;
}

void RegionBook::Set(const ibv_pd* pd, std::uint32_t key, const Range& range) {
  MutexLock lock(mutex_);
  entries_[{pd, key}] = {range, ++last_serial_};
}

std::optional<RegionBook::Entry> RegionBook::Find(const ibv_pd* pd, std::uint32_t key) {
  MutexLock lock(mutex_);
  const auto found = entries_.find({pd, key});
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

void RegionBook::Remove(const ibv_pd* pd, std::uint32_t key) {
  MutexLock lock(mutex_);
  entries_.erase({pd, key});
}

void RegionBook::Remove(const ibv_pd* pd, std::uint32_t key, std::uint64_t serial) {
  MutexLock lock(mutex_);
  const auto found = entries_.find({pd, key});
  if (found != entries_.end() && found->second.serial == serial) entries_.erase(found);
}

bool RegionBook::HasAny(const ibv_pd* pd) {
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (name.first == pd) return true;
  }
  return false;
}

bool RegionBook::Allows(const ibv_pd* pd, absl::Span<const ibv_sge> sges, unsigned access) {
  MutexLock lock(mutex_);
  for (const ibv_sge& sge : sges) {
    if (sge.length == 0) continue;
    const auto found = entries_.find({pd, sge.lkey});
    if (found == entries_.end()) return false;
    const Range& range = found->second.range;
    const bool inside = sge.addr >= range.address && sge.length <= range.length &&
                        sge.addr - range.address <= range.length - sge.length;
    if (!inside || (range.access & access) != access) return false;
  }
  return true;
}

}  // namespace ring::ec_verbs
