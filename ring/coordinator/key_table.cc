#include "ring/coordinator/key_table.h"

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::coordinator {
namespace {
// So much of a fresh table is written at once: an insertion reads a bucket first, and then a fresh
// page costs two faults, the second one with news to all processors. More would be a wait.
constexpr std::uint64_t kTouchedBytesMax = 256 * 1024;
}  // namespace

std::uint32_t KeyTable::MatchMask(const Bucket& bucket, std::uint32_t tag) {
  const __m256i tags = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.tag));
  const __m256i equal = _mm256_cmpeq_epi32(tags, _mm256_set1_epi32(static_cast<int>(tag)));
  return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
}

std::uint32_t* KeyTable::FindIn(const Buckets& buckets, std::uint32_t tag,
                                absl::string_view key) const {
  if (buckets.count == 0) return nullptr;
  const std::uint64_t mask = buckets.count - 1;
  for (std::uint64_t b = tag & mask, probes = 0; probes < buckets.count;
       b = (b + 1) & mask, ++probes) {
    Bucket& bucket = buckets.at(b);
    for (std::uint32_t match = MatchMask(bucket, tag); match != 0; match &= match - 1) {
      const int i = __builtin_ctz(match);
      if (lines_->KeyEquals(bucket.line[i], key) || Mutant("V8"))
        return &bucket.line[i];  // V8: the key itself decides
    }
    if (MatchMask(bucket, kEmptyTag) != 0) return nullptr;
  }
  return nullptr;
}

std::uint32_t* KeyTable::Find(std::uint64_t hash, absl::string_view key) {
  const std::uint32_t tag = TagOf(hash);
  if (std::uint32_t* found = FindIn(current_, tag, key)) return found;
  return previous_.count == 0 ? nullptr : FindIn(previous_, tag, key);
}

std::uint64_t KeyTable::ProbeLengthIn(const Buckets& buckets, std::uint32_t tag) {
  std::uint64_t probes = 0;
  for (bool ends = false; !ends && probes < buckets.count; ++probes)
    ends = MatchMask(buckets.at((tag + probes) & (buckets.count - 1)), kEmptyTag) != 0;
  return probes;
}

std::uint64_t KeyTable::ProbeLength(std::uint64_t hash) const {
  return ProbeLengthIn(current_, TagOf(hash)) + ProbeLengthIn(previous_, TagOf(hash));
}

void KeyTable::InsertInto(Buckets* buckets, std::uint32_t tag, std::uint32_t line) {
  const std::uint64_t mask = buckets->count - 1;
  for (std::uint64_t b = tag & mask;; b = (b + 1) & mask) {
    Bucket& bucket = buckets->at(b);
    const std::uint32_t empty = MatchMask(bucket, kEmptyTag);
    const std::uint32_t usable = empty != 0 ? empty : MatchMask(bucket, kDeletedTag);
    if (usable == 0) continue;
    const int i = __builtin_ctz(usable);
    if (empty != 0) ++buckets->used;
    bucket.tag[i] = tag;
    bucket.line[i] = line;
    return;
  }
}

absl::Status KeyTable::StartGrowth(std::uint64_t count) {
  const bool huge = count * sizeof(Bucket) >= (std::uint64_t{2} << 20);
  const auto kind = huge ? rdma::MemoryKind::kPrivateHuge : rdma::MemoryKind::kPrivate;
  std::byte* memory = reinterpret_cast<std::byte*>(spare_.first);
  if (spare_.count != count) {
    RING_ASSIGN_OR_RETURN(memory, device_->Allocate(count * sizeof(Bucket), kind));
    if (count * sizeof(Bucket) <= kTouchedBytesMax) std::memset(memory, 0, count * sizeof(Bucket));
    Drop(&spare_);
  }
  spare_ = Buckets{};
  previous_ = current_;
  current_ = Buckets{reinterpret_cast<Bucket*>(memory), count, 0};
  moved_ = 0;
  return absl::OkStatus();
}

void KeyTable::MoveSome(std::uint64_t bucket_count) {
  for (; bucket_count > 0 && moved_ < previous_.count; --bucket_count, ++moved_) {
    Bucket& bucket = previous_.at(moved_);
    for (std::size_t i = 0; i < kPairs; ++i) {
      if (bucket.tag[i] > kDeletedTag) InsertInto(&current_, bucket.tag[i], bucket.line[i]);
      // A probe for a key that is still here must pass over this bucket: deleted, not empty.
      if (bucket.tag[i] != kEmptyTag) bucket.tag[i] = kDeletedTag;
    }
  }
  if (previous_.count != 0 && moved_ == previous_.count) {
    // Large ones go back to the device, which cleans in slices; so they come from it again.
    if (previous_.count == current_.count && previous_.kind() == rdma::MemoryKind::kPrivate) {
      device_->Discard(reinterpret_cast<std::byte*>(previous_.first), previous_.bytes());
      spare_ = std::exchange(previous_, {});
    } else {
      Drop(&previous_);
    }
  }
}

absl::Status KeyTable::Reserve() {
  MoveSome(kMovesPerInsert);
  if (Fits(current_.used + 1, current_.count)) return absl::OkStatus();
  MoveSome(previous_.count);  // growth during growth: deletions and insertions in a narrow table
  // Deleted pairs are dropped on the way, so a table full of them grows into one of the same size.
  std::uint64_t count = current_.count == 0 ? kBucketCountMin : current_.count;
  while (size_ * 10 >= count * kPairs * 4) count *= 2;
  return StartGrowth(count);
}

absl::Status KeyTable::ReserveFor(std::uint64_t count) {
  RING_CHECK(size_ == 0 && current_.count == 0) << "size=" << size_;
  if (count == 0) return absl::OkStatus();
  std::uint64_t buckets = kBucketCountMin;
  while (!Fits(count, buckets)) buckets *= 2;
  return StartGrowth(buckets);
}

void KeyTable::Insert(std::uint64_t hash, std::uint32_t line) {
  RING_CHECK(current_.count != 0);
  InsertInto(&current_, TagOf(hash), line);
  ++size_;
}

void KeyTable::Erase(std::uint32_t* entry) {
  auto* const bucket =
      reinterpret_cast<Bucket*>(reinterpret_cast<std::uintptr_t>(entry) & ~std::uintptr_t{63});
  const auto i = static_cast<std::size_t>(entry - bucket->line);
  RING_CHECK(i < kPairs && bucket->tag[i] > kDeletedTag);
  // A bucket with an empty pair ends every probe anyway: its pairs may become empty at once.
  const bool ends_probes = MatchMask(*bucket, kEmptyTag) != 0;
  bucket->tag[i] = ends_probes ? kEmptyTag : kDeletedTag;
  const bool in_current = bucket >= current_.first && bucket < current_.first + current_.count;
  if (ends_probes) --(in_current ? current_ : previous_).used;
  --size_;
}

void KeyTable::Drop(Buckets* buckets) {
  if (buckets->count == 0) return;
  device_->Free(reinterpret_cast<std::byte*>(buckets->first), buckets->bytes(), buckets->kind());
  *buckets = Buckets{};
}

void KeyTable::DropAll() {
  for (Buckets* const buckets : {&current_, &previous_, &spare_}) Drop(buckets);
  moved_ = size_ = 0;
}

void KeyTable::PrefetchBucket(std::uint64_t hash) const {
  if (current_.count == 0) return;
  __builtin_prefetch(&current_.at(TagOf(hash) & (current_.count - 1)));
}

std::uint32_t KeyTable::PeekLine(std::uint64_t hash) const {
  if (current_.count == 0) return memgest::kNoLine;
  const std::uint32_t tag = TagOf(hash);
  const Bucket& bucket = current_.at(tag & (current_.count - 1));
  const std::uint32_t match = MatchMask(bucket, tag);
  return match == 0 ? memgest::kNoLine : bucket.line[__builtin_ctz(match)];
}

}  // namespace ring::coordinator
