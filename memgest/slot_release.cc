// The walk of SlotAllocator over the pages that freed slots and blocks left behind.
#include <algorithm>
#include <utility>

#include "memgest/slot_allocator.h"

namespace ring::memgest {
namespace {

// Looked at in one call, so that serving goes on.
constexpr int kBlocksPerStep = 64;
constexpr int kEntriesPerStep = 1024;

}  // namespace

// Pages of the block, touched here or held by members, of which nothing that was given out has a
// byte.
SlotAllocator::PageMap SlotAllocator::FreePages(std::uint32_t number) const {
  PageMap free;
  const Block& block = blocks_[number];
  const std::uint32_t first_cell = number << block_shift_;
  const bool idle = block.use == BlockUse::kNone || block.used == 0;
  // Giving back parts of huge pages would make small ones of them.
  if (block.use == BlockUse::kLarge || barred(number) || (heap_->huge(first_cell) && !idle)) {
    return free;
  }
  const std::uint32_t first_page = first_cell / HeapSpace::kPageCells;
  for (std::uint32_t page = 0; page < block_cells_ / HeapSpace::kPageCells; ++page) {
    free[page] = heap_->Held(first_page + page);
  }
  if (idle || free.none()) return free;
  const std::uint32_t cells = CellsOf(block.size_class);
  for (const std::uint32_t number_of_granule : block.granules) {
    const Granule& granule = lines_->granule(number_of_granule * kLinesPerGranule);
    for (std::uint64_t taken = granule.taken; taken != 0; taken &= taken - 1) {
      const auto index = static_cast<std::uint32_t>(std::countr_zero(taken));
      const std::uint32_t begin = granule.base_cells + index * cells - first_cell;
      const std::uint32_t last = (begin + cells - 1) / HeapSpace::kPageCells;
      for (std::uint32_t page = begin / HeapSpace::kPageCells; page <= last; ++page) {
        free.reset(page);
      }
    }
  }
  return free;
}

bool SlotAllocator::EndReleasePeriod() {
  const std::uint64_t needed = std::exchange(used_peak_, used_cells_);
  const std::uint64_t held = heap_->held_bytes() / kCellSize;
  const std::uint64_t worth = std::max(kReleaseCellsMin, used_cells_ / 8);
  if (held < used_cells_ + worth) freed_cells_ = 0;  // taken again, or lies in parts of pages
  return held >= needed + worth;
}

// Entries of blocks that went leave their FIFOs bit by bit, and those behind them keep their order:
// else the next put of the size meets all of them at once.
void SlotAllocator::DropStale() {
  int left = kEntriesPerStep;
  for (std::size_t size_class = 0; size_class < stale_.size(); ++size_class) {
    LineFifo& free = free_[size_class];
    std::size_t& count = stale_[size_class];
    for (count = std::min(count, free.size()); count > 0; --count) {
      if (left-- == 0) return;
      const std::uint32_t line = free.PopFront();
      if (lines_->granule(line).size_class == size_class) free.PushBack(line);
    }
  }
}

Range SlotAllocator::NextRelease(std::uint32_t length_max_cells, bool* again) {
  if (!walking_) {
    walking_ = true;
    freed_cells_ = 0;
    walk_block_ = walk_page_ = 0;
  }
  DropStale();
  const std::uint32_t page_count = block_cells_ / HeapSpace::kPageCells;
  const std::uint32_t run_max = length_max_cells / HeapSpace::kPageCells;
  for (int looked = 0; walk_block_ < block_count_ && looked < kBlocksPerStep; ++looked) {
    const PageMap free = FreePages(walk_block_);
    while (walk_page_ < page_count && !free[walk_page_]) ++walk_page_;
    const std::uint32_t first = walk_page_;
    while (walk_page_ < page_count && free[walk_page_] && walk_page_ - first < run_max) {
      ++walk_page_;
    }
    if (walk_page_ > first) {
      *again = true;
      return {(walk_block_ << block_shift_) + first * HeapSpace::kPageCells,
              (walk_page_ - first) * HeapSpace::kPageCells};
    }
    ++walk_block_;
    walk_page_ = 0;
    if (walk_block_ % chunk_blocks_ == 0 || walk_block_ == block_count_)
      FreeChunk((walk_block_ - 1) / chunk_blocks_);
  }
  const bool stale =
      std::any_of(stale_.begin(), stale_.end(), [](auto count) { return count > 0; });
  walking_ = walk_block_ < block_count_ || stale;
  *again = walking_;
  return {};
}

}  // namespace ring::memgest
