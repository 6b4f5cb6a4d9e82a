#include "memgest/slot_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {

SlotAllocator::SlotAllocator(MemgestId memgest, std::uint32_t block_size, LineTable* lines,
                             HeapSpace* heap, std::uint32_t block_limit)
    : memgest_(memgest),
      block_size_(block_size),
      block_cells_(block_size / kCellSize),
      block_shift_(std::bit_width(block_cells_) - 1),
      block_limit_(std::min(block_limit,
                            static_cast<std::uint32_t>((std::uint64_t{1} << 32) >> block_shift_))),
      chunk_blocks_(HeapSpace::kChunkCells >> block_shift_),
      reserve_granules_(std::max(1u, lines->granule_count_max() / 64)),
      lines_(lines),
      heap_(heap) {
  RING_CHECK(std::has_single_bit(block_size) && block_cells_ >= 64 && block_cells_ <= kSlotCellsMax)
      << "block_size=" << block_size;
}

LineFifo& SlotAllocator::FifoOf(std::uint32_t line, std::uint8_t size_class) {
  const bool reserve = size_class == 0 && !granules_reserve_.empty() &&
                       granules_reserve_.contains(line / kLinesPerGranule);
  return free_[reserve ? kReserveFifo : size_class];
}

bool SlotAllocator::PopValid(std::size_t fifo, std::uint32_t* line) {
  const std::uint8_t size_class = fifo == kReserveFifo ? 0 : static_cast<std::uint8_t>(fifo);
  LineFifo& free = free_[fifo];
  while (!free.empty()) {
    *line = free.PopFront();
    const Granule& granule = lines_->granule(*line);
    if (granule.size_class != size_class) continue;
    if (any_barred() && size_class != 0) {
      const std::uint32_t block = granule.base_cells >> block_shift_;
      const bool given =
          (Mutant("S2-freeze") && frozen(block)) || (Mutant("S4") && lost_.Contains(block));
      if (barred(block) && !given) {
        parked_[block].push_back(*line);
        continue;
      }
    }
    return true;
  }
  return false;
}

Slot SlotAllocator::GiveOut(std::uint32_t line, std::uint8_t size_class, std::uint32_t length) {
  const Granule& granule = lines_->granule(line);
  const std::uint32_t cells = CellsOf(size_class);
  const Slot slot{line, granule.base_cells + line % kLinesPerGranule * cells, size_class};
  if (size_class != 0) {
    const std::uint32_t number = slot.offset_cells >> block_shift_;
    if (blocks_[number].used++ == 0) idle_.Erase(number);
    used_cells_ += cells;
    used_peak_ = std::max(used_peak_, used_cells_);
    heap_->Touch(slot.offset_cells, CellCount(length));
  } else if (granule.taken == 0 && !granules_reserve_.contains(line / kLinesPerGranule)) {
    --granules_plain_idle_;
  }
  lines_->TakeLine(line);
  return slot;
}

absl::StatusOr<Slot> SlotAllocator::Allocate(std::uint32_t length) {
  if (length > block_size_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "value length=", length, " exceeds block_size=", block_size_, ": use AllocateLarge"));
  }
  const std::uint8_t size_class = ClassOf(length);
  std::uint32_t line;
  if (!PopValid(size_class, &line)) {
    RING_RETURN_IF_ERROR(Refill(size_class));
    RING_CHECK(PopValid(size_class, &line)) << "size_class=" << int{size_class};
  }
  return GiveOut(line, size_class, length);
}

absl::StatusOr<Slot> SlotAllocator::AllocateTombstone() {
  absl::StatusOr<Slot> slot = Allocate(0);
  if (slot.ok()) return slot;
  std::uint32_t line;
  if (!PopValid(kReserveFifo, &line)) {
    RING_ASSIGN_OR_RETURN(const std::uint32_t granule, lines_->AddGranule(memgest_, 0, 0));
    granules_reserve_.insert(granule);
    for (std::uint32_t i = 1; i < kLinesPerGranule; ++i) {
      free_[kReserveFifo].PushBack(granule * kLinesPerGranule + i);
    }
    line = granule * kLinesPerGranule;
  }
  return GiveOut(line, 0, 0);
}

Slot SlotAllocator::Peek(std::uint32_t length) const {
  Slot slot;
  if (length > block_size_) return slot;
  const std::uint8_t size_class = ClassOf(length);
  const LineFifo& free = free_[size_class];
  if (free.empty()) return slot;
  const std::uint32_t line = free.at(0);
  const Granule& granule = lines_->granule(line);
  if (granule.size_class != size_class) return slot;
  const std::uint32_t offset = granule.base_cells + line % kLinesPerGranule * CellsOf(size_class);
  if (size_class != 0 && barred(offset >> block_shift_)) return slot;
  return Slot{line, offset, size_class};
}

void SlotAllocator::TakeBack(std::uint32_t line, std::uint8_t size_class,
                             std::uint32_t offset_cells, absl::Span<const Range> ranges) {
  const Granule& granule = lines_->granule(line);
  RING_CHECK(granule.memgest == memgest_.value() && granule.size_class == size_class)
      << "line=" << line << " size_class=" << int{size_class}
      << " granule's=" << int{granule.size_class};
  const std::uint32_t cells = CellsOf(size_class);
  RING_CHECK(size_class == 0 ||
             offset_cells == granule.base_cells + line % kLinesPerGranule * cells)
      << "line=" << line << " offset_cells=" << offset_cells;
  const bool left = lines_->DropLine(line);
  if (size_class != 0) {
    const std::uint32_t number = offset_cells >> block_shift_;
    if (--blocks_[number].used == 0) NowIdle(number);
    used_cells_ -= cells;
    freed_cells_ += cells;
  } else if (!left && !granules_reserve_.contains(line / kLinesPerGranule)) {
    ++granules_plain_idle_;
  }
  for (const Range& range : ranges) {
    for (std::uint32_t i = 0; i < range.length_cells >> block_shift_; ++i) {
      const std::uint32_t number = (range.offset_cells >> block_shift_) + i;
      RING_CHECK(blocks_[number].use == BlockUse::kLarge) << "block=" << number;
      blocks_[number].use = BlockUse::kNone;
      blocks_[number].used = 0;
      NowPooled(number);
    }
    used_cells_ -= range.length_cells;
    freed_cells_ += range.length_cells;
  }
}

void SlotAllocator::Abandon(const Slot& slot, absl::Span<const Range> ranges) {
  TakeBack(slot.line, slot.size_class, slot.offset_cells, ranges);
  FifoOf(slot.line, slot.size_class).PushFront(slot.line);
}

void SlotAllocator::Free(std::uint32_t line, std::uint8_t size_class, std::uint32_t offset_cells,
                         absl::Span<const Range> ranges) {
  RING_CHECK(lines_->line(line).version == 0) << "line=" << line << " still holds a version";
  TakeBack(line, size_class, offset_cells, ranges);
  FifoOf(line, size_class).PushBack(line);
}

std::uint64_t SlotAllocator::LastTouch(std::uint32_t block) const {
  return block < blocks_.size() ? blocks_[block].last_touch : 0;
}

void SlotAllocator::Freeze(std::uint32_t block) {
  RING_CHECK(block < block_limit_) << "block=" << block;
  ++freezes_[block];
}

void SlotAllocator::Thaw(std::uint32_t block) {
  const auto found = freezes_.find(block);
  RING_CHECK(found != freezes_.end()) << "block=" << block << " is not frozen";
  if (--found->second > 0) return;
  freezes_.erase(found);
  if (!barred(block)) Unpark(block);
}

void SlotAllocator::ThawAll() {
  std::vector<std::uint32_t> blocks;  // in order: a simulated run is the same each time
  for (const auto& [block, count] : std::exchange(freezes_, {})) blocks.push_back(block);
  std::sort(blocks.begin(), blocks.end());
  for (const std::uint32_t block : blocks) {
    if (!barred(block)) Unpark(block);
  }
}

void SlotAllocator::Bar(std::uint32_t first, std::uint32_t end) {
  if (Mutant("S6-alloc")) return;
  const std::uint32_t old_first = std::exchange(bar_first_, first);
  const std::uint32_t old_end = std::exchange(bar_end_, end);
  // A rebuild takes many small steps: only what it leaves behind is looked at.
  const auto unpark = [this](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t block = from; block < to && !parked_.empty(); ++block) {
      if (!barred(block)) Unpark(block);
    }
  };
  unpark(old_first, std::min(old_end, first < end ? first : old_end));
  if (first < end) unpark(std::max(old_first, end), old_end);
}

void SlotAllocator::Unpark(std::uint32_t block) {
  const auto parked = parked_.find(block);
  if (parked == parked_.end()) return;
  for (const std::uint32_t line : parked->second) free_[blocks_[block].size_class].PushBack(line);
  parked_.erase(parked);
}

}  // namespace ring::memgest
