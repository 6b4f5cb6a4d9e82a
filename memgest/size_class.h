// memgest/size_class.h — the sizes that slots come in.
//
// What:      Class 0: a line without a slot. Classes 1 to 8: as many cells. From there on eight
//            classes for each doubling, up to 2 MiB, so that a slot wastes at most an eighth. Every
//            power of two is a class, so a value of a whole block has one, whatever the block size
//            is.
// Units:     lengths in bytes, sizes in cells of 64 bytes.
// Threads:   pure.
// Errors:    none: callers check the length against the block size.
// Cost:      ClassOf: a bit scan and a shift; CellsOf: one load of a table of 420 bytes.
// Source:    the size classes of slab allocators (jemalloc's four to a doubling, here eight).
#ifndef RING_MEMGEST_SIZE_CLASS_H_
#define RING_MEMGEST_SIZE_CLASS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ring::memgest {

inline constexpr std::uint32_t kCellSize = 64;
inline constexpr std::uint32_t kSlotCellsMax = 2 * 1024 * 1024 / kCellSize;
inline constexpr std::uint8_t kSizeClassMax = 104;
inline constexpr std::size_t kSizeClassCount = kSizeClassMax + 1;
// Of a granule that has no class at present (memgest/line_table.h).
inline constexpr std::uint8_t kNoSizeClass = 255;

inline constexpr std::array<std::uint32_t, kSizeClassCount> kSizeClassCells = [] {
  std::array<std::uint32_t, kSizeClassCount> cells{};
  for (std::uint32_t c = 0; c <= 8; ++c) cells[c] = c;
  for (std::uint32_t c = 9; c <= kSizeClassMax; ++c) cells[c] = (9 + (c - 9) % 8) << ((c - 9) / 8);
  return cells;
}();

constexpr std::uint32_t CellsOf(std::uint8_t size_class) { return kSizeClassCells[size_class]; }
constexpr bool IsSizeClass(std::uint8_t size_class) { return size_class <= kSizeClassMax; }

// Cells that length bytes take.
constexpr std::uint32_t CellCount(std::uint64_t length) {
  return static_cast<std::uint32_t>((length + kCellSize - 1) / kCellSize);
}

// The least class that holds length bytes. REQUIRES: length <= 2 MiB.
constexpr std::uint8_t ClassOf(std::uint32_t length) {
  const std::uint32_t cells = CellCount(length);
  if (cells <= 8) return static_cast<std::uint8_t>(cells);
  // Classes of this doubling are 1 << shift apart. What bit_width gives is int, or in older
  // libraries its argument's type.
  const std::uint32_t shift = static_cast<std::uint32_t>(std::bit_width(cells - 1)) - 4;
  const std::uint32_t step = (cells + (1u << shift) - 1) >> shift;  // 9 to 16
  return static_cast<std::uint8_t>(8 * shift + step);
}

// Slots of a block; what is left of it is not used.
constexpr std::uint32_t SlotsPerBlock(std::uint8_t size_class, std::uint32_t block_cells) {
  return size_class == 0 ? 0 : block_cells / CellsOf(size_class);
}

static_assert(CellsOf(kSizeClassMax) == kSlotCellsMax);
static_assert(ClassOf(2 * 1024 * 1024) == kSizeClassMax);
static_assert(ClassOf(0) == 0 && ClassOf(1) == 1 && ClassOf(64) == 1 && ClassOf(65) == 2);
static_assert(CellsOf(ClassOf(1024)) == 16 && CellsOf(ClassOf(1025)) == 18);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SIZE_CLASS_H_
