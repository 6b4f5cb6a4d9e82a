// memgest/log_entry.h — the bytes of one log entry, shared by writer and reader.
//
// What:      An entry is header | extension | payload | trailer. header_crc covers header and
//            extension, payload_crc in the trailer covers the payload.
// Shape:     offset                 bytes             part
//            0                      128               EntryHeader
//            128                    64 * e            extension, e = extension_cells
//            128 + 64 e             p                 payload, p = payload_length
//            ...                    up to 63          zeros, to the next multiple of 64
//            128 + 64 e + up64(p)   64                EntryTrailer
//            The extension holds, in this order, each item at a multiple of 8, zeros behind:
//            8                      if kHasExpiry     u64 expiry_ns
//            8 + 8 n                if kHasRanges     u32 n, u32 zero, n * Range
//            16 c                   if c > 0          c * CollectItem, c = collect_count
//            key_length             if it is > 24     the key (else it stands in the header)
//            Every entry starts at a multiple of 64 of the ring and never wraps. When the next
//            does not fit before the ring's end, a PAD fills it: header and payload_length
//            arbitrary bytes, no trailer. When fewer than a header's 128 bytes are left there (64,
//            then), both ends skip them without an entry: NextEntryPosition.
//            The position of an entry is its sequence number: the byte position of its header
//            counted from the ring's first byte ever, so that contiguity and "same place" are one
//            check.
// Units:     bytes, except where named: heap offsets and range lengths in 64-byte cells. All
//            integers are little-endian.
// Ownership: views borrow the ring's memory.
// Threads:   pure.
// Errors:    decoding gives kInvalidArgument naming the field; nothing outside the given bytes is
//            read, whatever they hold.
// Cost:      no allocation unless decoding fails.
// Source:    docs/PROTOCOL.md "Entry"; rules E4 (valid tail), G2 (collect list), S10 (PART,
//            FINAL).
#ifndef RING_MEMGEST_LOG_ENTRY_H_
#define RING_MEMGEST_LOG_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/base/align.h"
#include "ring/base/id.h"

namespace ring::memgest {

// Travels: never renumber.
enum class EntryType : std::uint8_t {
  kPut = 1,
  kPart = 2,   // bytes of a large value: folded, invisible
  kFinal = 3,  // makes a large value visible: lists all its ranges
  kTombstone = 4,
  kCollect = 5,  // nothing but a collect list
  kRecord = 6,   // a completion record alone
  kExpireRecord = 7,
  // What a block holds in the range of value_length bytes at offset_cells, already multiplied, for
  // parities that are rebuilt (S6); without a payload it is zero there. version: the last index
  // that touched the block. For all others value_length is 0, and the entry says nothing.
  kBase = 8,
  kPad = 9,       // fills the ring's end
  kRelease = 10,  // nobody's bytes: the range reads as zero from here on, and takes no memory
};

inline constexpr std::uint16_t kEntryMagic = 0x4752;        // "RG"
inline constexpr std::uint32_t kTrailerMagic = 0x31474c52;  // "RLG1"
inline constexpr std::size_t kEntryHeaderSize = 128;
inline constexpr std::size_t kEntryTrailerSize = 64;
inline constexpr std::size_t kEntryAlignment = 64;
inline constexpr std::size_t kInlineKeySizeMax = 24;
inline constexpr std::size_t kEntryKeySizeMax = 1024;
inline constexpr std::size_t kPayloadSizeMax = 64 * 1024;
inline constexpr std::size_t kCollectCountMax = 16;
inline constexpr std::size_t kRangeCountMax = 1024;
inline constexpr std::uint32_t kNoLine = 0xffffffff;

// Travels: never renumber.
enum EntryFlags : std::uint8_t {
  kHasExpiry = 1,     // extension: u64, not 0
  kHasRanges = 2,     // extension: u32 count, not 0, u32 zero, count * Range
  kExplicitMove = 4,  // a move asked for by a user: collects all lower versions (G1)
};

// 128 random bits of a client; zero: the entry carries no completion record.
struct ClientId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const ClientId&, const ClientId&) = default;
  bool empty() const { return high == 0 && low == 0; }
  template <class H>
  friend H AbslHashValue(H h, const ClientId& id) {
    return H::combine(std::move(h), id.high, id.low);
  }
};

struct Range {
  std::uint32_t offset_cells = 0;
  std::uint32_t length_cells = 0;
};
static_assert(sizeof(Range) == 8);

// A version whose slot the members give up (G2). line is where its metadata stands.
struct CollectItem {
  std::uint64_t version = 0;
  std::uint32_t line = kNoLine;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(CollectItem) == 16);

// The largest header and extension that an entry can have.
inline constexpr std::size_t kEntryHeadSizeMax =
    kEntryHeaderSize + AlignUp(8 + 8 + kRangeCountMax * sizeof(Range) +
                                   kCollectCountMax * sizeof(CollectItem) + kEntryKeySizeMax,
                               kEntryAlignment);

struct EntryHeader {
  std::uint16_t magic = kEntryMagic;
  std::uint8_t size_class = 0;  // of the slot (memgest/size_class.h)
  std::uint8_t reserved = 0;
  std::uint32_t header_crc = 0;  // of header (this field as 0) and extension
  std::uint64_t position = 0;    // of this entry in this member's ring
  std::uint32_t epoch = 0;
  std::uint32_t prev_crc = 0;  // header_crc of the entry before it in this ring; 0 at the start
  std::uint64_t version = 0;
  std::uint64_t index = 0;  // in the log of (memgest, shard), dense, from 1; 0 for PAD
  std::uint16_t memgest = 0;
  EntryType type = EntryType::kPut;
  std::uint8_t flags = 0;
  std::uint16_t key_length = 0;
  std::uint8_t result_code = 0;  // of the completion record
  std::uint8_t collect_count = 0;
  std::uint32_t line = kNoLine;    // metadata line of the version
  std::uint32_t offset_cells = 0;  // heap offset of the value (PUT), of the bytes (others)
  std::uint32_t value_length = 0;  // of the whole value; of the range (RELEASE, BASE)
  std::uint32_t value_crc = 0;
  std::uint32_t payload_length = 0;
  std::uint16_t extension_cells = 0;
  std::uint16_t incomplete_delta = 0;  // seq - first_incomplete of the client
  ClientId client;
  std::uint64_t seq = 0;
  std::uint32_t request_crc = 0;
  // position - commit position of this member's ring, in 64-byte cells, when it was appended. For
  // people who read a dump: members learn the commit position from the control word alone.
  std::uint32_t commit_delta = 0;
  char key[kInlineKeySizeMax] = {};
};
static_assert(sizeof(EntryHeader) == kEntryHeaderSize);

struct EntryTrailer {
  std::uint64_t position = 0;
  std::uint32_t payload_crc = 0;
  std::uint32_t magic = kTrailerMagic;
  std::uint8_t reserved[48] = {};
};
static_assert(sizeof(EntryTrailer) == kEntryTrailerSize);

// What an appender says of an entry; the writer adds what differs by member: position, prev_crc,
// commit_delta and header_crc.
struct EntryFields {
  EntryType type = EntryType::kPut;
  MemgestId memgest;
  std::uint64_t index = 0;
  Version version;
  absl::string_view key;
  std::uint32_t line = kNoLine;
  std::uint8_t size_class = 0;
  std::uint32_t offset_cells = 0;
  std::uint32_t value_length = 0;
  std::uint32_t value_crc = 0;
  std::uint64_t expiry_ns = 0;
  std::uint8_t flags = 0;  // kExplicitMove; the others follow from the fields
  absl::Span<const Range> ranges;
  absl::Span<const CollectItem> collect;
  ClientId client;
  std::uint64_t seq = 0;
  std::uint16_t incomplete_delta = 0;
  std::uint32_t request_crc = 0;
  std::uint8_t result_code = 0;
  std::uint32_t payload_length = 0;
};

// A decoded entry: a checked copy of the header, and views into the ring. All sizes come from the
// checked copy, so that no view leaves the entry even if a peer writes under it.
struct EntryView {
  EntryHeader header;
  absl::string_view key;  // into the ring: the header's place or the extension's
  std::uint64_t expiry_ns = 0;
  absl::Span<const Range> ranges;         // into the ring
  absl::Span<const CollectItem> collect;  // into the ring
  const std::byte* payload = nullptr;     // header.payload_length bytes
  std::uint32_t payload_crc = 0;          // what they must have, as the trailer says
  std::size_t size = 0;                   // whole entry
};

// Bytes of an entry with these fields in a ring; for a PAD, of header and fill.
std::size_t EntrySize(const EntryFields& fields);

// Builds header and extension at `to` (room for kEntryHeadSizeMax, or exactly what EntrySize gives
// for payload_length 0, less the trailer); gives their size. The fields that differ by member are
// left 0 for SealEntryHead. REQUIRES: `to` is 8-aligned; index > 0 unless PAD; key, ranges, collect
// and payload within their limits; the key of a PUT, FINAL or TOMBSTONE is not empty; a PAD has
// nothing but memgest and payload_length.
std::size_t BuildEntryHead(const EntryFields& fields, Epoch epoch, std::byte* to);

// Copies the head to `to`, with what is this member's own and header_crc filled in; gives the
// latter. `to` may be `head`, and overlaps it in no other way; both are 8-aligned.
std::uint32_t SealEntryHead(const std::byte* head, std::size_t head_size, std::uint64_t position,
                            std::uint32_t prev_crc, std::uint64_t commit_position, std::byte* to);

// Of the head of a BASE, not sealed yet: makes it the one for members that it is not for.
void MakeBareBase(std::byte* head);

// Decodes the entry at the start of `bytes`, which must be the entry at `position` of a ring of
// `epoch` behind an entry whose header_crc was prev_crc (E4). check_payload: verify payload_crc
// also. Bounds are checked before use. REQUIRES: bytes.data() is 8-aligned.
absl::StatusOr<EntryView> DecodeEntry(absl::Span<const std::byte> bytes, std::uint64_t position,
                                      Epoch epoch, std::uint32_t prev_crc, bool check_payload);
// The same into a view of the caller's, which holds nothing of use after an error: readers that
// look at many entries copy none.
absl::Status DecodeEntryTo(absl::Span<const std::byte> bytes, std::uint64_t position, Epoch epoch,
                           std::uint32_t prev_crc, bool check_payload, EntryView* view);
// For an entry that was decoded without check_payload: whether its payload, whose CRC is crc, is
// what was appended (E4).
absl::Status CheckPayload(const EntryView& view, std::uint32_t crc);

// The bytes of a decoded entry, in the ring. REQUIRES: not a PAD's.
inline absl::Span<const std::byte> EntryBytes(const EntryView& view) {
  const std::size_t head =
      kEntryHeaderSize + std::size_t{view.header.extension_cells} * kEntryAlignment;
  return {view.payload - head, view.size};
}

// Where the entry stands that follows one of `size` bytes which ends `left` bytes before the end of
// the ring: behind it, or at the ring's start if no header fits there.
constexpr std::uint64_t NextEntryPosition(std::uint64_t position, std::size_t size,
                                          std::size_t left) {
  return position + size + (left < kEntryHeaderSize ? left : 0);
}

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_ENTRY_H_
