#include "memgest/snapshot_cursor.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ring/base/mutant.h"

namespace ring::memgest {
namespace {

constexpr std::uint32_t kWordBits = 64;

const SnapshotLog* FindLog(const std::vector<SnapshotLog>& logs, MemgestId memgest) {
  const auto found = std::find_if(logs.begin(), logs.end(), [memgest](const SnapshotLog& log) {
    return log.memgest == memgest;
  });
  return found == logs.end() ? nullptr : &*found;
}

}  // namespace

SnapshotCursor::SnapshotCursor(std::uint64_t id, std::size_t piece_size, const LineTable& lines,
                               const CompletionTable& completions, std::vector<SnapshotLog> logs)
    : writer_(id, piece_size),
      lines_(&lines),
      logs_(std::move(logs)),
      pending_((lines.granule_count() + kWordBits - 1) / kWordBits) {
  writer_.AddCompletions(completions, logs_);
  for (const SnapshotLog& log : logs_) {  // also those without a granule
    writer_.BeginLog(log);
    log_ = log.memgest;
  }
  for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
    const Granule& record = lines.granule(granule * kLinesPerGranule);
    if (record.used && FindLog(logs_, MemgestId(record.memgest)) != nullptr)
      pending_[granule / kWordBits] |= std::uint64_t{1} << (granule % kWordBits);
  }
}

absl::StatusOr<SnapshotPiece> SnapshotCursor::Next() {
  if (lines_ == nullptr) {
    return absl::AbortedError("what the snapshot is of is gone, or has gone on: begin again");
  }
  while (!writer_.HasPiece() && word_ < pending_.size()) {
    if (pending_[word_] == 0) {
      ++word_;
      continue;
    }
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(pending_[word_]));
    Encode(static_cast<std::uint32_t>(word_) * kWordBits + bit);
  }
  if (!writer_.HasPiece() && !ended_) {
    writer_.End();
    ended_ = true;
  }
  SnapshotPiece piece;
  piece.bytes = writer_.TakePiece();
  piece.last = ended_ && !writer_.HasPiece();
  return piece;
}

void SnapshotCursor::Save(std::uint32_t line) {
  const std::uint32_t granule = line / kLinesPerGranule;
  const std::size_t word = granule / kWordBits;
  if (word >= pending_.size() || (pending_[word] >> (granule % kWordBits) & 1) == 0) return;
  if (!Mutant("L7-save")) Encode(granule);
}

void SnapshotCursor::Encode(std::uint32_t granule) {
  pending_[granule / kWordBits] &= ~(std::uint64_t{1} << (granule % kWordBits));
  // It is saved before it leaves its memgest.
  const MemgestId memgest(lines_->granule(granule * kLinesPerGranule).memgest);
  if (memgest != log_) {
    writer_.BeginLog(*FindLog(logs_, memgest));
    log_ = memgest;
  }
  writer_.AddGranule(*lines_, granule);
  writer_.AddLines(*lines_, granule, Visible(*lines_, granule));
}

void SnapshotCursors::Add(const std::shared_ptr<SnapshotCursor>& cursor) {
  std::erase_if(cursors_, [](const std::weak_ptr<SnapshotCursor>& weak) { return weak.expired(); });
  cursors_.push_back(cursor);
}

void SnapshotCursors::SaveInEach(std::uint32_t line) {
  std::erase_if(cursors_, [line](const std::weak_ptr<SnapshotCursor>& weak) {
    const std::shared_ptr<SnapshotCursor> cursor = weak.lock();
    if (cursor != nullptr) cursor->Save(line);
    return cursor == nullptr;
  });
}

void SnapshotCursors::AbandonEach() {
  for (const std::weak_ptr<SnapshotCursor>& weak : cursors_) {
    if (const std::shared_ptr<SnapshotCursor> cursor = weak.lock(); cursor != nullptr)
      cursor->Abandon();
  }
  cursors_.clear();
}

}  // namespace ring::memgest
