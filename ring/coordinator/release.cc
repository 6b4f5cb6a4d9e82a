// Memory that freed slots and blocks left behind goes back to the system, here and at the members.
//
// A replica learns from a RELEASE entry that nobody has a byte in the range any more; it stands in
// the log before whatever uses the slots again (G2). The bytes of a coded memgest count until a
// delta says otherwise (S3): its RELEASE carries the delta that makes them zero, and a page of a
// parity that is zero needs no memory.
#include <array>

#include "memgest/srs_memgest.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {

// What was free that long is not needed soon.
constexpr std::uint64_t kPeriodNs = 250'000'000;
constexpr int kStepEntries = 8;       // of one memgest in one turn, so that serving goes on
constexpr int kStepCodedEntries = 1;  // each with a payload of up to 64 KiB
constexpr std::uint32_t kCodedCellsMax = memgest::kPayloadSizeMax / kCacheLine;

alignas(kCacheLine) constexpr std::array<std::byte, memgest::kPayloadSizeMax> kZeros{};

}  // namespace

void ShardCoordinator::ReleaseMemory(std::uint64_t now_ns) {
  const bool period_over = now_ns >= release_period_end_ns_;
  if (!releasing_ && !period_over) return;
  // The first look for a long time only begins a period.
  const bool begins = now_ns >= release_period_end_ns_ + kPeriodNs;
  if (period_over) release_period_end_ns_ = now_ns + kPeriodNs;
  release_due_ = releasing_ = false;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || !memgest->allocator().release_due()) continue;
    if (log_.Stuck(*memgest)) continue;  // until ApplyNormal
    release_due_ = true;
    bool walk = memgest->allocator().walking();
    if (period_over) walk |= memgest->allocator().EndReleasePeriod() && !begins;
    if (!walk) continue;
    const int steps = memgest->coded() ? kStepCodedEntries : kStepEntries;
    bool again = true;
    for (int i = 0; i < steps && again; ++i) again = ReleaseRun(*memgest);
    releasing_ |= again;
  }
}

// False: no more now.
bool ShardCoordinator::ReleaseRun(memgest::Memgest& memgest) {
  const std::uint32_t payload_max = memgest.coded() ? memgest::kPayloadSizeMax : 0;
  if (!ReserveWrite(memgest, 0, payload_max, 0, false)) return true;
  memgest::DeltaArena::Piece piece;
  if (memgest.coded()) {
    piece = arena_->Take(memgest::DeltaSize(memgest, payload_max));
    if (piece.memory == nullptr) return true;
  }
  bool again = false;
  const memgest::Range range = memgest.allocator().NextRelease(
      memgest.coded() ? kCodedCellsMax : memgest::HeapSpace::kChunkCells, &again);
  if (range.length_cells == 0) {
    if (piece.memory != nullptr) arena_->GiveBack(piece.segment);
    return again;
  }
  memgest::EntryFields fields;
  fields.type = memgest::EntryType::kRelease;
  fields.offset_cells = range.offset_cells;
  fields.value_length = range.length_cells * static_cast<std::uint32_t>(kCacheLine);
  if (memgest.coded()) {
    fields.payload_length = fields.value_length;
    memgest::AppendCoded(log_, memgest, fields, kZeros.data(), piece, 0);
  } else if (!memgest.members().empty()) {
    log_.Append(memgest, fields, absl::MakeConstSpan(&kNoPayload, 1));
  }
  memgest.heap().Release(range.offset_cells, range.length_cells);
  return again;
}

}  // namespace ring::coordinator
