#include "memgest/log_entry.h"

#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"

// What is checked is what is used, although the peer's device writes the memory that is decoded:
//  * Header, range count and expiry are copied once (CopyOnce: the compiler may not read again) and
//    only the copies are looked at afterwards, so no view can leave the entry.
//  * Key, ranges, collect list and payload are views of bytes that a CRC covered. They cannot
//    change behind it: the coordinator writes each position once and comes back to a place only
//    when the member's credit went past it (E5); a deposed one is shut out before its ring is
//    scanned (L5). A write that is torn, or still under way, gives other bytes than those summed at
//    the coordinator: header_crc, the position in header and trailer, or payload_crc tells.
//  * The coordinator is trusted to mean what it sealed, not to have delivered it.

namespace ring::memgest {
namespace {

static_assert(std::endian::native == std::endian::little, "entries travel as they stand in memory");

constexpr std::uint8_t kKnownFlags = kHasExpiry | kHasRanges | kExplicitMove;
constexpr std::size_t kItemAlignment = 8;
constexpr std::size_t kRangeCountSize = 8;
// From here on the crc32 instruction alone is slower than carry-less multiplication.
constexpr std::size_t kShortHead = 256;

template <class T>
void CopyOnce(T* to, const std::byte* from) {
  std::memcpy(to, from, sizeof(T));
  __asm__("" : "+m"(*to));
}

// A head is made, sealed and copied within a few instructions, so that each step reads what the one
// before it stored while that is still on its way to the caches. A load that is wider than the
// stores it looks for waits until they have arrived, and with them the value's bytes before them:
// here everything goes by words of 8 bytes.
using HeaderWords = std::array<std::uint64_t, kEntryHeaderSize / sizeof(std::uint64_t)>;
constexpr std::size_t kEpochWord = 2;    // epoch, prev_crc
constexpr std::size_t kCommitWord = 12;  // request_crc, commit_delta
static_assert(
    offsetof(EntryHeader, header_crc) == 4 && offsetof(EntryHeader, position) == 8 &&
    offsetof(EntryHeader, epoch) == 8 * kEpochWord &&
    offsetof(EntryHeader, prev_crc) == 8 * kEpochWord + 4 && offsetof(EntryHeader, version) == 24 &&
    offsetof(EntryHeader, index) == 32 && offsetof(EntryHeader, memgest) == 40 &&
    offsetof(EntryHeader, type) == 42 && offsetof(EntryHeader, flags) == 43 &&
    offsetof(EntryHeader, key_length) == 44 && offsetof(EntryHeader, result_code) == 46 &&
    offsetof(EntryHeader, collect_count) == 47 && offsetof(EntryHeader, line) == 48 &&
    offsetof(EntryHeader, value_length) == 56 && offsetof(EntryHeader, payload_length) == 64 &&
    offsetof(EntryHeader, extension_cells) == 68 && offsetof(EntryHeader, incomplete_delta) == 70 &&
    offsetof(EntryHeader, client) == 72 && offsetof(EntryHeader, seq) == 88 &&
    offsetof(EntryHeader, request_crc) == 8 * kCommitWord && offsetof(EntryHeader, key) == 104);

constexpr std::uint64_t Pack(std::uint32_t low, std::uint32_t high) {
  return low | std::uint64_t{high} << 32;
}
std::uint64_t LoadWord(const std::byte* from, std::size_t index) {
  std::uint64_t word;
  std::memcpy(&word, from + index * sizeof(word), sizeof(word));
  __asm__("" : "+r"(word));  // the compiler would make one wide load of several
  return word;
}
void StoreWord(std::byte* to, std::size_t index, std::uint64_t word) {
  std::memcpy(to + index * sizeof(word), &word, sizeof(word));
}

bool NeedsKey(EntryType type) {
  return type == EntryType::kPut || type == EntryType::kFinal || type == EntryType::kTombstone;
}

struct ExtensionShape {
  bool expiry = false;
  std::size_t range_count = 0;
  std::size_t collect_count = 0;
  std::size_t key_length = 0;

  std::size_t ranges_offset() const { return expiry ? sizeof(std::uint64_t) : 0; }
  std::size_t collect_offset() const {
    return ranges_offset() + (range_count > 0 ? kRangeCountSize + range_count * sizeof(Range) : 0);
  }
  std::size_t key_offset() const { return collect_offset() + collect_count * sizeof(CollectItem); }
  std::size_t size() const {
    return AlignUp(key_offset() + (key_length > kInlineKeySizeMax ? key_length : 0),
                   kEntryAlignment);
  }
};
static_assert(sizeof(Range) % kItemAlignment == 0 && sizeof(CollectItem) % kItemAlignment == 0);

ExtensionShape ShapeOf(const EntryFields& fields) {
  return {.expiry = fields.expiry_ns != 0,
          .range_count = fields.ranges.size(),
          .collect_count = fields.collect.size(),
          .key_length = fields.key.size()};
}

std::uint32_t HeadCrc(const EntryHeader& header, const std::byte* extension, std::size_t size) {
  // The word that header_crc stands in is summed apart, so that the header need not be copied.
  constexpr std::size_t kCrcOffset = offsetof(EntryHeader, header_crc);
  static_assert(kCrcOffset == 4);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&header);
  std::uint64_t first = 0;
  std::memcpy(&first, bytes, kCrcOffset);
  std::uint32_t crc = Crc32cHeader(&first, sizeof(first));
  crc = Crc32cHeader(bytes + sizeof(first), sizeof(header) - sizeof(first), crc);
  if (size == 0) return crc;
  return size <= kShortHead - sizeof(header) ? Crc32cHeader(extension, size, crc)
                                             : Crc32c(extension, size, crc);
}

template <class... Args>
[[gnu::cold, gnu::noinline]] absl::Status Refuse(const EntryHeader& header,
                                                 const absl::FormatSpec<Args...>& format,
                                                 const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(absl::StrFormat(format, args...),
                                                 " in log entry position=", header.position,
                                                 " index=", header.index));
}

// The fields of the header that can be judged without knowing the ring.
absl::Status CheckHeader(const EntryHeader& header) {
  const auto type = static_cast<unsigned>(header.type);
  if (header.reserved != 0) return Refuse(header, "reserved=%d is not 0", header.reserved);
  if (type < static_cast<unsigned>(EntryType::kPut) ||
      type > static_cast<unsigned>(EntryType::kRelease)) {
    return Refuse(header, "type=%d is unknown", type);
  }
  if ((header.flags & ~kKnownFlags) != 0) {
    return Refuse(header, "flags=%#x has unknown bits", header.flags);
  }
  if (header.collect_count > kCollectCountMax) {
    return Refuse(header, "collect_count=%d is above %d", header.collect_count, kCollectCountMax);
  }
  if (header.key_length > kEntryKeySizeMax) {
    return Refuse(header, "key_length=%d is above %d", header.key_length, kEntryKeySizeMax);
  }
  if (NeedsKey(header.type) && header.key_length == 0) {
    return Refuse(header, "key_length=0 with type=%d", type);
  }
  if (std::uint64_t{header.commit_delta} * kEntryAlignment > header.position) {
    return Refuse(header, "commit_delta=%d lies before the ring's start", header.commit_delta);
  }
  if (header.type == EntryType::kPad) {
    if (header.index != 0 || header.flags != 0 || header.collect_count != 0 ||
        header.key_length != 0 || header.extension_cells != 0) {
      return Refuse(header, "a PAD has more than a length, flags=%#x", header.flags);
    }
    if (!IsAligned(header.payload_length, kEntryAlignment)) {
      return Refuse(header, "payload_length=%d of a PAD is not a multiple of 64",
                    header.payload_length);
    }
    return absl::OkStatus();
  }
  if (header.index == 0) return Refuse(header, "index=0 with type=%d", type);
  if (header.payload_length > kPayloadSizeMax) {
    return Refuse(header, "payload_length=%d is above %d", header.payload_length, kPayloadSizeMax);
  }
  return absl::OkStatus();
}

// Cuts the extension into its items. The bytes given are exactly the extension.
absl::Status DecodeExtension(absl::Span<const std::byte> extension, const std::byte* entry,
                             EntryView* view) {
  const EntryHeader& header = view->header;
  ExtensionShape shape{.expiry = (header.flags & kHasExpiry) != 0,
                       .collect_count = header.collect_count,
                       .key_length = header.key_length};
  if ((header.flags & kHasRanges) != 0) {
    if (extension.size() < shape.ranges_offset() + kRangeCountSize) {
      return Refuse(header, "extension_cells=%d holds no range count", header.extension_cells);
    }
    std::uint32_t words[2];
    CopyOnce(&words, extension.data() + shape.ranges_offset());
    if (words[0] == 0 || words[0] > kRangeCountMax || words[1] != 0) {
      return Refuse(header, "range_count=%d is not in 1..%d, or reserved=%d", words[0],
                    kRangeCountMax, words[1]);
    }
    shape.range_count = words[0];
  }
  if (shape.size() != extension.size()) {
    return Refuse(header, "extension_cells=%d, but its items take %d bytes", header.extension_cells,
                  shape.size());
  }
  if (shape.expiry) {
    CopyOnce(&view->expiry_ns, extension.data());
    if (view->expiry_ns == 0) return Refuse(header, "expiry=0 is flagged as present");
  }
  if (shape.range_count > 0) {
    view->ranges = absl::MakeConstSpan(
        reinterpret_cast<const Range*>(extension.data() + shape.ranges_offset() + kRangeCountSize),
        shape.range_count);
  }
  if (shape.collect_count > 0) {
    view->collect = absl::MakeConstSpan(
        reinterpret_cast<const CollectItem*>(extension.data() + shape.collect_offset()),
        shape.collect_count);
    for (const CollectItem& item : view->collect) {
      if (item.reserved != 0) return Refuse(header, "collect reserved=%d is not 0", item.reserved);
    }
  }
  const std::byte* key = shape.key_length > kInlineKeySizeMax
                             ? extension.data() + shape.key_offset()
                             : entry + offsetof(EntryHeader, key);
  view->key = absl::string_view(reinterpret_cast<const char*>(key), shape.key_length);
  return absl::OkStatus();
}

absl::Status CheckTrailer(const std::byte* trailer_bytes, bool check_payload, EntryView* view) {
  EntryTrailer trailer;
  CopyOnce(&trailer, trailer_bytes);
  constexpr std::size_t kReservedWords = sizeof(trailer.reserved) / sizeof(std::uint64_t);
  std::array<std::uint64_t, kReservedWords> reserved;
  static_assert(sizeof(reserved) == sizeof(trailer.reserved));
  std::memcpy(reserved.data(), trailer.reserved, sizeof(reserved));
  std::uint64_t any_reserved = 0;
  for (const std::uint64_t word : reserved) any_reserved |= word;
  if (trailer.magic != kTrailerMagic) {
    return Refuse(view->header, "trailer magic=%#x", trailer.magic);
  }
  if (trailer.position != view->header.position) {
    return Refuse(view->header, "trailer position=%d", trailer.position);
  }
  if (any_reserved != 0) return Refuse(view->header, "trailer reserved=%#x is not 0", any_reserved);
  view->payload_crc = trailer.payload_crc;
  return check_payload ? CheckPayload(*view, Crc32c(view->payload, view->header.payload_length))
                       : absl::OkStatus();
}

void CheckFields(const EntryFields& fields) {
  RING_CHECK(fields.key.size() <= kEntryKeySizeMax) << "key_length=" << fields.key.size();
  RING_CHECK(!NeedsKey(fields.type) || !fields.key.empty()) << "index=" << fields.index;
  RING_CHECK(fields.ranges.size() <= kRangeCountMax) << "ranges=" << fields.ranges.size();
  RING_CHECK(fields.collect.size() <= kCollectCountMax) << "collect=" << fields.collect.size();
  RING_CHECK((fields.flags & ~kExplicitMove) == 0) << "flags=" << int{fields.flags};
  if (fields.type == EntryType::kPad) {
    RING_CHECK(IsAligned(fields.payload_length, kEntryAlignment)) << fields.payload_length;
    RING_CHECK(fields.index == 0 && fields.flags == 0 && fields.key.empty() &&
               ShapeOf(fields).size() == 0)
        << "a PAD has only a length";
    return;
  }
  RING_CHECK(fields.index > 0) << "type=" << static_cast<int>(fields.type);
  RING_CHECK(fields.payload_length <= kPayloadSizeMax) << "length=" << fields.payload_length;
}

}  // namespace

std::size_t EntrySize(const EntryFields& fields) {
  if (fields.type == EntryType::kPad) return kEntryHeaderSize + fields.payload_length;
  return kEntryHeaderSize + ShapeOf(fields).size() +
         AlignUp(fields.payload_length, kEntryAlignment) + kEntryTrailerSize;
}

std::size_t BuildEntryHead(const EntryFields& fields, Epoch epoch, std::byte* to) {
  CheckFields(fields);
  const ExtensionShape shape = ShapeOf(fields);
  const std::size_t extension_size = shape.size();
  const unsigned flags = fields.flags | (shape.expiry ? unsigned{kHasExpiry} : 0U) |
                         (shape.range_count > 0 ? unsigned{kHasRanges} : 0U);
  HeaderWords words{};
  words[0] = kEntryMagic | std::uint64_t{fields.size_class} << 16;
  words[kEpochWord] = epoch.value();
  words[3] = fields.version.bits();
  words[4] = fields.index;
  words[5] = fields.memgest.value() | static_cast<std::uint64_t>(fields.type) << 16 |
             std::uint64_t{flags} << 24 | std::uint64_t{fields.key.size()} << 32 |
             std::uint64_t{fields.result_code} << 48 | std::uint64_t{fields.collect.size()} << 56;
  words[6] = Pack(fields.line, fields.offset_cells);
  words[7] = Pack(fields.value_length, fields.value_crc);
  words[8] = fields.payload_length | std::uint64_t{extension_size / kEntryAlignment} << 32 |
             std::uint64_t{fields.incomplete_delta} << 48;
  words[9] = fields.client.high;
  words[10] = fields.client.low;
  words[11] = fields.seq;
  words[kCommitWord] = fields.request_crc;
  std::memcpy(to, words.data(), sizeof(words));
  if (!fields.key.empty() && fields.key.size() <= kInlineKeySizeMax) {
    std::memcpy(to + offsetof(EntryHeader, key), fields.key.data(), fields.key.size());
  }
  if (extension_size == 0) return kEntryHeaderSize;

  std::byte* extension = to + kEntryHeaderSize;
  std::memset(extension, 0, extension_size);
  if (shape.expiry) std::memcpy(extension, &fields.expiry_ns, sizeof(fields.expiry_ns));
  if (shape.range_count > 0) {
    std::byte* at = extension + shape.ranges_offset();
    const auto count = static_cast<std::uint32_t>(shape.range_count);
    std::memcpy(at, &count, sizeof(count));
    std::memcpy(at + kRangeCountSize, fields.ranges.data(), shape.range_count * sizeof(Range));
  }
  if (shape.collect_count > 0) {
    std::memcpy(extension + shape.collect_offset(), fields.collect.data(),
                shape.collect_count * sizeof(CollectItem));
  }
  if (shape.key_length > kInlineKeySizeMax) {
    std::memcpy(extension + shape.key_offset(), fields.key.data(), shape.key_length);
  }
  return kEntryHeaderSize + extension_size;
}

void MakeBareBase(std::byte* head) {
  constexpr std::uint32_t kNothing = 0;
  std::memcpy(head + offsetof(EntryHeader, value_length), &kNothing, sizeof(kNothing));
  std::memcpy(head + offsetof(EntryHeader, payload_length), &kNothing, sizeof(kNothing));
}

std::uint32_t SealEntryHead(const std::byte* head, std::size_t head_size, std::uint64_t position,
                            std::uint32_t prev_crc, std::uint64_t commit_position, std::byte* to) {
  RING_CHECK(head_size >= kEntryHeaderSize && IsAligned(head_size, kEntryAlignment))
      << "head_size=" << head_size;
  RING_CHECK(commit_position <= position)
      << "commit_position=" << commit_position << " position=" << position;
  for (std::size_t i = 0; i < head_size / sizeof(std::uint64_t); ++i) {
    StoreWord(to, i, LoadWord(head, i));
  }
  const auto commit_delta =
      static_cast<std::uint32_t>((position - commit_position) / kEntryAlignment);
  const std::uint64_t first = static_cast<std::uint32_t>(LoadWord(head, 0));
  StoreWord(to, 0, first);
  StoreWord(to, 1, position);
  StoreWord(to, kEpochWord, Pack(static_cast<std::uint32_t>(LoadWord(head, kEpochWord)), prev_crc));
  StoreWord(to, kCommitWord,
            Pack(static_cast<std::uint32_t>(LoadWord(head, kCommitWord)), commit_delta));
  const std::uint32_t crc =
      head_size <= kShortHead ? Crc32cHeader(to, head_size) : Crc32c(to, head_size);
  StoreWord(to, 0, first | std::uint64_t{crc} << 32);
  return crc;
}

absl::StatusOr<EntryView> DecodeEntry(absl::Span<const std::byte> bytes, std::uint64_t position,
                                      Epoch epoch, std::uint32_t prev_crc, bool check_payload) {
  EntryView view;
  if (absl::Status status = DecodeEntryTo(bytes, position, epoch, prev_crc, check_payload, &view);
      !status.ok()) {
    return status;
  }
  return view;
}

absl::Status DecodeEntryTo(absl::Span<const std::byte> bytes, std::uint64_t position, Epoch epoch,
                           std::uint32_t prev_crc, bool check_payload, EntryView* view) {
  RING_CHECK(IsAligned(reinterpret_cast<std::uintptr_t>(bytes.data()), kItemAlignment));
  if (bytes.size() < kEntryHeaderSize) {
    return absl::InvalidArgumentError(
        absl::StrFormat("log entry position=%d: size=%d holds no header", position, bytes.size()));
  }
  EntryHeader& header = view->header;
  CopyOnce(&header, bytes.data());
  view->key = {};
  view->expiry_ns = 0;
  view->ranges = {};
  view->collect = {};
  if (header.magic != kEntryMagic) return Refuse(header, "magic=%#x", header.magic);
  if (header.position != position) return Refuse(header, "expected position=%d", position);
  if (header.epoch != epoch.value() && !Mutant("E4-epoch")) {
    return Refuse(header, "epoch=%d, the ring has epoch=%d", header.epoch, epoch.value());
  }
  if (header.prev_crc != prev_crc && !Mutant("E4-chain")) {
    return Refuse(header, "prev_crc=%#x, the entry before has %#x", header.prev_crc, prev_crc);
  }
  if (absl::Status status = CheckHeader(header); !status.ok()) return status;

  const bool pad = header.type == EntryType::kPad;
  const std::size_t extension_size = std::size_t{header.extension_cells} * kEntryAlignment;
  const std::size_t head_size = kEntryHeaderSize + extension_size;
  const std::size_t payload_size = AlignUp(header.payload_length, kEntryAlignment);
  view->size = head_size + payload_size + (pad ? 0 : kEntryTrailerSize);
  if (view->size > bytes.size()) {
    return Refuse(header, "size=%d, but size=%d is there", view->size, bytes.size());
  }
  const std::byte* extension = bytes.data() + kEntryHeaderSize;
  const std::uint32_t crc = HeadCrc(header, extension, extension_size);
  if (crc != header.header_crc) {
    return Refuse(header, "header_crc=%#x, the header has %#x", header.header_crc, crc);
  }
  view->payload = bytes.data() + head_size;
  if (pad) return absl::OkStatus();
  if (absl::Status status =
          DecodeExtension(absl::MakeConstSpan(extension, extension_size), bytes.data(), view);
      !status.ok()) {
    return status;
  }
  return CheckTrailer(view->payload + payload_size, check_payload, view);
}

absl::Status CheckPayload(const EntryView& view, std::uint32_t crc) {
  if (crc == view.payload_crc) return absl::OkStatus();
  return Refuse(view.header, "payload_crc=%#x, the payload has %#x", view.payload_crc, crc);
}

}  // namespace ring::memgest
