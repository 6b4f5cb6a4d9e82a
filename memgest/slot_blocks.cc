// The slow half of SlotAllocator: where blocks and granules come from when a class's FIFO is empty,
// and large values.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "memgest/slot_allocator.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

// Half of the ranges that an entry can hold: new blocks behind the planned ones need some, too.
constexpr std::uint32_t kRunCountMax = kRangeCountMax / 2;

}  // namespace

// The first member that is not barred.
std::uint32_t SlotAllocator::FindFree(const BlockSet& set) const {
  if (set.count() == 0) return BlockSet::kNone;
  std::uint32_t block = set.Next(0);
  while (block != BlockSet::kNone && barred(block)) {
    const bool inside = block >= bar_first_ && block < bar_end_;
    block = set.Next(inside ? bar_end_ : block + 1);
  }
  return block;
}

// Ends a block's life as slots: its granules are free for other classes, its FIFO entries go stale.
void SlotAllocator::DissolveBlock(std::uint32_t number) {
  Block& block = blocks_[number];
  RING_CHECK(block.use == BlockUse::kSlots && block.used == 0 && !barred(number))
      << "block=" << number << " used=" << block.used;
  for (const std::uint32_t granule : block.granules) {
    lines_->ReassignGranule(granule, kNoSizeClass, 0);
    granules_free_.push_back(granule);
  }
  block.granules.clear();
  block.use = BlockUse::kNone;
  stale_[block.size_class] = free_[block.size_class].size();
  std::erase(open_[block.size_class], number);
  idle_.Erase(number);
  pooled_.Insert(number);
}

absl::StatusOr<std::uint32_t> SlotAllocator::GrowBlock() {
  std::uint32_t block = block_count_;
  while (barred(block)) block = block >= bar_first_ && block < bar_end_ ? bar_end_ : block + 1;
  if (block >= block_limit_) {
    return absl::ResourceExhaustedError(absl::StrCat("heap of memgest=", memgest_.value(),
                                                     ": all of its blocks=", block_limit_,
                                                     " are in use; delete values"));
  }
  // Blocks that are skipped come into use when they are barred no more.
  RING_RETURN_IF_ERROR(
      heap_->Ensure(block_count_ << block_shift_, (block - block_count_ + 1) << block_shift_));
  if (blocks_.size() <= block) blocks_.resize(block + 1);
  for (; block_count_ < block; ++block_count_) pooled_.Insert(block_count_);
  ++block_count_;
  return block;
}

absl::StatusOr<std::uint32_t> SlotAllocator::TakeBlock() {
  std::uint32_t block = FindFree(pooled_);
  if (block == BlockSet::kNone) {
    block = FindFree(idle_);
    if (block != BlockSet::kNone) DissolveBlock(block);
  }
  if (block == BlockSet::kNone) block = BringBack();
  if (block == BlockSet::kNone) return GrowBlock();
  pooled_.Erase(block);
  return block;
}

// Gives the chunk's memory back if nothing that was given out has a byte in it. Its blocks have no
// slots then, so none is given out, or hinted at, before the memory is there again.
void SlotAllocator::FreeChunk(std::uint32_t chunk) {
  const std::uint32_t first = chunk * chunk_blocks_;
  for (std::uint32_t block = first; block < first + chunk_blocks_; ++block) {
    // Who reads a frozen block, or brings a lost one, counts on its memory, in use or not.
    if (barred(block) || (block < block_count_ && blocks_[block].used > 0)) return;
  }
  if (!heap_->FreeEmpty(chunk)) return;
  for (std::uint32_t block = first; block < std::min(first + chunk_blocks_, block_count_);
       ++block) {
    if (blocks_[block].use == BlockUse::kSlots) DissolveBlock(block);
    pooled_.Erase(block);
    gone_.Insert(block);
  }
}

// Takes memory for a chunk that went; its blocks are pooled again. Gives one that is not barred.
// kNone: there is no such chunk, or no memory.
std::uint32_t SlotAllocator::BringBack() {
  const std::uint32_t found = FindFree(gone_);
  if (found == BlockSet::kNone || !heap_->Ensure(found << block_shift_, block_cells_).ok())
    return BlockSet::kNone;
  PoolGone(found / chunk_blocks_);
  return found;
}

// There is memory for the chunk.
void SlotAllocator::PoolGone(std::uint32_t chunk) {
  if (gone_.count() == 0) return;
  const std::uint32_t first = chunk * chunk_blocks_;
  for (std::uint32_t block = first; block < first + chunk_blocks_; ++block) {
    if (!gone_.Contains(block)) continue;
    gone_.Erase(block);
    pooled_.Insert(block);
  }
}

// Moves a granule that nobody uses to granules_free_.
bool SlotAllocator::ReclaimGranule() {
  if (granules_plain_idle_ > 0) {
    const auto idle =
        std::find_if(granules_plain_.begin(), granules_plain_.end(), [this](std::uint32_t granule) {
          return lines_->granule(granule * kLinesPerGranule).taken == 0;
        });
    RING_CHECK(idle != granules_plain_.end()) << "idle=" << granules_plain_idle_;
    lines_->ReassignGranule(*idle, kNoSizeClass, 0);
    granules_free_.push_back(*idle);
    *idle = granules_plain_.back();
    granules_plain_.pop_back();
    --granules_plain_idle_;
    return true;
  }
  const std::uint32_t block = idle_.count() > 0 ? FindFree(idle_) : BlockSet::kNone;
  if (block == BlockSet::kNone) return false;
  DissolveBlock(block);
  return true;
}

absl::StatusOr<std::uint32_t> SlotAllocator::TakeGranule(std::uint8_t size_class,
                                                         std::uint32_t base_cells) {
  if (granules_free_.empty()) {
    absl::StatusOr<std::uint32_t> added =
        lines_->AddGranule(memgest_, size_class, base_cells, reserve_granules_);
    if (added.ok() || !ReclaimGranule()) return added;
  }
  const std::uint32_t granule = granules_free_.back();
  granules_free_.pop_back();
  lines_->ReassignGranule(granule, size_class, base_cells);
  return granule;
}

absl::Status SlotAllocator::Refill(std::uint8_t size_class) {
  if (size_class != 0) return RefillSlots(size_class);
  RING_ASSIGN_OR_RETURN(const std::uint32_t granule, TakeGranule(0, 0));
  granules_plain_.push_back(granule);
  ++granules_plain_idle_;
  for (std::uint32_t i = 0; i < kLinesPerGranule; ++i) {
    free_[0].PushBack(granule * kLinesPerGranule + i);
  }
  return absl::OkStatus();
}

absl::Status SlotAllocator::RefillSlots(std::uint8_t size_class) {
  std::vector<std::uint32_t>& open = open_[size_class];
  const auto found =
      std::find_if(open.begin(), open.end(), [this](std::uint32_t b) { return !barred(b); });
  const bool fresh = found == open.end();
  std::uint32_t number = 0;
  if (fresh) {
    RING_ASSIGN_OR_RETURN(number, TakeBlock());
  } else {
    number = *found;
  }
  const std::uint32_t cells = CellsOf(size_class);
  const std::uint32_t slots = SlotsPerBlock(size_class, block_cells_);
  const auto first = static_cast<std::uint32_t>(blocks_[number].granules.size()) * kLinesPerGranule;
  // An open block is never dissolved here: it would have to be idle, and then its lines stood in
  // the FIFO, which is empty.
  absl::StatusOr<std::uint32_t> granule =
      TakeGranule(size_class, (number << block_shift_) + first * cells);
  if (!granule.ok()) {
    if (fresh) pooled_.Insert(number);
    return granule.status();
  }
  Block& block = blocks_[number];
  if (fresh) {
    block.use = BlockUse::kSlots;
    block.size_class = size_class;
    block.used = 0;
    idle_.Insert(number);
  }
  block.granules.push_back(*granule);
  const std::uint32_t count = std::min(kLinesPerGranule, slots - first);
  const bool complete = first + count == slots;
  if (fresh && !complete) open.push_back(number);
  if (!fresh && complete) std::erase(open, number);
  for (std::uint32_t i = 0; i < count; ++i) {
    free_[size_class].PushBack(*granule * kLinesPerGranule + i);
  }
  return absl::OkStatus();
}

// Plans up to `count` free blocks out of runs of at least run_min; gives how many.
std::uint32_t SlotAllocator::PlanRuns(std::uint32_t count, std::uint32_t run_min,
                                      std::vector<std::uint32_t>* plan) const {
  const auto usable = [this](std::uint32_t block) {
    return (pooled_.Contains(block) || idle_.Contains(block)) && !barred(block);
  };
  plan->clear();
  // Each set is looked through once, however many blocks stand alone.
  std::uint32_t pooled = pooled_.Next(0);
  std::uint32_t idle = idle_.Next(0);
  std::uint32_t block = std::min(pooled, idle);
  while (block != BlockSet::kNone && plan->size() < count) {
    std::uint32_t end = block;
    do {
      if (!usable(end)) break;
      ++end;
    } while (end % chunk_blocks_ != 0);
    if (end - block >= run_min) {
      for (std::uint32_t b = block; b < end && plan->size() < count; ++b) plan->push_back(b);
    }
    const std::uint32_t next = std::max(end, block + 1);
    if (pooled < next) pooled = pooled_.Next(next);
    if (idle < next) idle = idle_.Next(next);
    block = std::min(pooled, idle);
  }
  return static_cast<std::uint32_t>(plan->size());
}

// ... out of long runs, if there are enough of them.
std::uint32_t SlotAllocator::PlanBlocks(std::uint32_t count,
                                        std::vector<std::uint32_t>* plan) const {
  const std::uint32_t free = pooled_.count() + idle_.count();
  std::uint32_t planned = 0;
  if (free >= count) planned = PlanRuns(count, std::min(count, chunk_blocks_), plan);
  if (free > 0 && planned < count)
    planned = PlanRuns(count, (count + kRunCountMax - 1) / kRunCountMax, plan);
  return planned;
}

void SlotAllocator::UseForLarge(absl::Span<const std::uint32_t> plan, std::vector<Range>* ranges) {
  ranges->clear();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::uint32_t number = plan[i];
    if (blocks_[number].use == BlockUse::kSlots) DissolveBlock(number);
    pooled_.Erase(number);
    blocks_[number].use = BlockUse::kLarge;
    blocks_[number].used = 1;
    if (i > 0 && number == plan[i - 1] + 1 && number % chunk_blocks_ != 0) {
      ranges->back().length_cells += block_cells_;
    } else {
      ranges->push_back({number << block_shift_, block_cells_});
    }
  }
  used_cells_ += plan.size() * block_cells_;
  used_peak_ = std::max(used_peak_, used_cells_);
}

absl::StatusOr<Slot> SlotAllocator::AllocateLarge(std::uint64_t length,
                                                  std::vector<Range>* ranges) {
  const std::uint64_t count64 = (length + block_size_ - 1) / block_size_;
  if (count64 == 0 || count64 > std::uint64_t{chunk_blocks_} * kRunCountMax) {
    return absl::InvalidArgumentError(absl::StrCat("value length=", length));
  }
  const auto count = static_cast<std::uint32_t>(count64);
  RING_ASSIGN_OR_RETURN(const Slot line, Allocate(0));

  std::vector<std::uint32_t> plan;
  std::uint32_t planned = PlanBlocks(count, &plan);
  while (planned < count && BringBack() != BlockSet::kNone) planned = PlanBlocks(count, &plan);
  while (plan.size() < count) {
    absl::StatusOr<std::uint32_t> block = GrowBlock();
    if (!block.ok()) {
      for (std::size_t i = planned; i < plan.size(); ++i) pooled_.Insert(plan[i]);
      for (std::size_t i = 0; i < plan.size(); ++i) {
        const std::uint32_t chunk = plan[i] / chunk_blocks_;
        if (i == 0 || chunk != plan[i - 1] / chunk_blocks_) FreeChunk(chunk);
      }
      Abandon(line, {});
      return block.status();
    }
    plan.push_back(*block);
  }
  UseForLarge(plan, ranges);
  std::uint32_t left = CellCount(length);
  for (const Range& range : *ranges) {
    const std::uint32_t cells = std::min(left, range.length_cells);
    heap_->Touch(range.offset_cells, cells);
    left -= cells;
  }
  return line;
}

}  // namespace ring::memgest
