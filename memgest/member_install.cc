// A member that joins, and what it joins from: snapshots of logs, shipped tails, single values.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/member_shard.h"
#include "memgest/size_class.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {

// Calls visit(offset_cells, first byte, length) until it fails.
template <class Visit>
absl::Status MemberShard::ForEachRun(std::uint32_t number, Visit visit) const {
  const MetadataLine& line = lines_.line(number);
  const Range whole = {line.offset_cells, CellCount(line.value_length)};
  const absl::Span<const Range> ranges =
      (line.flags & kLarge) != 0 ? lines_.Ranges(number) : absl::MakeConstSpan(&whole, 1);
  std::uint32_t done = 0;
  for (const Range& range : ranges) {
    // Bytes of a heap are contiguous within a chunk only.
    for (std::uint32_t cells = 0; cells < range.length_cells && done < line.value_length;) {
      const std::uint32_t offset = range.offset_cells + cells;
      const std::uint32_t room =
          std::min(range.length_cells - cells,
                   HeapSpace::kChunkCells - (offset & HeapSpace::kChunkCellMask));
      const std::uint32_t size = std::min(room * kCellSize, line.value_length - done);
      RING_RETURN_IF_ERROR(visit(offset, done, size));
      done += size;
      cells += room;
    }
  }
  return absl::OkStatus();
}

bool MemberShard::HasValue(std::uint32_t number, const MemgestState& state) const {
  if (state.replica == nullptr) return true;
  const HeapSpace& heap = state.replica->heap();
  std::uint32_t crc = 0;
  const absl::Status there =
      ForEachRun(number, [&](std::uint32_t offset, std::uint32_t, std::uint32_t size) {
        if (!heap.Has(offset, CellCount(size))) return absl::NotFoundError("no memory");
        crc = Crc32c(heap.At(offset), size, crc);
        return absl::OkStatus();
      });
  return there.ok() && crc == lines_.line(number).value_crc;
}

void MemberShard::MarkAbsent(std::uint32_t number, MemgestState& state) {
  lines_.line(number).flags |= kAbsent;
  ++state.absent_count;
  ++state.absent_total;
  ++absent_count_;
}

std::shared_ptr<SnapshotCursor> MemberShard::TakeSnapshot(std::uint64_t id,
                                                          absl::Span<const MemgestId> memgests,
                                                          std::size_t piece_size) {
  std::vector<SnapshotLog> logs;
  for (const MemgestId memgest : memgests)
    logs.push_back({memgest, applied(memgest), end_cells(memgest)});
  // Only what is committed is folded.
  class AllTaken final : public SnapshotCursor {
   public:
    using SnapshotCursor::SnapshotCursor;

   private:
    std::uint64_t Visible(const LineTable& lines, std::uint32_t granule) const override {
      return lines.granule(granule * kLinesPerGranule).taken;
    }
  };
  auto cursor = std::make_shared<AllTaken>(id, piece_size, lines_, completions_, std::move(logs));
  snapshots_.Add(cursor);
  return cursor;
}

absl::Status MemberShard::Install(absl::string_view piece) {
  if (!failure_.ok()) return failure_;
  snapshots_.AbandonAll();
  RING_ASSIGN_OR_RETURN(SnapshotReader reader, SnapshotReader::Open(piece));
  const std::uint32_t number = reader.number();
  if (reader.id() == install_id_ && number < install_crcs_.size() &&
      reader.crc() == install_crcs_[number]) {
    return absl::OkStatus();
  }
  const bool next =
      installing_ ? reader.id() == install_id_ && number == install_crcs_.size() : number == 0;
  if (!next) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot id=", reader.id(), " piece=", number, ": of id=", install_id_,
                     " pieces=", install_crcs_.size(), " were taken"));
  }
  if (!installing_) {
    installing_ = true;
    install_id_ = reader.id();
    install_crcs_.clear();
    ++install_number_;
  }
  SnapshotItem item;
  while (true) {
    RING_ASSIGN_OR_RETURN(const bool more, reader.Next(&item));
    if (!more) break;
    RING_RETURN_IF_ERROR(InstallItem(item));
  }
  install_crcs_.push_back(reader.crc());
  installing_ = !reader.last();
  if (!installing_) CoverWhatIsYounger();
  return absl::OkStatus();
}

// S6: a parity gets all that there is of a memgest which the snapshot does not know yet.
void MemberShard::CoverWhatIsYounger() {
  for (const auto& [id, state] : states_) {
    if (state->parity == nullptr || state->install_number == install_number_) continue;
    if (state->parity->awaits(shard_)) state->parity->BeginRebuild(shard_, 0);
  }
}

absl::Status MemberShard::InstallItem(const SnapshotItem& item) {
  switch (item.kind) {
    case SnapshotItem::Kind::kLog: {
      MemgestState* const state = FindState(item.log.memgest);
      if (state == nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat("memgest=", item.log.memgest.value(), " is not known here yet"));
      }
      if (state->install_number == install_number_) return absl::OkStatus();
      if (state->applied != 0 || state->install_number != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "memgest=", item.log.memgest.value(), " applied=", state->applied, " is here already"));
      }
      if (state->parity != nullptr && state->parity->Holds(shard_)) {
        return absl::InvalidArgumentError(
            absl::StrCat("memgest=", item.log.memgest.value(), " shard=", shard_.value(),
                         ": the parity holds bytes of it: begin with a fresh one"));
      }
      state->install_number = install_number_;
      state->applied = item.log.applied;
      state->end_cells = item.log.end_cells;
      if (state->parity != nullptr) state->parity->BeginRebuild(shard_, item.log.end_cells);
      return absl::OkStatus();
    }
    case SnapshotItem::Kind::kGranule:
      // Its lines say more; without one it still is its memgest's.
      if (lines_.Has(item.number)) return absl::OkStatus();
      return lines_.EnsureLine(item.number, item.log.memgest, 0, 0);
    case SnapshotItem::Kind::kLines:
      return InstallLines(item);
    case SnapshotItem::Kind::kLine:
      return InstallLine(item);
    case SnapshotItem::Kind::kClient:
      CompletionTable::MoveFirst(completions_.FindOrAdd(item.client), item.first_incomplete);
      return absl::OkStatus();
    case SnapshotItem::Kind::kDone:
      CompletionTable::Finish(completions_.FindOrAdd(item.client), item.first_incomplete,
                              item.done);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status MemberShard::InstallLines(const SnapshotItem& item) {
  MemgestState& state = *FindState(item.log.memgest);
  if (state.removed) return absl::OkStatus();
  RING_RETURN_IF_ERROR(
      lines_.EnsureLine(item.number, item.log.memgest, item.size_class, item.base_cells));
  std::uint64_t taken = 0;
  absl::Status status;
  ForEachLine(item, [&](std::uint32_t number, const MetadataLine& come) {
    MetadataLine& line = lines_.line(number);
    if (line.version == come.version) return;  // of a piece that comes again
    if (line.version != 0) {
      status = absl::InvalidArgumentError(
          absl::StrCat("snapshot line=", number, " holds version=", line.version));
      return;
    }
    line = come;
    line.flags |= kLive | kCommitted;
    taken |= std::uint64_t{1} << (number % kLinesPerGranule);
    if (state.replica != nullptr && line.value_length > 0) MarkAbsent(number, state);
  });
  lines_.TakeLines(item.number, taken);
  return status;
}

absl::Status MemberShard::InstallLine(const SnapshotItem& item) {
  MemgestState& state = *FindState(item.log.memgest);
  if (state.removed) return absl::OkStatus();
  RING_RETURN_IF_ERROR(lines_.EnsureLine(item.number, item.log.memgest, item.line.size_class,
                                         item.line.offset_cells));
  MetadataLine& line = lines_.line(item.number);
  if (line.version == item.line.version) return absl::OkStatus();  // of a piece that comes again
  if (line.version != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot line=", item.number, " holds version=", line.version));
  }
  line = item.line;
  line.flags |= kLive | kCommitted;
  lines_.SetKey(item.number, item.key);
  if (!item.ranges.empty()) lines_.SetRanges(item.number, item.ranges);
  lines_.TakeLine(item.number);
  if (state.replica != nullptr && line.value_length > 0) MarkAbsent(item.number, state);
  return absl::OkStatus();
}

absl::Status MemberShard::FoldShipped(const EntryView& entry) {
  if (!failure_.ok()) return failure_;
  snapshots_.AbandonAll();
  Taken taken;
  taken.view = entry;
  taken.state = FindState(MemgestId(entry.header.memgest));
  if (taken.state == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("memgest=", entry.header.memgest, " is not known here yet"));
  }
  // Not of a ring: what counts is what was folded.
  taken.state->ring_index = 0;
  absl::Status status = Prepare(taken.view, *taken.state);
  if (status.ok()) status = LookAtPayload(taken);
  if (status.ok()) status = FoldEntry(taken);
  taken.state->ring_index = 0;
  if (fence_) FenceStores();
  fence_ = false;
  FreeReleased();
  if (status.code() == absl::StatusCode::kDataLoss) failure_ = status;
  return status;
}

absl::Status MemberShard::InstallValue(std::uint32_t number, Version version,
                                       absl::Span<const std::byte> bytes) {
  if (!lines_.Has(number) || version == Version() ||
      (lines_.line(number).version != version.bits() && !Mutant("S5-slot"))) {
    return absl::NotFoundError(
        absl::StrCat("line=", number, " does not hold version=", version.bits()));
  }
  MetadataLine& line = lines_.line(number);
  if ((line.flags & kAbsent) == 0) return absl::OkStatus();
  const bool right = Crc32c(bytes.data(), bytes.size()) == line.value_crc || Mutant("E3-member");
  if (bytes.size() != line.value_length || !right) {
    return absl::InvalidArgumentError(
        absl::StrCat("line=", number, " version=", version.bits(), ": size=", bytes.size(), " of ",
                     line.value_length, ", or another CRC than the version's"));
  }
  MemgestState& state = *FindState(MemgestId(line.memgest));
  RING_RETURN_IF_ERROR(
      ForEachRun(number, [&](std::uint32_t offset, std::uint32_t, std::uint32_t size) {
        return state.replica->Ensure(offset, size);
      }));
  bool weak = false;
  const absl::Status written =
      ForEachRun(number, [&](std::uint32_t offset, std::uint32_t first, std::uint32_t size) {
        weak |= state.replica->Write(offset, bytes.data() + first, size).weak;
        return absl::OkStatus();
      });
  RING_CHECK(written.ok());
  if (weak) FenceStores();
  line.flags &= static_cast<std::uint8_t>(~kAbsent);
  --state.absent_count;
  --absent_count_;
  return absl::OkStatus();
}

absl::StatusOr<ValuePiece> MemberShard::ReadValue(std::uint32_t number, Version version,
                                                  std::uint64_t first, std::size_t size) const {
  const bool held = lines_.Has(number) && version != Version() &&
                    lines_.line(number).version == version.bits() &&
                    (lines_.line(number).flags & kAbsent) == 0;
  const HeapSpace* const heap =
      held ? replica_heap(MemgestId(lines_.line(number).memgest)) : nullptr;
  if (heap == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no value of line=", number, " version=", version.bits(), " is here"));
  }
  PieceReader piece(lines_.line(number).value_length, first, size);
  RING_RETURN_IF_ERROR(
      ForEachRun(number, [&](std::uint32_t offset, std::uint32_t, std::uint32_t run) {
        piece.Add(heap->At(offset), run);
        return absl::OkStatus();
      }));
  return piece.Take();
}

}  // namespace ring::memgest
