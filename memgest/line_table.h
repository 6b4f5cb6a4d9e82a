// memgest/line_table.h — all metadata lines of one shard on one node, and what stands beside them.
//
// What:      An array of lines, numbered over all memgests of the shard. 64 lines are a granule:
//            they belong to one memgest, one size class and one run of its heap, so that a line's
//            value address follows from the granule directory before the line itself is read. Long
//            keys and the ranges of large values stand beside it.
// Shape:     line number = granule * 64 + index. Line i of a granule has its slot at base + i *
//            cells of its class. A granule stays its memgest's as long as that is there; it changes
//            its class and base only while none of its lines is taken (G2: within one log, so every
//            member folds the collections of its old lines before a line of the new class).
// Ownership: owns lines, keys, ranges; lines come from the device's arena, 2 MiB at a time, and
//            only touched pages are resident: small ones until the table has kYoungGranules, huge
//            ones from then on. Keys and ranges are process memory.
// Threads:   one, the node's.
// Errors:    kResourceExhausted when the arena or the line limit is spent.
// Cost:      line(), granule(): two loads. No allocation for keys of up to 24 bytes. FreeGranules:
//            16 bytes read a granule of the table.
// Source:    docs/adr/0006; rules E5 (reserve), G10.
#ifndef RING_MEMGEST_LINE_TABLE_H_
#define RING_MEMGEST_LINE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memgest/key_heap.h"
#include "memgest/metadata_line.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

inline constexpr std::uint32_t kLinesPerGranule = 64;

struct Granule {
  std::uint16_t memgest = 0;
  // 0: lines without slots (tombstones, empty and large values). kNoSizeClass: none at present.
  std::uint8_t size_class = 0;
  bool used = false;  // belongs to a memgest
  std::uint32_t base_cells = 0;
  std::uint64_t taken = 0;  // bit i: TakeLine took line i
};
static_assert(sizeof(Granule) == 16 && kLinesPerGranule == 64);

class LineTable {
 public:
  // line_count_max: multiple of 64.
  LineTable(rdma::Device* device, std::uint32_t line_count_max);
  ~LineTable();
  // What is left behind may only be destroyed.
  LineTable(LineTable&&) = default;
  LineTable(const LineTable&) = delete;
  LineTable& operator=(const LineTable&) = delete;

  // Coordinator: the next unused granule, provided that `keep` more, with memory, are left behind
  // it (E5).
  absl::StatusOr<std::uint32_t> AddGranule(MemgestId memgest, std::uint8_t size_class,
                                           std::uint32_t base_cells, std::uint32_t keep = 0);
  // The memgest is gone: its granules are anybody's. Whole huge pages of them go back to the
  // system, and read as zero; addresses stay, as the reserve counts on them (E5). REQUIRES: none of
  // its lines is taken, or will be.
  void FreeGranules(MemgestId memgest);
  // Gives a granule another class and run. REQUIRES: used, none of its lines taken.
  void ReassignGranule(std::uint32_t granule, std::uint8_t size_class, std::uint32_t base_cells);
  // Member: makes the line's memory and its granule's record exist, as an entry says; a granule
  // without taken lines is reassigned, also to another memgest: a coordinator gives those of a
  // deleted one to others, which may be news here. kInvalidArgument, and no effect, if that
  // contradicts what is known or is past the limit.
  absl::Status EnsureLine(std::uint32_t line, MemgestId memgest, std::uint8_t size_class,
                          std::uint32_t offset_cells);
  // The memory alone.
  absl::Status EnsureMemory(std::uint32_t line);
  // Whether the line's granule is known and has memory.
  bool Has(std::uint32_t line) const {
    return line / kLinesPerGranule < granules_.size() && granule(line).used;
  }

  // Counts the line as taken, or not: by the allocator at the coordinator, by fold and collection
  // at a member.
  void TakeLine(std::uint32_t line);
  // Bit i of `mask`: the i-th of the granule that begins with `first`.
  void TakeLines(std::uint32_t first, std::uint64_t mask);
  // Gives whether lines of its granule are still taken.
  bool DropLine(std::uint32_t line);

  MetadataLine& line(std::uint32_t number) {
    return chunks_[number >> kChunkShift][number & kChunkMask];
  }
  const MetadataLine& line(std::uint32_t number) const {
    return chunks_[number >> kChunkShift][number & kChunkMask];
  }
  const Granule& granule(std::uint32_t number) const {
    return granules_[number / kLinesPerGranule];
  }
  // Granules are 0 .. granule_count()-1; some of them may be unused.
  std::uint32_t granule_count() const { return static_cast<std::uint32_t>(granules_.size()); }
  // Granules that AddGranule can still give.
  std::uint32_t granules_left() const { return granule_count_max_ - used_count_; }
  std::uint32_t granule_count_max() const { return granule_count_max_; }

  void SetKey(std::uint32_t number, absl::string_view key);
  absl::string_view Key(std::uint32_t number) const;
  bool KeyEquals(std::uint32_t number, absl::string_view key) const;  // full compare (V8)
  // Also sets kLarge, by which Clear knows. REQUIRES: no ranges yet.
  void SetRanges(std::uint32_t number, absl::Span<const Range> ranges);
  // Empty without ranges. Good until the next SetRanges or Clear.
  absl::Span<const Range> Ranges(std::uint32_t number) const;
  // Calls visit(line) for each that has ranges, in no order.
  template <class Visit>
  void ForEachLarge(Visit visit) const {
    for (const auto& [line, ranges] : ranges_) visit(line);
  }
  // Frees key and ranges and zeroes the line (prev to kNoLine).
  void Clear(std::uint32_t number);

  // Everything, with its memory: the table is as new.
  void DropAll();

  // Lines of known granules, the directory, long keys and ranges.
  std::uint64_t resident_bytes() const;

 private:
  // Granules of a table whose memory comes in small pages: 256 KiB of lines.
  static constexpr std::uint32_t kYoungGranules = 64;
  static constexpr int kChunkShift = 15;  // 2 MiB of lines
  static constexpr std::uint32_t kChunkLines = 1u << kChunkShift;
  static constexpr std::uint32_t kChunkMask = kChunkLines - 1;
  static constexpr std::uint32_t kChunkGranules = kChunkLines / kLinesPerGranule;

  std::uint64_t KeyHandle(const MetadataLine& line) const;
  void CountGranule();
  static rdma::MemoryKind KindOf(std::size_t chunk) {
    return chunk == 0 ? rdma::MemoryKind::kPrivate : rdma::MemoryKind::kPrivateHuge;
  }

  rdma::Device* device_;
  std::uint32_t granule_count_max_;
  std::uint32_t used_count_ = 0;   // granules
  std::uint32_t next_unused_ = 0;  // no unused granule is below
  std::uint32_t chunk_count_ = 0;  // with memory
  std::vector<MetadataLine*> chunks_;
  std::vector<Granule> granules_;
  KeyHeap keys_;
  absl::flat_hash_map<std::uint32_t, std::vector<Range>> ranges_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LINE_TABLE_H_
