// memgest/replica_store.h — a replica's copy of one shard's values in one replicated memgest.
//
// What:      The coordinator's heap at the same offsets: folding copies an entry's payload there.
// Units:     offsets in cells of 64 bytes, lengths in bytes.
// Ownership: owns its heap space; borrows payloads for the call.
// Threads:   one, the node's.
// Errors:    Ensure: the heap's.
// Cost:      one pass that copies and sums. Payloads of at least kStreamSizeMin bypass the caches:
//            nobody reads a replica's heap soon, and the slot's old lines need not be fetched. With
//            1 KiB into cold slots that takes a fifth off a fold, against stores behind a prefetch.
// Source:    Ring section 5.2.
#ifndef RING_MEMGEST_REPLICA_STORE_H_
#define RING_MEMGEST_REPLICA_STORE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "memgest/heap_space.h"
#include "memgest/size_class.h"

namespace ring::memgest {

class ReplicaStore {
 public:
  static constexpr std::uint32_t kStreamSizeMin = 512;

  explicit ReplicaStore(rdma::Device* device) : heap_(device) {}

  absl::Status Ensure(std::uint32_t offset_cells, std::uint32_t length);
  struct Written {
    std::uint32_t crc = 0;  // CRC-32C of the bytes
    // The stores were weakly ordered: a FenceStores must follow before another thread is told of
    // the bytes.
    bool weak = false;
  };
  // REQUIRES: Ensure.
  Written Write(std::uint32_t offset_cells, const std::byte* bytes, std::uint32_t length);
  // RELEASE: whole pages that hold nothing.
  void Release(std::uint32_t offset_cells, std::uint32_t length) {
    heap_.Release(offset_cells, CellCount(length));
    released_.push_back(offset_cells >> HeapSpace::kChunkCellShift);
  }
  // Chunks that RELEASEs left empty go back. REQUIRES: what was Ensured is written.
  void FreeEmptied();
  // For payloads that are stored through the caches.
  void Prefetch(std::uint32_t offset_cells, std::uint32_t length) const;

  const HeapSpace& heap() const { return heap_; }
  // The values go on without this, which may only be destroyed then.
  HeapSpace TakeHeap() { return std::move(heap_); }

 private:
  HeapSpace heap_;
  std::vector<std::uint32_t> released_;  // chunks, since FreeEmptied
};

// Orders weakly ordered stores before later ones.
void FenceStores();

}  // namespace ring::memgest

#endif  // RING_MEMGEST_REPLICA_STORE_H_
