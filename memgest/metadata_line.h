// memgest/metadata_line.h — the hot part of one version's metadata: one cache line.
//
// What:      (key, version) -> where its value is, how long, its CRC, its flags. The same 64 bytes,
//            at the same line number, on the coordinator and on every member of the version's
//            memgest.
// Shape:     64 bytes; version 0: the line is free. prev is the coordinator's alone: the line of
//            the next lower version of the key, in whatever memgest. Large values (kLarge) keep
//            their ranges beside the table (LineTable::Ranges).
// Units:     offset in 64-byte cells of the heap of (memgest, shard).
// Threads:   one, the node's.
// Errors:    none.
// Source:    Ring section 5.1 (metadata hashtable); docs/GLOSSARY.md.
#ifndef RING_MEMGEST_METADATA_LINE_H_
#define RING_MEMGEST_METADATA_LINE_H_

#include <cstdint>

#include "memgest/log_entry.h"

namespace ring::memgest {

enum LineFlags : std::uint8_t {
  kLive = 1,       // holds a version (appended at the coordinator; folded at a member)
  kCommitted = 2,  // the version is committed; members fold only what is, so there it is always set
  kTombstone = 4,
  kLarge = 8,        // ranges beside the table
  kCollecting = 16,  // coordinator: its collection waits or is appended; in the chain until then
  kExplicit = 32,    // came from an explicit move: collects all lower versions (G1)
  kSuperseded = 64,  // coordinator: a higher version of the key was appended
  kAbsent = 128,     // the value is not on this node yet (S5): the line came by a snapshot
};

// Of a shard, in every table that holds it: its coordinator's, its members', and that of whoever
// takes it over.
inline constexpr std::uint32_t kLineCountMax = 1u << 26;

struct MetadataLine {
  std::uint64_t version = 0;
  std::uint32_t value_crc = 0;
  std::uint32_t value_length = 0;
  std::uint64_t expiry_ns = 0;  // reserved: 0, as nothing sets one (V10)
  std::uint32_t offset_cells = 0;
  std::uint32_t prev = kNoLine;
  std::uint16_t key_length = 0;
  std::uint16_t memgest = 0;
  std::uint8_t flags = 0;
  std::uint8_t size_class = 0;
  std::uint16_t pins = 0;  // coordinator: sends, waiters, moves that refer to the slot (V6)
  // Keys of up to 24 bytes; longer: u64 handle in the table's key heap, then the first 16 bytes.
  char key[kInlineKeySizeMax] = {};
};
static_assert(sizeof(MetadataLine) == 64);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_METADATA_LINE_H_
