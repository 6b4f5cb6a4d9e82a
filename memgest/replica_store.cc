#include "memgest/replica_store.h"

#include <algorithm>
#include <atomic>

#include "memgest/size_class.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace ring::memgest {

absl::Status ReplicaStore::Ensure(std::uint32_t offset_cells, std::uint32_t length) {
  RING_RETURN_IF_ERROR(heap_.Ensure(offset_cells, CellCount(length)));
  heap_.Touch(offset_cells, CellCount(length));
  return absl::OkStatus();
}

ReplicaStore::Written ReplicaStore::Write(std::uint32_t offset_cells, const std::byte* bytes,
                                          std::uint32_t length) {
  Written written{.weak = length >= kStreamSizeMin};
  // Again: a RELEASE may have been folded since Ensure.
  heap_.Touch(offset_cells, CellCount(length));
  while (length > 0) {
    // Bytes of the heap are contiguous within a chunk only.
    const std::uint32_t room =
        (HeapSpace::kChunkCells - (offset_cells & HeapSpace::kChunkCellMask)) * kCellSize;
    const std::uint32_t size = std::min(length, room);
    std::byte* const to = heap_.At(offset_cells);
    written.crc = written.weak ? Crc32cCopyStream(to, bytes, size, written.crc)
                               : Crc32cCopy(to, bytes, size, written.crc);
    offset_cells += CellCount(size);
    bytes += size;
    length -= size;
  }
  return written;
}

void ReplicaStore::FreeEmptied() {
  for (const std::uint32_t chunk : released_) heap_.FreeEmpty(chunk);
  released_.clear();
}

void ReplicaStore::Prefetch(std::uint32_t offset_cells, std::uint32_t length) const {
  if (length >= kStreamSizeMin || !heap_.Has(offset_cells, 1)) return;
  const std::byte* at = heap_.At(offset_cells);
  for (std::uint32_t done = 0; done < length; done += kCellSize) __builtin_prefetch(at + done, 1);
}

void FenceStores() {
#ifdef __AVX__
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace ring::memgest
