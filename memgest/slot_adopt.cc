// SlotAllocator at a node that takes a shard over: what was given out is what the folded lines say,
// all else is free; and blocks whose bytes are elsewhere (S4).
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "memgest/slot_allocator.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

constexpr std::uint32_t kNoGranule = 0xffffffff;

void Use(std::uint64_t count, std::uint64_t* left) { *left -= std::min(count, *left); }

}  // namespace

absl::StatusOr<bool> SlotAllocator::Adopt(std::uint32_t block_count, BlockState state,
                                          std::uint64_t* left) {
  RING_CHECK(state != BlockState::kDecoding);
  if (adoption_ == nullptr) {
    RING_CHECK(block_count_ == 0 && used_cells_ == 0) << "memgest=" << memgest_.value();
    adoption_ = std::make_unique<Adoption>();
  }
  Adoption& adoption = *adoption_;
  for (; adoption.granule < lines_->granule_count() && !adoption.blocks_known; ++adoption.granule) {
    if (*left == 0) return false;
    const Granule& known = lines_->granule(adoption.granule * kLinesPerGranule);
    Use(1, left);
    if (!known.used || known.memgest != memgest_.value()) continue;
    if (known.taken == 0) {
      adoption.spares.push_back(adoption.granule);
      continue;
    }
    if (known.size_class == 0) Use(kLinesPerGranule, left);  // each is looked at
    RING_RETURN_IF_ERROR(AdoptGranule(adoption.granule));
  }
  if (!adoption.blocks_known) {
    RING_RETURN_IF_ERROR(KnowBlocks(block_count));
    TakeSpares(adoption.spares);
    adoption.blocks_known = true;
  }
  for (; adoption.block < block_count_; ++adoption.block) {
    if (*left == 0) return false;
    const std::uint32_t block = adoption.block;
    const std::uint32_t offset_cells = block << block_shift_;
    Use(1 + blocks_[block].granules.size() * kLinesPerGranule, left);
    if (block % chunk_blocks_ == 0) adoption.chunk_used = ChunkIsUsed(block / chunk_blocks_);
    if (adoption.chunk_used) RING_RETURN_IF_ERROR(heap_->Ensure(offset_cells, block_cells_));
    RING_RETURN_IF_ERROR(FinishBlock(block, state == BlockState::kLost));
    // What was freed before, or never came to be a version, left its bytes at other members.
    if (state == BlockState::kPresent) heap_->MarkElsewhere(offset_cells, block_cells_);
  }
  used_peak_ = used_cells_;
  if (state == BlockState::kPresent)
    freed_cells_ = (std::uint64_t{block_count_} << block_shift_) - used_cells_;
  adoption_ = nullptr;
  return true;
}

// The first one always is, as its memory stays.
bool SlotAllocator::ChunkIsUsed(std::uint32_t chunk) const {
  const std::uint32_t first = chunk * chunk_blocks_;
  const std::uint32_t end = std::min(first + chunk_blocks_, block_count_);
  return chunk == 0 || std::any_of(blocks_.begin() + first, blocks_.begin() + end,
                                   [](const Block& block) { return block.use != BlockUse::kNone; });
}

absl::Status SlotAllocator::KnowBlocks(std::uint32_t block_count) {
  block_count_ = std::max(block_count, static_cast<std::uint32_t>(blocks_.size()));
  if (block_count_ > block_limit_) {
    return absl::DataLossError(absl::StrCat("memgest=", memgest_.value(), " blocks=", block_count_,
                                            " limit=", block_limit_));
  }
  blocks_.resize(block_count_);
  return absl::OkStatus();
}

absl::Status SlotAllocator::UseBlock(std::uint32_t number, BlockUse use, std::uint8_t size_class) {
  if (number >= block_limit_) {
    return absl::DataLossError(
        absl::StrCat("memgest=", memgest_.value(), " block=", number, " limit=", block_limit_));
  }
  if (blocks_.size() <= number) blocks_.resize(number + 1);
  Block& block = blocks_[number];
  const bool fits = block.use == BlockUse::kNone ||
                    (use == BlockUse::kSlots && block.use == use && block.size_class == size_class);
  if (!fits) {
    return absl::DataLossError(absl::StrCat("memgest=", memgest_.value(), " block=", number,
                                            " is used in two ways, size_class=", int{size_class},
                                            " and ", int{block.size_class}));
  }
  block.use = use;
  block.size_class = size_class;
  return absl::OkStatus();
}

absl::Status SlotAllocator::AdoptGranule(std::uint32_t granule) {
  const std::uint32_t first = granule * kLinesPerGranule;
  const Granule known = lines_->granule(first);
  if (known.size_class == 0) {
    granules_plain_.push_back(granule);
    for (std::uint32_t line = first; line < first + kLinesPerGranule; ++line) {
      if ((known.taken >> (line - first) & 1) == 0) {
        free_[0].PushBack(line);
      } else if ((lines_->line(line).flags & kLarge) != 0) {
        RING_RETURN_IF_ERROR(AdoptLarge(line));
      }
    }
    return absl::OkStatus();
  }
  const std::uint32_t cells = CellsOf(known.size_class);
  const std::uint32_t number = known.base_cells >> block_shift_;
  const std::uint32_t skip = known.base_cells - (number << block_shift_);
  const std::uint32_t place = skip / (cells * kLinesPerGranule);
  const auto last = static_cast<std::uint32_t>(std::bit_width(known.taken)) - 1;
  RING_RETURN_IF_ERROR(UseBlock(number, BlockUse::kSlots, known.size_class));
  std::vector<std::uint32_t>& granules = blocks_[number].granules;
  if (granules.size() <= place) granules.resize(place + 1, kNoGranule);
  if (skip != place * cells * kLinesPerGranule || granules[place] != kNoGranule ||
      place * kLinesPerGranule + last >= SlotsPerBlock(known.size_class, block_cells_)) {
    return absl::DataLossError(absl::StrCat(
        "memgest=", memgest_.value(), " granule=", granule, " base_cells=", known.base_cells,
        " size_class=", int{known.size_class}, " is no part of its block"));
  }
  granules[place] = granule;
  const auto taken = static_cast<std::uint32_t>(std::popcount(known.taken));
  blocks_[number].used += taken;
  used_cells_ += std::uint64_t{taken} * cells;
  return absl::OkStatus();
}

absl::Status SlotAllocator::AdoptLarge(std::uint32_t line) {
  for (const Range& range : lines_->Ranges(line)) {
    for (std::uint32_t i = 0; i < range.length_cells >> block_shift_; ++i) {
      const std::uint32_t number = (range.offset_cells >> block_shift_) + i;
      RING_RETURN_IF_ERROR(UseBlock(number, BlockUse::kLarge, 0));
      blocks_[number].used = 1;
    }
    used_cells_ += range.length_cells;
  }
  return absl::OkStatus();
}

// Those that fill a gap where they are stay there; the others are anybody's.
void SlotAllocator::TakeSpares(const std::vector<std::uint32_t>& spares) {
  for (const std::uint32_t granule : spares) {
    const Granule& known = lines_->granule(granule * kLinesPerGranule);
    const std::uint32_t number = known.base_cells >> block_shift_;
    if (known.size_class != 0 && known.size_class != kNoSizeClass && number < blocks_.size() &&
        blocks_[number].use == BlockUse::kSlots && blocks_[number].size_class == known.size_class) {
      const std::uint32_t run = CellsOf(known.size_class) * kLinesPerGranule;
      const std::uint32_t skip = known.base_cells - (number << block_shift_);
      std::vector<std::uint32_t>& granules = blocks_[number].granules;
      if (skip % run == 0 && skip / run < granules.size() && granules[skip / run] == kNoGranule) {
        granules[skip / run] = granule;
        continue;
      }
    }
    lines_->ReassignGranule(granule, kNoSizeClass, 0);
    granules_free_.push_back(granule);
  }
}

// Gaps get granules, and what is not taken is free, or will be when the block is not lost any more.
absl::Status SlotAllocator::FinishBlock(std::uint32_t number, bool lost) {
  const std::uint8_t size_class = blocks_[number].size_class;
  if (lost) lost_.Insert(number);
  if (blocks_[number].use == BlockUse::kNone) {
    NowPooled(number);
    return absl::OkStatus();
  }
  if (blocks_[number].use == BlockUse::kLarge) return absl::OkStatus();
  std::vector<std::uint32_t> parked;
  const std::uint32_t cells = CellsOf(size_class);
  const std::uint32_t slots = SlotsPerBlock(size_class, block_cells_);
  for (std::uint32_t place = 0; place < blocks_[number].granules.size(); ++place) {
    const std::uint32_t base = (number << block_shift_) + place * kLinesPerGranule * cells;
    std::uint32_t granule = blocks_[number].granules[place];
    if (granule == kNoGranule && !granules_free_.empty()) {
      granule = granules_free_.back();
      granules_free_.pop_back();
      lines_->ReassignGranule(granule, size_class, base);
    } else if (granule == kNoGranule) {
      RING_ASSIGN_OR_RETURN(granule, lines_->AddGranule(memgest_, size_class, base));
    }
    blocks_[number].granules[place] = granule;
    const std::uint64_t taken = lines_->granule(granule * kLinesPerGranule).taken;
    const std::uint32_t count = std::min(kLinesPerGranule, slots - place * kLinesPerGranule);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t line = granule * kLinesPerGranule + i;
      if ((taken >> i & 1) == 0) {
        lost ? parked.push_back(line) : free_[size_class].PushBack(line);
      } else {
        heap_->Touch(base + i * cells, CellCount(lines_->line(line).value_length));
      }
    }
  }
  if (blocks_[number].granules.size() * kLinesPerGranule < slots) {
    open_[size_class].push_back(number);
  }
  if (!parked.empty()) parked_[number] = std::move(parked);
  return absl::OkStatus();
}

void SlotAllocator::SetLost(std::uint32_t block) {
  RING_CHECK(block < block_count_) << "block=" << block << " block_count=" << block_count_;
  lost_.Insert(block);
  decoding_.Erase(block);
  pooled_.Erase(block);
  idle_.Erase(block);
  gone_.Erase(block);
}

void SlotAllocator::SetDecoding(std::uint32_t block) {
  RING_CHECK(lost_.Contains(block)) << "block=" << block;
  decoding_.Insert(block);
}

std::uint32_t SlotAllocator::GivenOut(std::uint32_t number) const {
  const Block& block = blocks_[number];
  if (block.use == BlockUse::kLarge) return block_cells_;
  return block.use == BlockUse::kSlots ? block.used * CellsOf(block.size_class) : 0;
}

void SlotAllocator::SetPresent(std::uint32_t block, std::uint64_t last_touch, bool zero) {
  RING_CHECK(decoding_.Contains(block)) << "block=" << block;
  decoding_.Erase(block);
  lost_.Erase(block);
  blocks_[block].last_touch = last_touch;
  // Free slots hold bytes that count, too (S3), until they are released.
  if (!zero) {
    heap_->Touch(block << block_shift_, block_cells_);
    freed_cells_ += block_cells_ - GivenOut(block);
  }
  if (blocks_[block].use == BlockUse::kNone) NowPooled(block);
  // Others of its chunk that are zero came before, when there was no memory.
  if (heap_->Has(block << block_shift_, block_cells_)) PoolGone(block / chunk_blocks_);
  if (blocks_[block].use == BlockUse::kSlots && blocks_[block].used == 0) idle_.Insert(block);
  if (!barred(block)) Unpark(block);
}

}  // namespace ring::memgest
