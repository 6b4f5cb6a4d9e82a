// rdma/soft/control_layout.h — what stands in the shared pages in front of a device's arena.
//
// What:      ControlPage (owner mutex, sleep and attention words, region table, completion-queue
//            cells) and Mailbox (receive queue of one queue pair). Shared by the owner and its
//            mapped peers: never renumber, change kLayoutVersion with any change.
// Shape:     mapping = [ControlPage][mailboxes][pad to 2 MiB][arena].
// Units:     offsets and lengths in bytes; region offsets count from the arena's start.
// Threads:   the owner writes regions, sleep, posted and receives; the peer of a mailbox writes
//            its arrivals; any peer sets attention, ready bits and clears armed.
// Errors:    nobody trusts what it reads here: every field is copied once, then checked against
//            private state.
#ifndef RING_RDMA_SOFT_CONTROL_LAYOUT_H_
#define RING_RDMA_SOFT_CONTROL_LAYOUT_H_

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/base/align.h"

namespace ring::rdma::soft {

inline constexpr std::uint64_t kLayoutMagic = 0x52494e4753484d31;  // "RINGSHM1"
inline constexpr std::uint32_t kLayoutVersion = 2;
inline constexpr std::uint64_t kArenaAlignment = std::uint64_t{2} << 20;

// A key is (generation << kRegionIndexBits) | index. Generation 0 is never used, so that no key is
// 0.
inline constexpr std::uint32_t kRegionIndexBits = 12;
inline constexpr std::uint32_t kRegionCountMax = 1u << kRegionIndexBits;
inline constexpr std::uint32_t kRegionIndexMask = kRegionCountMax - 1;
inline constexpr std::uint32_t kGenerationMax = (1u << (32 - kRegionIndexBits)) - 1;

inline constexpr std::uint32_t kCqCountMax = 256;
inline constexpr std::uint32_t kRecvSgeMax = 4;

struct alignas(32) RegionEntry {
  std::atomic<std::uint32_t> key;  // the present rkey; 0: no peer may touch the region
  std::atomic<std::uint32_t> access;
  std::atomic<std::uint64_t> offset;
  std::atomic<std::uint64_t> length;
};

struct alignas(kCacheLine) CqCell {
  std::atomic<std::uint64_t> ready;  // bit (mailbox index mod 64): the mailbox has an arrival
  std::atomic<std::uint32_t> armed;
};

struct ControlPage {
  std::uint64_t magic;
  std::uint32_t version;
  // Rule L5: held for life by the owner's thread; the kernel marks it when that thread dies.
  alignas(kCacheLine) pthread_mutex_t owner;
  // Which sleep the owner is in (QueuePair::PeerSleep); 0: none.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleep;
  // A peer reset a queue pair, or wrote to the inbox.
  alignas(kCacheLine) std::atomic<std::uint32_t> attention;
  CqCell cqs[kCqCountMax];
  RegionEntry regions[kRegionCountMax];
};

// One posted receive, for the peer to scatter into.
struct SharedReceive {
  std::atomic<std::uint32_t> segment_count;
  std::uint32_t unused;
  struct Segment {
    std::atomic<std::uint64_t> offset;
    std::atomic<std::uint64_t> length;
  } segments[kRecvSgeMax];
};

// One arrival. stamp is stored last; it is the count of arrivals including this one, so it is never
// 0 twice in a row.
struct alignas(32) SharedArrival {
  std::atomic<std::uint32_t> stamp;
  // Of the mailbox: a late writer of an older connection is not heard.
  std::atomic<std::uint32_t> key;
  std::atomic<std::uint32_t> byte_len;
  std::atomic<std::uint32_t> imm;
  std::atomic<std::uint8_t> status;
  std::atomic<std::uint8_t> opcode;
  std::atomic<std::uint8_t> has_imm;
};

struct MailboxHeader {
  alignas(kCacheLine) std::atomic<std::uint32_t> open_key;  // 0: reset; the peer's requests fail
  // Receives posted since the mailbox was opened.
  alignas(kCacheLine) std::atomic<std::uint64_t> posted;
};

// The bytes of a mailbox for `depth` receives: header, receives, arrivals.
constexpr std::size_t ReceivesOffset() { return AlignUp(sizeof(MailboxHeader), kCacheLine); }
constexpr std::size_t ArrivalsOffset(std::size_t depth) {
  return AlignUp(ReceivesOffset() + depth * sizeof(SharedReceive), kCacheLine);
}
constexpr std::size_t MailboxSize(std::size_t depth) {
  return AlignUp(ArrivalsOffset(depth) + depth * sizeof(SharedArrival), 4096);
}

// Where things stand in a mapping; travels in the handshake.
struct MappingLayout {
  std::uint64_t mailbox_offset = 0;
  std::uint64_t mailbox_stride = 0;
  std::uint64_t mailbox_count = 0;
  std::uint64_t arena_offset = 0;
  std::uint64_t arena_size = 0;
  std::uint64_t total_size() const { return arena_offset + arena_size; }
};

// Two processes may be of different builds: as docs/PROTOCOL.md has them, "The shm link".
static_assert(sizeof(RegionEntry) == 32 && offsetof(RegionEntry, key) == 0 &&
              offsetof(RegionEntry, access) == 4 && offsetof(RegionEntry, offset) == 8 &&
              offsetof(RegionEntry, length) == 16);
static_assert(sizeof(CqCell) == 64 && offsetof(CqCell, ready) == 0 && offsetof(CqCell, armed) == 8);
static_assert(sizeof(ControlPage) == 147712 && offsetof(ControlPage, magic) == 0 &&
              offsetof(ControlPage, version) == 8 && offsetof(ControlPage, owner) == 64 &&
              offsetof(ControlPage, sleep) == 128 && offsetof(ControlPage, attention) == 192 &&
              offsetof(ControlPage, cqs) == 256 && offsetof(ControlPage, regions) == 16640);
static_assert(sizeof(SharedReceive) == 72 && offsetof(SharedReceive, segment_count) == 0 &&
              offsetof(SharedReceive, segments) == 8 && sizeof(SharedReceive::Segment) == 16 &&
              offsetof(SharedReceive::Segment, length) == 8);
static_assert(sizeof(SharedArrival) == 32 && offsetof(SharedArrival, stamp) == 0 &&
              offsetof(SharedArrival, key) == 4 && offsetof(SharedArrival, byte_len) == 8 &&
              offsetof(SharedArrival, imm) == 12 && offsetof(SharedArrival, status) == 16 &&
              offsetof(SharedArrival, opcode) == 17 && offsetof(SharedArrival, has_imm) == 18);
static_assert(sizeof(MailboxHeader) == 128 && offsetof(MailboxHeader, open_key) == 0 &&
              offsetof(MailboxHeader, posted) == 64);
static_assert(sizeof(MappingLayout) == 40 && offsetof(MappingLayout, mailbox_offset) == 0 &&
              offsetof(MappingLayout, mailbox_stride) == 8 &&
              offsetof(MappingLayout, mailbox_count) == 16 &&
              offsetof(MappingLayout, arena_offset) == 24 &&
              offsetof(MappingLayout, arena_size) == 32);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint8_t>::is_always_lock_free);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_CONTROL_LAYOUT_H_
