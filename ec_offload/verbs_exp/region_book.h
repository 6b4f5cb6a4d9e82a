// ec_offload/verbs_exp/region_book.h — which memory is registered, by protection domain and key.
//
// What:      RegionBook: what ibv_reg_mr and its like registered in this process, on whatever
//            device; a calculation and the software device check their scatter lists against it.
// Units:     bytes; access as IBV_ACCESS_*.
// Ownership: protection domains are names here, never looked into.
// Threads:   any.
// Errors:    Allows gives false.
// Cost:      one lock for a list; a look-up in a hash table for each entry.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_
#define RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

  static RegionBook& Get();

  void Set(const ibv_pd* pd, std::uint32_t key, const Range& range);
  void Remove(const ibv_pd* pd, std::uint32_t key);
  bool HasAny(const ibv_pd* pd);
  // Whether each entry lies within the region of its key, and each of those regions has all the
  // rights in `access`. An entry of no bytes is not looked at.
  bool Allows(const ibv_pd* pd, absl::Span<const ibv_sge> sges, unsigned access);

 private:
  Mutex mutex_;
  absl::flat_hash_map<std::pair<const ibv_pd*, std::uint32_t>, Range> ranges_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_REGION_BOOK_H_
