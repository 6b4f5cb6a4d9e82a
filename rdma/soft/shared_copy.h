// rdma/soft/shared_copy.h — copies into and out of memory that another thread or process uses
// meanwhile.
//
// What:      CopyToShared, CopyFromShared: memcpy in ordinary builds, but for an aligned word.
//            FullFence: a seq_cst fence. Relaxed and release/acquire accessors for single words in
//            shared memory are std::atomic's own.
// Shape:     an aligned copy of exactly 8 bytes is one store with release (one load with acquire):
//            who sees it sees all of it, and all that was copied before. Any other copy is not
//            atomic; a reader sees any mixture of old and new bytes until it knows (by a word, a
//            completion, a later request of the queue pair, or a check sum) that the copy is over.
//            Copies of one queue pair are seen in the order in which they were made.
// Units:     bytes.
// Threads:   any. A one-sided WRITE races with its target's reads by design, as with a hardware
//            NIC. The ThreadSanitizer build therefore copies word by word with release stores and
//            acquire loads: data that is read after a word of a later copy was seen is then ordered
//            for the sanitizer as it is for the processor, and real races (a plain write of the
//            owner under a peer's copy) are still reported.
// Errors:    none.
// Cost:      memcpy; the fence about 2 ns with an empty store buffer, else it waits for the pending
//            stores.
#ifndef RING_RDMA_SOFT_SHARED_COPY_H_
#define RING_RDMA_SOFT_SHARED_COPY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ring::rdma::soft {

#if defined(__SANITIZE_THREAD__)
#define RING_RDMA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RING_RDMA_TSAN 1
#endif
#endif

// Orders everything before it with everything after it, for all threads and processes. A locked
// instruction on the own stack: cheaper than mfence, and ThreadSanitizer knows it (it does not know
// fences).
inline void FullFence() {
  std::atomic<std::uint32_t> local{0};
  local.fetch_or(1, std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#if !defined(RING_RDMA_TSAN) && !defined(__x86_64__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

inline bool IsWord(const std::byte* shared, std::size_t size) {
  return size == sizeof(std::uint64_t) &&
         reinterpret_cast<std::uintptr_t>(shared) % sizeof(std::uint64_t) == 0;
}

// Keeps the stores of two successive copies in order. Nothing but a compiler barrier on x86-64.
inline void StoreFence() {
#if defined(RING_RDMA_TSAN)
  std::atomic_signal_fence(std::memory_order_release);
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

#if defined(RING_RDMA_TSAN)
void CopyToShared(std::byte* target, const std::byte* source, std::size_t size);
void CopyFromShared(std::byte* target, const std::byte* source, std::size_t size);
#else
inline void CopyToShared(std::byte* target, const std::byte* source, std::size_t size) {
  if (IsWord(target, size)) {
    std::uint64_t word;
    std::memcpy(&word, source, sizeof(word));
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(target), word, __ATOMIC_RELEASE);
    return;
  }
  std::memcpy(target, source, size);
}
inline void CopyFromShared(std::byte* target, const std::byte* source, std::size_t size) {
  if (IsWord(source, size)) {
    const std::uint64_t word =
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(source), __ATOMIC_ACQUIRE);
    std::memcpy(target, &word, sizeof(word));
    return;
  }
  std::memcpy(target, source, size);
}
#endif

// A mark that differs between the threads of a process and costs no system call.
inline std::uint64_t CurrentThreadToken() {
  static thread_local char marker;
  return reinterpret_cast<std::uint64_t>(&marker);
}

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SHARED_COPY_H_
