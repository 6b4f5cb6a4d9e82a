// Values that are not on this node yet, at a coordinator that took its shard over: who needs one
// waits until it was fetched or decoded (G8, S5).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/size_class.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"
#include "ring/coordinator/takeover.h"

namespace ring::coordinator {

bool ShardCoordinator::AwaitValue(const Request& request, std::uint32_t line) {
  Absent& value = absent_[line];
  if (value.lost) {
    if (Mutant("G6")) {
      Refuse(request, protocol::Outcome::kNotFound);
      return true;
    }
    if (request.operation == protocol::Operation::kMove) {
      Decide(request, protocol::Outcome::kDataLost);
    } else {
      Refuse(request, protocol::Outcome::kDataLost);
    }
    return true;
  }
  // Clients ask again and again while a source is away: no more of them wait than for room.
  const MemgestId memgest(lines_.line(line).memgest);
  // Between two epochs nobody is known to have it.
  if (log_.held() || !fetcher_->CanBring(line, memgest) || deferred_count_ >= kStalledMax) {
    Refuse(request, protocol::Outcome::kUnavailable, Version(), memgest);
    return true;
  }
  const std::uint32_t handle = CopyDeferred(request);
  deferred_[handle - 1].next = value.waiter;
  value.waiter = handle;
  if (value.wanted) return true;
  value.wanted = true;
  Pin(line);  // V6: the slot is written
  fetcher_->Want(line, Version(lines_.line(line).version), *this);
  return true;
}

// Calls visit(bytes, size) for each run of cells that the line's value lies in.
template <class Visit>
void ShardCoordinator::ForEachRun(std::uint32_t number, Visit visit) const {
  const memgest::MetadataLine& line = lines_.line(number);
  if (line.value_length == 0) return;  // there may be no memory at its place
  const memgest::HeapSpace& heap = memgests_[line.memgest]->heap();
  const memgest::Range whole = {line.offset_cells, memgest::CellCount(line.value_length)};
  const absl::Span<const memgest::Range> ranges =
      (line.flags & memgest::kLarge) != 0 ? lines_.Ranges(number) : absl::MakeConstSpan(&whole, 1);
  std::size_t left = line.value_length;
  for (const memgest::Range& range : ranges) {
    const std::size_t size = std::min(left, std::size_t{range.length_cells} * kCacheLine);
    visit(heap.At(range.offset_cells), size);
    left -= size;
  }
}

std::uint32_t ShardCoordinator::ValueCrc(std::uint32_t number) const {
  std::uint32_t crc = 0;
  ForEachRun(number,
             [&crc](const std::byte* bytes, std::size_t size) { crc = Crc32c(bytes, size, crc); });
  return crc;
}

absl::StatusOr<memgest::ValuePiece> ShardCoordinator::ReadValue(std::uint32_t number,
                                                                Version version,
                                                                std::uint64_t first,
                                                                std::size_t size) const {
  constexpr unsigned kHere = memgest::kLive | memgest::kCommitted;
  const bool held = lines_.Has(number) && version != Version() &&
                    lines_.line(number).version == version.bits() &&
                    (lines_.line(number).flags & (kHere | memgest::kAbsent)) == kHere;
  if (!held || memgests_[lines_.line(number).memgest]->coded()) {
    return absl::NotFoundError(
        absl::StrCat("no value of line=", number, " version=", version.bits(), " is here"));
  }
  memgest::PieceReader piece(lines_.line(number).value_length, first, size);
  ForEachRun(number, [&piece](const std::byte* bytes, std::size_t run) { piece.Add(bytes, run); });
  return piece.Take();
}

void ShardCoordinator::OnValue(std::uint32_t line, Version version, bool ok) {
  if (is_retired_ && gone()) return;
  if (!lines_.Has(line) || lines_.line(line).version != version.bits() || !absent(line)) return;
  // S12, E3: whoever brought the bytes, they are the version's or nothing.
  const bool here = ok && (ValueFits(line) || Mutant("E3"));
  Absent& value = absent_[line];
  const bool wanted = std::exchange(value.wanted, false);
  if (!here && !value.lost) {
    value.lost = true;
    ++MemgestOf(line).lost_count;
  }
  ReleaseWaiters(&value.waiter);
  if (here) {
    ForgetAbsent(line);
    lines_.line(line).flags &= static_cast<std::uint8_t>(~memgest::kAbsent);
  }
  if (wanted) Unpin(line);
}

// Where there are new sources: who fetches or decodes says again what is gone.
void ShardCoordinator::RetryLost(absl::FunctionRef<bool(std::uint32_t line)> may_come) {
  for (auto& [line, value] : absent_) {
    if (!value.lost || !may_come(line)) continue;
    value.lost = false;
    --MemgestOf(line).lost_count;
  }
}

void ShardCoordinator::OnDelay(std::uint32_t line) {
  const auto found = absent_.find(line);
  if ((is_retired_ && gone()) || found == absent_.end() || !found->second.wanted) return;
  found->second.wanted = false;
  ReleaseWaiters(&found->second.waiter);
  Unpin(line);
}

void ShardCoordinator::AbandonValues() {
  std::vector<std::uint32_t> wanted;
  for (const auto& [line, value] : absent_) {
    if (value.wanted) wanted.push_back(line);
  }
  for (const std::uint32_t line : wanted) OnDelay(line);
}

// The line is to be kAbsent no more, or to be freed. REQUIRES: it is kAbsent.
void ShardCoordinator::ForgetAbsent(std::uint32_t line) {
  memgest::Memgest& memgest = MemgestOf(line);
  --memgest.absent_count;
  const auto found = absent_.find(line);
  if (found == absent_.end()) return;
  memgest.lost_count -= found->second.lost ? 1 : 0;
  absent_.erase(found);
}

}  // namespace ring::coordinator
