// ec_offload/verbs_exp/region_book.h — which memory is registered, by protection domain and key.
//
// What:      RegionBook: what ibv_reg_mr and its like registered in this process, on whatever
//            device; a calculation and the software device check their scatter lists against it.
// Units:     bytes; access as IBV_ACCESS_*.
// Ownership: protection domains are names here, never looked into.
// Threads:   any.
// Errors:    Allows gives false. Set throws std::bad_alloc, and has changed nothing then.
// Cost:      one lock for a list; a look-up in a hash table for each entry.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_
#define RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "ring/base/sync.h"

namespace ring::ec_verbs {

class RegionBook {
 public:
  struct Range {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    unsigned access = 0;
  };

  struct Entry {
    Range range;
    std::uint64_t serial = 0;  // no other entry ever has the same
  };

  static RegionBook& Get();

  void Set(const ibv_pd* pd, std::uint32_t key, const Range& range);
  std::optional<Entry> Find(const ibv_pd* pd, std::uint32_t key);
  void Remove(const ibv_pd* pd, std::uint32_t key);
  // Only when the key has this entry still: a device may have given it to the next region.
  void Remove(const ibv_pd* pd, std::uint32_t key, std::uint64_t serial);
  bool HasAny(const ibv_pd* pd);
  // Whether each entry lies within the region of its key, and each of those regions has all the
  // rights in `access`. An entry of no bytes is not looked at.
  bool Allows(const ibv_pd* pd, absl::Span<const ibv_sge> sges, unsigned access);

 private:
  Mutex mutex_;
  using Name = std::pair<const ibv_pd*, std::uint32_t>;
  // Not absl's map: an insertion for which there is no memory must leave it as it was.
  std::unordered_map<Name, Entry, absl::Hash<Name>> entries_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_serial_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_
