// rdma/soft/region_table.h — registered memory: the owner's table, and the check that peers make
// against it.
//
// What:      RegionTable registers, revokes and checks local sges. RemoteTarget / StillValid are
//            the initiator's check of a peer's shared entries, before and after a copy (rule L5).
// Shape:     kRegionCountMax regions at a time; key = (generation << 12) | index; lkey == rkey. A
//            generation is used once: an entry whose generations are spent is not used again.
// Units:     bytes.
// Ownership: MemoryRegion objects point back to the table; the device outlives them.
// Threads:   the table is its device's thread's; the shared entries are read by peers at any time.
// Errors:    kResourceExhausted (table full), kInvalidArgument (empty or outside the arena while
//            remote access is asked for).
// Cost:      a local check is one array access and four compares; a remote check reads one shared
//            cache line.
#ifndef RING_RDMA_SOFT_REGION_TABLE_H_
#define RING_RDMA_SOFT_REGION_TABLE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/nic_endpoint.h"

namespace ring::rdma::soft {

class RegionTable {
 public:
  explicit RegionTable(std::shared_ptr<Mapping> mapping);

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access);

  bool CheckLocal(const Sge& sge) const {
    const Local& local = locals_[sge.lkey & kRegionIndexMask];
    const auto address = reinterpret_cast<std::uint64_t>(sge.address);
    return local.key == sge.lkey && address >= local.address && sge.length <= local.length &&
           address - local.address <= local.length - sge.length;
  }
  // Null: nobody. Told of regions that end from now on.
  void set_watcher(RegionWatcher* watcher) { watcher_ = watcher; }
  // Those that peers may still use with the rights they have.
  std::vector<RegionRange> List() const;
  // Whether peers on mapped links can reach [address, address+length).
  bool InArena(const std::byte* address, std::size_t length) const;

  // Serves a peer that is not mapped: the local address for a request, or null when the key, bounds
  // or rights do not allow it. Gives the same answer as RemoteTarget on a mapped link.
  std::byte* Serve(std::uint32_t rkey, std::uint64_t remote_address, std::uint64_t length,
                   std::uint32_t access) const;

 private:
  class Region;
  struct Local {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t access = 0;
  };
  void Close(std::uint32_t key);
  void Release(std::uint32_t key);

  std::shared_ptr<Mapping> mapping_;
  RegionWatcher* watcher_ = nullptr;
  std::vector<Local> locals_;
  std::vector<std::uint32_t> generations_;
  std::deque<std::uint32_t> free_;  // first in, first out: a key is reused as late as possible
};

// Where `remote_address` of the mapping's owner stands in this process, or null when key, bounds or
// rights do not allow the access.
inline std::byte* RemoteTarget(const Mapping& mapping, std::uint32_t rkey,
                               std::uint64_t remote_address, std::uint64_t length,
                               std::uint32_t access) {
  const RegionEntry& entry = mapping.control()->regions[rkey & kRegionIndexMask];
  if (entry.key.load(std::memory_order_acquire) != rkey || rkey == 0) return nullptr;
  const std::uint64_t offset = entry.offset.load(std::memory_order_relaxed);
  const std::uint64_t size = entry.length.load(std::memory_order_relaxed);
  const std::uint32_t rights = entry.access.load(std::memory_order_relaxed);
  const std::uint64_t arena_size = mapping.layout().arena_size;
  const std::uint64_t at = remote_address - mapping.owner_arena_address();
  // The entry is the peer's word: the arena's bounds are checked as well, or its error would be our
  // crash.
  const bool inside = length <= size && at >= offset && at - offset <= size - length &&
                      length <= arena_size && at <= arena_size - length;
  if (!inside || (rights & access) != access) return nullptr;
  return mapping.arena() + at;
}

// Rule L5: after the copy and a full fence.
inline bool StillValid(const Mapping& mapping, std::uint32_t rkey) {
  return mapping.control()->regions[rkey & kRegionIndexMask].key.load(std::memory_order_acquire) ==
         rkey;
}

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_REGION_TABLE_H_
