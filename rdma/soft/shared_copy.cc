#include "rdma/soft/shared_copy.h"

#if defined(RING_RDMA_TSAN)
namespace ring::rdma::soft {
namespace {

using Word = std::uint64_t;
constexpr std::size_t kWord = sizeof(Word);

std::size_t BytesToWordBoundary(const std::byte* p, std::size_t size) {
  const std::size_t head = (kWord - reinterpret_cast<std::uintptr_t>(p) % kWord) % kWord;
  return head < size ? head : size;
}

}  // namespace

void CopyToShared(std::byte* target, const std::byte* source, std::size_t size) {
  const std::size_t head = BytesToWordBoundary(target, size);
  std::size_t i = 0;
  for (; i < head; ++i) __atomic_store_n(&target[i], source[i], __ATOMIC_RELEASE);
  for (; i + kWord <= size; i += kWord) {
    Word word;
    std::memcpy(&word, source + i, kWord);
    __atomic_store_n(reinterpret_cast<Word*>(target + i), word, __ATOMIC_RELEASE);
  }
  for (; i < size; ++i) __atomic_store_n(&target[i], source[i], __ATOMIC_RELEASE);
}

void CopyFromShared(std::byte* target, const std::byte* source, std::size_t size) {
  const std::size_t head = BytesToWordBoundary(source, size);
  std::size_t i = 0;
  for (; i < head; ++i) target[i] = __atomic_load_n(&source[i], __ATOMIC_ACQUIRE);
  for (; i + kWord <= size; i += kWord) {
    const Word word = __atomic_load_n(reinterpret_cast<const Word*>(source + i), __ATOMIC_ACQUIRE);
    std::memcpy(target + i, &word, kWord);
  }
  for (; i < size; ++i) target[i] = __atomic_load_n(&source[i], __ATOMIC_ACQUIRE);
}

}  // namespace ring::rdma::soft
#endif
