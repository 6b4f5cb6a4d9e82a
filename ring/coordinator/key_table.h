// ring/coordinator/key_table.h — the paper's volatile hashtable: key -> line of its highest
// version.
//
// What:      Open addressing by 64-byte buckets of eight {tag, line} pairs, probed linearly by
//            bucket, grown a few buckets at a time. Rebuildable from the metadata lines by one
//            scan.
// Shape:     a tag is 32 bits of the key's hash and also gives the bucket, so that growth reads no
//            key. Load <= 0.6.
// Ownership: owns its buckets (memory of the device's arena).
// Threads:   one, the node's.
// Errors:    Insert: kResourceExhausted when the arena is spent; then nothing changed.
// Cost:      Find: one bucket line, then one metadata line per matching tag.
// Source:    Ring section 5.1 (volatile hashtable); docs/adr/0006; rule V8.
#ifndef RING_COORDINATOR_KEY_TABLE_H_
#define RING_COORDINATOR_KEY_TABLE_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "memgest/line_table.h"
#include "rdma/fabric.h"

namespace ring::coordinator {

class KeyTable {
 public:
  // Nothing is allocated before the first insertion.
  KeyTable(rdma::Device* device, const memgest::LineTable* lines)
      : device_(device), lines_(lines) {}

  ~KeyTable() { DropAll(); }
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  // Everything, with its memory.
  void DropAll();
  // Where the key's line number stands, or null. Good until the next Insert, Erase or Reserve.
  std::uint32_t* Find(std::uint64_t hash, absl::string_view key);

  // Makes room for one more insertion, and moves growth on. Call before the step that must not fail
  // (V5).
  absl::Status Reserve();
  // Room for so many insertions without growth, in one step. REQUIRES: the table is empty.
  absl::Status ReserveFor(std::uint64_t count);
  // Adds a key that is not there. REQUIRES: Reserve since the last Insert.
  void Insert(std::uint64_t hash, std::uint32_t line);
  // Removes the entry that Find gave.
  void Erase(std::uint32_t* entry);

  void PrefetchBucket(std::uint64_t hash) const;
  // The line of the first matching tag, without a key compare: a hint for prefetching. kNoLine:
  // none.
  std::uint32_t PeekLine(std::uint64_t hash) const;

  std::uint64_t size() const { return size_; }
  // So many buckets a search for a key of this hash reads that is not there: what keys of like
  // hashes cost each other. Cold: for tests and statistics.
  std::uint64_t ProbeLength(std::uint64_t hash) const;
  std::uint64_t resident_bytes() const { return current_.bytes() + previous_.bytes(); }

  // Visits every line number in the table.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const Buckets* buckets : {&current_, &previous_}) {
      for (std::uint64_t b = 0; b < buckets->count; ++b) {
        for (std::size_t i = 0; i < kPairs; ++i) {
          if (buckets->at(b).tag[i] > kDeletedTag) visit(buckets->at(b).line[i]);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kPairs = 8;
  static constexpr std::uint32_t kEmptyTag = 0;
  // Keeps a probe going over a bucket that was once full.
  static constexpr std::uint32_t kDeletedTag = 1;
  static constexpr std::uint64_t kBucketCountMin = 64;
  static constexpr std::uint64_t kMovesPerInsert = 4;

  struct alignas(64) Bucket {
    std::uint32_t tag[kPairs];
    std::uint32_t line[kPairs];
  };
  struct Buckets {
    Bucket* first = nullptr;
    std::uint64_t count = 0;  // a power of two, or 0
    std::uint64_t used = 0;   // pairs that are not empty, deleted ones too
    Bucket& at(std::uint64_t b) const { return first[b]; }
    std::uint64_t bytes() const { return count * sizeof(Bucket); }
    rdma::MemoryKind kind() const {
      return bytes() >= (std::uint64_t{2} << 20) ? rdma::MemoryKind::kPrivateHuge
                                                 : rdma::MemoryKind::kPrivate;
    }
  };

  static std::uint32_t TagOf(std::uint64_t hash) {
    const auto tag = static_cast<std::uint32_t>(hash);
    return tag > kDeletedTag ? tag : tag + 2;
  }
  static std::uint32_t MatchMask(const Bucket& bucket, std::uint32_t tag);
  std::uint32_t* FindIn(const Buckets& buckets, std::uint32_t tag, absl::string_view key) const;
  static std::uint64_t ProbeLengthIn(const Buckets& buckets, std::uint32_t tag);
  static void InsertInto(Buckets* buckets, std::uint32_t tag, std::uint32_t line);
  absl::Status StartGrowth(std::uint64_t bucket_count);
  static bool Fits(std::uint64_t pairs, std::uint64_t bucket_count) {
    return pairs * 10 <= bucket_count * kPairs * 6;
  }
  void MoveSome(std::uint64_t bucket_count);
  void Drop(Buckets* buckets);

  rdma::Device* device_;
  const memgest::LineTable* lines_;
  Buckets current_;
  Buckets previous_;  // being moved from, bucket by bucket, while growing
  // Emptied, kept for growth to the same size: keys that come and go make two tables alternate.
  // Small ones alone.
  Buckets spare_;
  std::uint64_t moved_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_KEY_TABLE_H_
