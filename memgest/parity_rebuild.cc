#include "memgest/parity_rebuild.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ec_offload/kernels.h"
#include "memgest/memgest.h"
#include "memgest/parity_store.h"
#include "memgest/shard_log.h"
#include "memgest/size_class.h"
#include "ring/base/crc32c.h"

namespace ring::memgest {
namespace {

// Of a ring: a quarter of what is reserved for BASE and its like (E5), since a PAD may go before.
constexpr std::uint64_t kRingShare = 64;

}  // namespace

const ParityRebuild::Parity* ParityRebuild::Find(Role role) const {
  const auto found = std::find_if(parities_.begin(), parities_.end(),
                                  [role](const Parity& parity) { return parity.role == role; });
  return found == parities_.end() ? nullptr : &*found;
}

void ParityRebuild::Add(Role role, std::uint64_t extent) {
  std::erase_if(parities_, [role](const Parity& parity) { return parity.role == role; });
  if (extent > 0) {
    const std::uint64_t extent_cells = memgest_->codec().layout().extent_size() / kCellSize;
    parities_.push_back({.role = role, .extent = extent, .from_cells = extent * extent_cells});
  }
  BarAllocation();
}

std::uint64_t ParityRebuild::Begin(Role role) {
  const SlotAllocator& allocator = memgest_->allocator();
  const std::uint64_t end_cells =
      std::uint64_t{allocator.block_count()} * (allocator.block_size() / kCellSize);
  const std::uint64_t extent = ParityStore::FromExtent(memgest_->codec().layout(), end_cells);
  Add(role, extent);
  return extent;
}

void ParityRebuild::End(Role role) {
  if (Mutant("S6-fails")) return;
  std::erase_if(parities_, [role](const Parity& parity) { return parity.role == role; });
  BarAllocation();
}

void ParityRebuild::OnNormal(RoleMask active, absl::Span<const From> incomplete, bool first) {
  const auto named = [incomplete](Role role) {
    return std::any_of(incomplete.begin(), incomplete.end(),
                       [role](const From& from) { return from.role == role; });
  };
  std::erase_if(parities_, [&](const Parity& parity) {
    const bool is_active = Has(active, parity.role);
    return is_active ? !named(parity.role) : first;
  });
  for (const From& from : incomplete) {
    if (Find(from.role) == nullptr) Add(from.role, from.extent);
  }
  BarAllocation();
}

bool ParityRebuild::Complete(Role role, const ShardLog& log) const {
  const Parity* const parity = Find(role);
  return parity == nullptr ||
         (parity->next_cells == parity->from_cells && log.IsCommitted(parity->last_order));
}

std::vector<ParityRebuild::From> ParityRebuild::parities() const {
  std::vector<From> all;
  for (const Parity& parity : parities_) all.push_back({parity.role, parity.extent});
  std::sort(all.begin(), all.end(), [](const From& a, const From& b) { return a.role < b.role; });
  return all;
}

std::vector<ParityRebuild::Progress> ParityRebuild::progress() const {
  std::vector<Progress> all;
  for (const Parity& parity : parities_)
    all.push_back({parity.role, parity.next_cells, parity.from_cells});
  std::sort(all.begin(), all.end(),
            [](const Progress& a, const Progress& b) { return a.role < b.role; });
  return all;
}

// What any of them does not cover yet. A block that is based in part is not.
void ParityRebuild::BarAllocation() {
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t end = 0;
  for (const Parity& parity : parities_) {
    if (parity.next_cells == parity.from_cells) continue;
    first = std::min(first, parity.next_cells);
    end = std::max(end, parity.from_cells);
  }
  const std::uint32_t block_cells = memgest_->allocator().block_size() / kCellSize;
  if (end == 0) first = 0;
  barring_ = first < end;
  hurries_ = hurries_ && barring_;
  memgest_->allocator().Bar(static_cast<std::uint32_t>(first / block_cells),
                            static_cast<std::uint32_t>(end / block_cells));
}

// Whether the member gets a BASE that begins at this cell.
bool ParityRebuild::Takes(const Member& member, std::uint64_t cell) const {
  const Parity* const parity = Find(member.role);
  return parity != nullptr && member.active && parity->next_cells == cell &&
         cell < parity->from_cells;
}

// The next one for who is furthest behind; it ends where another one goes on, at the latest.
ParityRebuild::Piece ParityRebuild::NextPiece() const {
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t size = kPayloadSizeMax;
  for (const Member& member : memgest_->members()) {
    const Parity* const parity = Find(member.role);
    if (parity == nullptr || !Takes(member, parity->next_cells)) continue;
    first = std::min(first, parity->next_cells);
    if (member.writer != nullptr)
      size = std::min(size, std::bit_floor(member.writer->ring_size() / kRingShare));
  }
  Piece piece;
  if (first == ~std::uint64_t{0}) return piece;
  const std::uint64_t block_cells = memgest_->allocator().block_size() / kCellSize;
  std::uint64_t end = (first / block_cells + 1) * block_cells;
  for (const Parity& parity : parities_) {
    if (parity.next_cells > first) end = std::min(end, parity.next_cells);
  }
  const HeapSpace& heap = memgest_->heap();
  const auto touched = [&heap](std::uint64_t begin, std::uint64_t behind) {
    for (std::uint64_t page = begin / HeapSpace::kPageCells; page * HeapSpace::kPageCells < behind;
         ++page) {
      if (heap.Touched(static_cast<std::uint32_t>(page))) return true;
    }
    return false;
  };
  piece.first = first;
  piece.zero = !touched(first, end);
  piece.end = piece.zero ? end : std::min(end, first + size / kCellSize);
  return piece;
}

void ParityRebuild::Append(ShardLog& log, const Piece& piece, const DeltaArena::Piece& scratch) {
  const auto offset = static_cast<std::uint32_t>(piece.first);
  const auto length = static_cast<std::uint32_t>((piece.end - piece.first) * kCellSize);
  const std::uint32_t block = offset / (memgest_->allocator().block_size() / kCellSize);
  EntryFields fields;
  fields.type = EntryType::kBase;
  fields.offset_cells = offset;
  fields.value_length = length;
  fields.payload_length = piece.zero ? 0 : length;
  fields.version = Version(memgest_->allocator().LastTouch(block));
  const MemberSet& members = memgest_->members();
  std::array<rdma::Sge, ec_offload::kDeltaCountMax> sges;
  std::array<EntryPayload, ec_offload::kDeltaCountMax> payloads;
  std::byte* to = scratch.memory;
  for (std::size_t j = 0; j < members.size(); ++j) {
    payloads[j].withheld = !Takes(members[j], piece.first);
    if (payloads[j].withheld || piece.zero) continue;
    ec_offload::Multiply(to, memgest_->heap().At(offset), memgest_->Coefficient(j, offset), length);
    sges[j] = {to, length, scratch.lkey};
    payloads[j].sges = absl::MakeConstSpan(&sges[j], 1);
    payloads[j].crc = Crc32c(to, length);
    to += length;
    pushed_bytes_ += length;
  }
  Pending& pending =
      log.Append(*memgest_, fields, absl::MakeConstSpan(payloads.data(), members.size()));
  pending.has_piece = !piece.zero;
  pending.piece_segment = scratch.segment;
  for (std::size_t j = 0; j < members.size(); ++j) {
    if (payloads[j].withheld) continue;
    for (Parity& parity : parities_) {
      if (parity.role != members[j].role) continue;
      parity.next_cells = piece.end;
      parity.last_order = pending.order;
    }
  }
  last_order_ = pending.order;
}

ParityRebuild::Pushed ParityRebuild::Step(ShardLog& log, DeltaArena* arena) {
  const Piece piece = NextPiece();
  if (piece.end == 0) return Pushed::kNothing;
  const SlotAllocator& allocator = memgest_->allocator();
  const auto block = static_cast<std::uint32_t>(piece.first / (allocator.block_size() / kCellSize));
  if (allocator.state(block) != BlockState::kPresent) return Pushed::kNothing;
  if (!log.IsCommitted(last_order_)) return Pushed::kWaits;
  if (log.calculating()) return Pushed::kNoRoom;  // S6: some slot lacks bytes that the log has
  const std::size_t length = piece.zero ? 0 : (piece.end - piece.first) * kCellSize;
  const std::size_t size = kEntryHeaderSize + ShardLog::kCollectRoom + length + kEntryTrailerSize;
  if (!log.HasRoom(*memgest_, size, true)) return Pushed::kNoRoom;
  std::size_t receivers = 0;
  for (const Member& member : memgest_->members()) receivers += Takes(member, piece.first) ? 1 : 0;
  DeltaArena::Piece scratch;
  if (!piece.zero) {
    scratch = arena->Take(length * receivers);
    if (scratch.memory == nullptr) return Pushed::kNoRoom;
  }
  Append(log, piece, scratch);
  BarAllocation();
  return Pushed::kOne;
}

}  // namespace ring::memgest
