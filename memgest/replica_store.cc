#include "memgest/replica_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "memgest/size_class.h"
#include "ring/base/status.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace ring::memgest {
namespace {

// Copies whole cells past the caches and the rest through them. REQUIRES: to is 64-aligned.
void StreamCopy(std::byte* to, const std::byte* from, std::size_t size) {
  std::size_t done = 0;
#ifdef __AVX__
  for (; done + kCellSize <= size; done += kCellSize) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + done));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + done + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + done), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + done + 32), high);
  }
#endif
  if (done < size) std::memcpy(to + done, from + done, size - done);
}

}  // namespace

absl::Status ReplicaStore::Ensure(std::uint32_t offset_cells, std::uint32_t length) {
  RING_RETURN_IF_ERROR(heap_.Ensure(offset_cells, CellCount(length)));
  heap_.Touch(offset_cells, CellCount(length));
  return absl::OkStatus();
}

bool ReplicaStore::Write(std::uint32_t offset_cells, const std::byte* bytes, std::uint32_t length) {
  const bool stream = length >= kStreamSizeMin;
  while (length > 0) {
    // Bytes of the heap are contiguous within a chunk only.
    const std::uint32_t room =
        (HeapSpace::kChunkCells - (offset_cells & HeapSpace::kChunkCellMask)) * kCellSize;
    const std::uint32_t size = std::min(length, room);
    if (stream) {
      StreamCopy(heap_.At(offset_cells), bytes, size);
    } else {
      std::memcpy(heap_.At(offset_cells), bytes, size);
    }
    offset_cells += CellCount(size);
    bytes += size;
    length -= size;
  }
  return stream;
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
