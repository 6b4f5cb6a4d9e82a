// tests/memgest/entry_ring.h — a member's ring that a test writes by itself, without queue pairs.
//
// What:      Append puts one entry behind the last, whole; Commit moves the control word.
// Shape:     never wraps: choose the size for the test.
// Ownership: owns the memory; must outlive readers.
// Threads:   one.
// Errors:    a full ring ends the test.
#ifndef RING_TESTS_MEMGEST_ENTRY_RING_H_
#define RING_TESTS_MEMGEST_ENTRY_RING_H_

#include <cstdlib>
#include <cstring>
#include <memory>

#include "memgest/log_entry.h"
#include "memgest/log_reader.h"
#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"

namespace ring::memgest {

class EntryRing {
 public:
  explicit EntryRing(std::size_t size = std::size_t{4} << 20, Epoch epoch = Epoch(3))
      : epoch_(epoch),
        size_(AlignUp(size, 64)),
        memory_(static_cast<std::byte*>(std::aligned_alloc(64, kRingControlSize + size_))) {
    RING_CHECK(memory_ != nullptr);
    std::memset(memory_.get(), 0, kRingControlSize + size_);
  }

  std::unique_ptr<LogReader> MakeReader() {
    LogReaderOptions options;
    options.memory = memory_.get();
    options.size = kRingControlSize + size_;
    options.epoch = epoch_;
    return std::make_unique<LogReader>(options);
  }

  void Append(EntryFields fields, const void* payload, std::size_t payload_size) {
    fields.payload_length = static_cast<std::uint32_t>(payload_size);
    const std::size_t size = EntrySize(fields);
    RING_CHECK(position_ + size <= size_) << "the test's ring is full";
    std::byte* at = memory_.get() + kRingControlSize + position_;
    const std::size_t head = BuildEntryHead(fields, epoch_, at);
    prev_crc_ = SealEntryHead(at, head, position_, prev_crc_, commit_, at);
    if (payload_size > 0) std::memcpy(at + head, payload, payload_size);
    EntryTrailer trailer;
    trailer.position = position_;
    trailer.payload_crc = Crc32c(payload, payload_size);
    std::memcpy(at + size - sizeof(trailer), &trailer, sizeof(trailer));
    last_ = at;
    position_ += size;
  }
  // Everything appended so far is committed.
  void Commit() { CommitTo(position_); }
  void CommitTo(std::uint64_t position) {
    commit_ = position;
    std::memcpy(memory_.get(), &commit_, sizeof(commit_));
  }

  std::uint64_t position() const { return position_; }
  std::byte* last() const { return last_; }  // the last entry's first byte

 private:
  struct FreeBytes {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  Epoch epoch_;
  std::size_t size_;
  std::unique_ptr<std::byte[], FreeBytes> memory_;
  std::uint64_t position_ = 0;
  std::uint64_t commit_ = 0;
  std::uint32_t prev_crc_ = 0;
  std::byte* last_ = nullptr;
};

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_ENTRY_RING_H_
