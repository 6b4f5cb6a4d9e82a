// Collection of old versions: queued for an entry of their own log, freed once that entry is
// committed everywhere (G2).
#include <vector>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {
constexpr std::uint64_t kCollectIdleNs =
    1'000'000;  // G2: an entry of its own after 1 ms without one
}  // namespace

void ShardCoordinator::QueueCollection(std::uint32_t line, std::uint32_t upper) {
  lines_.line(line).flags |= memgest::kCollecting;
  ++collection_count_;
  collections_queued_ = true;
  MemgestOf(line).to_collect().push_back({{lines_.line(line).version, line, 0}, upper});
}

// The version stays in the key's chain until now, so that a tombstone above it knows that it is
// still there (G5).
void ShardCoordinator::OnCollected(const memgest::Collection& collection) {
  const std::uint32_t line = collection.item.line;
  --collection_count_;
  snapshots_.Save(line);
  RING_CHECK(lines_.line(line).version == collection.item.version) << "line=" << line;
  Unlink(line, collection.upper);
  lines_.line(line).prev = memgest::kNoLine;  // a pinned line is no link of the chain any more
  if (lines_.line(line).pins > 0 && !Mutant("V6")) {
    lingering_.push_back(line);  // V6: a send, a move or a decode still refers to the slot
  } else {
    FreeLine(line);
  }
}

void ShardCoordinator::Unlink(std::uint32_t line, std::uint32_t upper) {
  const std::uint32_t below = lines_.line(line).prev;
  const bool hint_holds = upper != memgest::kNoLine &&
                          (lines_.line(upper).flags & memgest::kLive) != 0 &&
                          lines_.line(upper).prev == line;
  if (!hint_holds) {
    const absl::string_view key = lines_.Key(line);
    std::uint32_t* const entry = keys_.Find(KeyHash(key, options_.hash_seed), key);
    RING_CHECK(entry != nullptr) << "a collected version's key is not in the table";
    if (*entry == line) {
      RING_CHECK(below == memgest::kNoLine) << "the highest version was collected above others";
      keys_.Erase(entry);
      return;
    }
    upper = *entry;
    while (lines_.line(upper).prev != line) upper = lines_.line(upper).prev;
  }
  lines_.line(upper).prev = below;
  constexpr std::uint8_t kFinished = memgest::kTombstone | memgest::kCommitted;
  const std::uint8_t flags = lines_.line(upper).flags;
  if ((below == memgest::kNoLine || Mutant("G5")) && (flags & kFinished) == kFinished &&
      (flags & memgest::kCollecting) == 0) {
    QueueCollection(upper, memgest::kNoLine);  // G5: the last lower version is gone for good
    return;
  }
  // G1: it may have waited for that, below a move into Rep(1).
  constexpr std::uint8_t kWaits = memgest::kSuperseded | memgest::kCommitted;
  if (below == memgest::kNoLine && (flags & (kWaits | memgest::kCollecting)) == kWaits) {
    const std::uint32_t highest = CommittedAbove(upper);
    if (highest != memgest::kNoLine) CollectBelow(highest);
  }
}

void ShardCoordinator::FreeLine(std::uint32_t line) {
  memgest::Memgest& memgest = MemgestOf(line);
  const std::uint8_t size_class = lines_.line(line).size_class;
  const std::uint32_t offset = lines_.line(line).offset_cells;
  --memgest.version_count;
  if (absent(line)) ForgetAbsent(line);
  if ((lines_.line(line).flags & memgest::kLarge) != 0) {
    const absl::Span<const memgest::Range> ranges = lines_.Ranges(line);
    const std::vector<memgest::Range> copy(ranges.begin(), ranges.end());
    lines_.Clear(line);
    memgest.allocator().Free(line, size_class, offset, copy);
  } else {
    lines_.Clear(line);
    memgest.allocator().Free(line, size_class, offset, {});
  }
  release_due_ |= memgest.allocator().release_due();
}

void ShardCoordinator::Unpin(std::uint32_t line) {
  RING_CHECK(lines_.line(line).pins > 0) << "line=" << line;
  --pin_count_;
  if (is_retired_) {
    --lines_.line(line).pins;
    if (pin_count_ == 0) GiveMemoryBack();
    return;
  }
  if (--lines_.line(line).pins > 0 || lingering_.empty()) return;
  for (std::size_t i = 0; i < lingering_.size(); ++i) {
    if (lingering_[i] != line) continue;
    lingering_[i] = lingering_.back();
    lingering_.pop_back();
    FreeLine(line);
    return;
  }
}

bool ShardCoordinator::CollectNow(memgest::Memgest& memgest) {
  if (memgest.to_collect().empty() || memgest.members().empty()) return false;
  if (!log_.HasRoom(memgest, memgest::kEntryHeaderSize + memgest::ShardLog::kCollectRoom, true))
    return false;
  memgest::EntryFields fields;
  fields.type = memgest::EntryType::kCollect;
  log_.Append(memgest, fields, absl::MakeConstSpan(&kNoPayload, 1));
  return true;
}

bool ShardCoordinator::AwaitRoom(const Request& request, const memgest::Memgest& memgest) {
  if (!log_.Stuck(memgest)) return false;
  Refuse(request, protocol::Outcome::kUnavailable, Version(), memgest.descriptor().id);
  return true;
}

bool ShardCoordinator::AwaitSpace(const Request& request, memgest::Memgest& memgest) {
  if (AwaitRoom(request, memgest)) return true;
  CollectNow(memgest);
  // Something is on its way out: the request stays where it is until that is committed.
  if (!memgest.to_collect().empty() || !memgest.collecting().empty() || !lingering_.empty())
    return false;
  memgest.rebuild().Hurry();
  if (memgest.rebuild().hurries()) {
    Refuse(request, protocol::Outcome::kUnavailable, Version(), memgest.descriptor().id);
  } else {
    Refuse(request, protocol::Outcome::kResourceExhausted);
  }
  return true;
}

void ShardCoordinator::DrainCollections(std::uint64_t now_ns) {
  if (collection_count_ == 0) {
    collect_since_ns_ = 0;
    return;
  }
  if (collect_since_ns_ == 0) collect_since_ns_ = now_ns;
  if (now_ns - collect_since_ns_ < kCollectIdleNs) return;
  collect_since_ns_ = 0;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr) continue;
    while (CollectNow(*memgest)) {
    }
  }
}

}  // namespace ring::coordinator
