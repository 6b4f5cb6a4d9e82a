// memgest/line_table.h — all metadata lines of one shard on one node, and what stands beside them.
//
// What:      An array of lines, numbered over all memgests of the shard. 64 lines are a granule: they belong to one
//            memgest, one size class and one run of its heap, so that a line's value address follows from the granule
//            directory before the line itself is read. Long keys and the ranges of large values stand beside it.
// Shape:     line number = granule * 64 + index. Line i of a granule has its slot at base + i * cells of its class.
// Ownership: owns lines, keys, ranges; memory comes from the device's arena, a chunk at a time, and only touched
//            pages are resident.
// Threads:   one, the node's.
// Errors:    kResourceExhausted when the arena or the line limit is spent.
// Cost:      line(), granule(): two loads. No allocation for keys of up to 24 bytes.
// Source:    hot-path layout; protocol rules E5 (reserve).
#ifndef RING_MEMGEST_LINE_TABLE_H_
#define RING_MEMGEST_LINE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memgest/metadata_line.h"
#include "rdma/fabric.h"

namespace ring::memgest {

struct Granule {
  std::uint16_t memgest = 0;
  std::uint8_t size_class = 0;  // 0: lines without slots (tombstones, empty and large values)
  bool used = false;
  std::uint32_t base_cells = 0;
};

inline constexpr std::uint32_t kLinesPerGranule = 64;

class LineTable {
 public:
  // line_count_max: multiple of 64.
  LineTable(rdma::Device* device, std::uint32_t line_count_max);

  // Coordinator: the next unused granule. Member: AddGranuleAt makes granule(line) known from an entry.
  absl::StatusOr<std::uint32_t> AddGranule(MemgestId memgest, std::uint8_t size_class,
                                           std::uint32_t base_cells);
  // Makes the line's memory and its granule's record exist; kInvalidArgument if they contradict what is known (a
  // line whose granule belongs to another memgest) or the number is past the limit.
  absl::Status EnsureLine(std::uint32_t line, MemgestId memgest, std::uint8_t size_class,
                          std::uint32_t offset_cells);

  MetadataLine& line(std::uint32_t number) {
    return chunks_[number >> kChunkShift][number & kChunkMask];
  }
  const MetadataLine& line(std::uint32_t number) const {
    return chunks_[number >> kChunkShift][number & kChunkMask];
  }
  const Granule& granule(std::uint32_t number) const {
    return granules_[number / kLinesPerGranule];
  }
  std::uint32_t granule_count() const { return static_cast<std::uint32_t>(granules_.size()); }
  // Granules that AddGranule can still give.
  std::uint32_t granules_left() const;

  void SetKey(std::uint32_t number, absl::string_view key);
  absl::string_view Key(std::uint32_t number) const;
  bool KeyEquals(std::uint32_t number, absl::string_view key) const;  // full compare (V8)
  void SetRanges(std::uint32_t number, absl::Span<const Range> ranges);
  absl::Span<const Range> Ranges(std::uint32_t number) const;
  // Frees key and ranges and zeroes the line.
  void Clear(std::uint32_t number);

  std::uint64_t resident_bytes() const;

 private:
  static constexpr int kChunkShift = 15;  // 2 MiB of lines
  static constexpr std::uint32_t kChunkMask = (1u << kChunkShift) - 1;

  rdma::Device* device_;
  std::uint32_t line_count_max_;
  std::vector<MetadataLine*> chunks_;
  std::vector<Granule> granules_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LINE_TABLE_H_
