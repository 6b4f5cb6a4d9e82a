// memgest/log_retention.h — what a shard's log keeps of an entry, so that it can be sent again.
//
// What:      The head of every appended entry (header and extension, as BuildEntryHead made it) and
//            where its payload lies, from Append until no member can lack it. Heads are built in
//            place, in a ring of bytes: keeping them costs no copy.
// Shape:     orders in a row; at most kEntriesMax of them and kHeadBytes of heads. A payload is one
//            piece of memory for all members, or one a member.
// Units:     bytes.
// Ownership: owns the heads; payload bytes stay where they are, and their owner leaves them alone
//            until the entry is released (ADR 0013).
// Threads:   one, the node's.
// Errors:    none: HasRoom is asked before.
// Cost:      no allocation and no copy; 64 bytes written for an entry of up to two payloads.
// Source:    step 5 of an epoch change: entries are sent again as they were appended, never
//            rebuilt.
#ifndef RING_MEMGEST_LOG_RETENTION_H_
#define RING_MEMGEST_LOG_RETENTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "memgest/log_entry.h"
#include "memgest/log_writer.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

class LogRetention {
 public:
  static constexpr std::uint64_t kEntriesMax = 256;
  static constexpr std::size_t kPayloadsMax = 4;  // parities at most
  static constexpr std::size_t kHeadBytes = 128 * 1024;
  // What a coordinator that takes over can send again: it needs one entry more to append anything.
  static constexpr std::size_t kShippedMax = kEntriesMax - 1;
  static constexpr std::size_t kShippedHeadBytesMax = kHeadBytes - 2 * kEntryHeadSizeMax;

  LogRetention();

  // Whether the largest head finds room.
  bool HasRoom() const;
  // Where the next head is built: room for kEntryHeadSizeMax. REQUIRES: HasRoom.
  std::byte* NextHead();
  // The head of this order stands at NextHead. payloads: one for all members, or one a member; each
  // at most one sge, none behind a WAIT. A CRC that is not known yet follows (SetCrc). head_size 0:
  // an entry that goes nowhere.
  void Keep(std::uint64_t order, std::size_t head_size, absl::Span<const EntryPayload> payloads);
  // Nobody lacks what is below this order.
  void Release(std::uint64_t first_kept);
  // Heads that are still kept are sent as entries of this epoch from now on.
  void SetEpoch(std::uint64_t end_order, Epoch epoch);

  // Of a kept order.
  absl::Span<const std::byte> Head(std::uint64_t order) const;
  std::uint64_t Index(std::uint64_t order) const;
  // What the n-th member gets; the sges refer to the retention.
  std::uint32_t PayloadLength(std::uint64_t order, std::size_t member) const {
    return PayloadOf(at(order), member).sge.length;
  }
  EntryPayload Payload(std::uint64_t order, std::size_t member) const;
  // A payload that was kept before its CRC was known.
  void SetCrc(std::uint64_t order, std::size_t payload, std::uint32_t crc) {
    at(order).payloads[payload].crc = crc;
  }
  // Of all payloads of a kept order, each rounded up to cells.
  std::size_t PayloadBytes(std::uint64_t order) const;
  // Copies them to memory of this lkey, which no device reads yet; gives where it goes on.
  std::byte* MovePayloads(std::uint64_t order, std::byte* to, std::uint32_t lkey);
  std::uint64_t first_kept() const { return first_kept_; }

 private:
  struct KeptPayload {
    rdma::Sge sge;
    std::uint32_t crc = 0;
    bool withheld = false;
  };
  struct alignas(64) Kept {
    std::uint32_t head_offset = 0;
    std::uint32_t head_size = 0;
    std::uint32_t payload_count = 0;
    std::array<KeptPayload, kPayloadsMax> payloads;
  };
  struct FreeBytes {
    void operator()(std::byte* bytes) const;
  };

  static const KeptPayload& PayloadOf(const Kept& kept, std::size_t member) {
    return kept.payloads[kept.payload_count == 1 ? 0 : member];
  }
  Kept& at(std::uint64_t order) { return kept_[order % kEntriesMax]; }
  const Kept& at(std::uint64_t order) const { return kept_[order % kEntriesMax]; }

  std::unique_ptr<std::byte[], FreeBytes> heads_;
  std::vector<Kept> kept_;
  std::uint64_t first_kept_ = 1;  // order
  std::uint64_t end_ = 1;         // behind the last order
  std::size_t head_first_ = 0;    // of the oldest head
  std::size_t head_next_ = 0;     // free from here on; equal to head_first_: nothing is kept
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_RETENTION_H_
