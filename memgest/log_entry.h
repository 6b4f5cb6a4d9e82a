// memgest/log_entry.h — the bytes of one log entry, shared by writer and reader.
//
// What:      An entry is header (128 bytes) | extension | payload | trailer (64 bytes). The header
// holds a key of up
//            to 24 bytes; a longer key, the expiry, the ranges of a large value, the PART fields
//            and the list of collected versions stand in the extension. header_crc covers header
//            and extension, payload_crc in the trailer covers the payload.
// Shape:     every part starts on a 64-byte boundary of the ring; an entry never wraps (PAD fills
// the end).
//            The ring position of an entry is its sequence number: the byte position of its header
//            counted from the ring's first byte ever, so that contiguity and "same place" are one
//            check.
// Units:     bytes, except where named: heap offsets and range lengths in 64-byte cells.
// Ownership: views borrow the ring's memory.
// Threads:   pure.
// Errors:    decoding gives kInvalidArgument naming the field; nothing outside the given bytes is
// read. Source:    protocol rules, section 0 (entry), E4 (valid tail), G2 (collect list), S10
// (PART, FINAL).
#ifndef RING_MEMGEST_LOG_ENTRY_H_
#define RING_MEMGEST_LOG_ENTRY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
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
  kBase = 8,  // bytes of a block for a parity that is rebuilt
  kPad = 9,   // fills the ring's end
};

inline constexpr std::uint16_t kEntryMagic = 0x4752;        // "RG"
inline constexpr std::uint32_t kTrailerMagic = 0x31474c52;  // "RLG1"
inline constexpr std::size_t kEntryHeaderSize = 128;
inline constexpr std::size_t kEntryTrailerSize = 64;
inline constexpr std::size_t kInlineKeySizeMax = 24;
inline constexpr std::size_t kPayloadSizeMax = 64 * 1024;
inline constexpr std::size_t kCollectCountMax = 16;
inline constexpr std::uint32_t kNoLine = 0xffffffff;

enum EntryFlags : std::uint8_t {
  kHasExpiry = 1,     // extension: u64
  kHasRanges = 2,     // extension: u32 count, count * Range
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

// A version whose slot the members give up. line is where its metadata stands.
struct CollectItem {
  std::uint64_t version = 0;
  std::uint32_t line = kNoLine;
  std::uint32_t reserved = 0;
};

struct EntryHeader {
  std::uint16_t magic = kEntryMagic;
  std::uint8_t size_class = 0;  // of the slot (memgest/size_class.h)
  std::uint8_t reserved = 0;
  std::uint32_t header_crc = 0;  // of header (this field as 0) and extension
  std::uint64_t position = 0;    // of this entry in this member's ring
  std::uint32_t epoch = 0;
  std::uint32_t prev_crc =
      0;  // header_crc of the entry before it in this ring; 0 at the ring's start
  std::uint64_t version = 0;
  std::uint64_t index = 0;  // in the log of (memgest, shard), dense, from 1; 0 for PAD
  std::uint16_t memgest = 0;
  EntryType type = EntryType::kPut;
  std::uint8_t flags = 0;
  std::uint16_t key_length = 0;
  std::uint8_t result_code = 0;  // of the completion record
  std::uint8_t collect_count = 0;
  std::uint32_t line = kNoLine;    // metadata line of the version
  std::uint32_t offset_cells = 0;  // heap offset of the value (PUT), of the bytes (PART, BASE)
  std::uint32_t value_length = 0;  // of the whole value
  std::uint32_t value_crc = 0;
  std::uint32_t payload_length = 0;
  std::uint16_t extension_cells = 0;
  std::uint16_t incomplete_delta = 0;  // seq - first_incomplete of the client
  ClientId client;
  std::uint64_t seq = 0;
  std::uint32_t request_crc = 0;
  std::uint32_t commit_delta =
      0;  // position - commit position of this member's ring, in 64-byte cells
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

// What an appender says of an entry; the writer adds position, prev_crc, commit_delta and
// header_crc for each member.
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

// A decoded entry: a checked copy of the header, and views into the ring.
struct EntryView {
  EntryHeader header;
  absl::string_view key;  // into header.key's source or the extension, in the ring
  std::uint64_t expiry_ns = 0;
  absl::Span<const Range> ranges;         // into the ring
  absl::Span<const CollectItem> collect;  // into the ring
  const std::byte* payload = nullptr;
  std::size_t size = 0;  // whole entry
};

// Bytes of an entry with these fields in a ring.
std::size_t EntrySize(const EntryFields& fields);

// Builds header and extension at `to` (at least EntrySize - payload - trailer bytes); gives their
// size. The fields that differ by member are left 0 for SealEntryHeader.
std::size_t BuildEntryHead(const EntryFields& fields, Epoch epoch, std::byte* to);

// Fills in what is this member's own and computes header_crc; gives it.
std::uint32_t SealEntryHead(std::byte* head, std::size_t head_size, std::uint64_t position,
                            std::uint32_t prev_crc, std::uint64_t commit_position);

// Decodes the entry at the start of `bytes`, which must be the entry at `position` of a ring of
// `epoch` behind an entry whose header_crc was prev_crc (E4). check_payload: verify payload_crc
// also. Bounds are checked before use.
absl::StatusOr<EntryView> DecodeEntry(absl::Span<const std::byte> bytes, std::uint64_t position,
                                      Epoch epoch, std::uint32_t prev_crc, bool check_payload);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_ENTRY_H_
