// Emptying a memgest that is to be deleted (G10): completion records move to another log, contents
// are dropped if the operator wants it, and counts say what is left.
#include <vector>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {
constexpr std::size_t kStepRecords = 256;  // of one call, so that serving goes on
constexpr std::size_t kStepDrops = 64;
constexpr std::uint32_t kStepGranules = 4096;

// Others will use them: what they were stays in snapshots that are under way (L7).
void SaveGranules(const memgest::LineTable& lines, MemgestId id,
                  memgest::SnapshotCursors* snapshots) {
  for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
    const std::uint32_t first = granule * memgest::kLinesPerGranule;
    const memgest::Granule& record = lines.granule(first);
    if (record.used && record.memgest == id.value()) snapshots->Save(first);
  }
}

}  // namespace

DrainCounts ShardCoordinator::Drain(MemgestId id, MemgestId records_to,
                                    const memgest::ClientId* dropper) {
  DrainCounts counts;
  memgest::Memgest* const memgest = FindMemgest(id);
  // X7: a version that is still there may be lost with the memgest's members, and its record must
  // not outlive it in a stronger log.
  const bool empty = memgest == nullptr || memgest->version_count == 0 || Mutant("X7");
  counts.records = MoveRecords(id, empty ? RecordHome(memgest, records_to) : nullptr);
  if (memgest == nullptr) return counts;
  if (dropper != nullptr) DropContents(*memgest, *dropper);
  counts.keys = memgest->key_count;
  counts.versions = memgest->version_count;
  // Slots that no version has yet belong to large writes; a moved record counts once it is
  // committed.
  counts.pending = memgest->allocator().used_bytes() > 0 && memgest->version_count == 0 ? 1 : 0;
  counts.pending += memgest->to_collect().size() + memgest->collecting().size();
  if (drain_order_ >= log_.commit_front() && !Mutant("G10-uncommitted")) ++counts.pending;
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    if (write->memgest_id() == id) ++counts.pending;
  }
  return counts;
}

// X7: a record that outlives nodes must not come to be in fewer places than it was: a retry at the
// next coordinator would run again, over what was written since. Null: there is no such place now.
memgest::Memgest* ShardCoordinator::RecordHome(const memgest::Memgest* from,
                                               MemgestId preferred) const {
  memgest::Memgest* home = FindMemgest(preferred);
  if (home != nullptr && !home->writable()) home = nullptr;
  if (Mutant("X7-drain")) return home;
  const int wanted = from == nullptr ? 1 : from->failures_tolerated();
  int strength = home == nullptr ? -1 : std::min(home->failures_tolerated(), wanted);
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || !memgest->writable()) continue;
    const int its = std::min(memgest->failures_tolerated(), wanted);
    if (its <= strength) continue;
    home = memgest.get();
    strength = its;
  }
  return strength < std::min(wanted, 1) ? nullptr : home;
}

// Gives how many records the memgest's log still holds.
std::uint64_t ShardCoordinator::MoveRecords(MemgestId from, memgest::Memgest* to) {
  struct Found {
    memgest::ClientId client;
    std::uint64_t first_incomplete = 0;
    memgest::CompletionRecord record;
  };
  std::uint64_t left = 0;
  std::vector<Found> found;
  completions_.ForEach([&](const memgest::ClientId& client, std::uint64_t first_incomplete,
                           const memgest::CompletionRecord& record) {
    if (record.memgest != from.value()) return;
    ++left;
    if (record.state == memgest::RecordState::kDone && found.size() < kStepRecords)
      found.push_back({client, first_incomplete, record});
  });
  if (Mutant("G10-records")) return 0;
  if (to == nullptr) return left;
  for (const Found& one : found) {
    const std::size_t room = memgest::kEntryHeaderSize + memgest::ShardLog::kCollectRoom;
    if (!log_.HasRoom(*to, room, false)) break;
    const memgest::CompletionRecord& record = one.record;
    memgest::EntryFields fields;
    fields.type = memgest::EntryType::kRecord;
    fields.version = Version(record.version);
    fields.client = one.client;
    fields.seq = record.seq;
    fields.incomplete_delta = static_cast<std::uint16_t>(record.seq - one.first_incomplete);
    fields.request_crc = record.request_crc;
    fields.result_code = record.code;
    drain_order_ = log_.next_order();
    log_.Append(*to, fields, absl::MakeConstSpan(&kNoPayload, 1));
    memgest::CompletionRecord moved = record;
    moved.memgest = to->descriptor().id.value();
    memgest::CompletionTable::Finish(completions_.Find(one.client), one.first_incomplete, moved);
    --left;
  }
  return left;
}

// Tombstones for keys whose newest version lives in the memgest; older versions there just go.
void ShardCoordinator::DropContents(memgest::Memgest& memgest, const memgest::ClientId& dropper) {
  if (drop_order_ >= log_.commit_front()) return;  // the last step's are not committed yet
  const std::uint16_t id = memgest.descriptor().id.value();
  // This start of the node may have coordinated the shard before, and dropped some of it then.
  drop_first_seq_ = drop_seq_ + 1;
  if (!Mutant("G10-again")) {
    drop_first_seq_ = std::max(drop_first_seq_,
                               memgest::CompletionTable::NextSeq(completions_.FindOrAdd(dropper)));
    drop_seq_ = drop_first_seq_ - 1;
  }
  std::size_t dropped = 0;
  for (std::uint32_t i = 0; i < kStepGranules && dropped < kStepDrops; ++i) {
    if (drop_granule_ >= lines_.granule_count()) drop_granule_ = 0;
    if (lines_.granule_count() == 0) return;
    const std::uint32_t first = drop_granule_ * memgest::kLinesPerGranule;
    const memgest::Granule& granule = lines_.granule(first);
    if (granule.used && granule.memgest == id && granule.taken > 0) {
      for (std::uint32_t line = first; line < first + memgest::kLinesPerGranule; ++line) {
        if (lines_.line(line).version == 0) continue;
        if (!DropLine(line, dropper)) return;
        ++dropped;
      }
    }
    ++drop_granule_;
  }
}

// False: no room just now.
bool ShardCoordinator::DropLine(std::uint32_t number, const memgest::ClientId& dropper) {
  const memgest::MetadataLine& line = lines_.line(number);
  if ((line.flags & memgest::kCollecting) != 0 || !committed(number)) return true;
  const absl::string_view key = lines_.Key(number);
  const std::uint64_t hash = KeyHash(key, options_.hash_seed);
  const std::uint32_t* const head = keys_.Find(hash, key);
  RING_CHECK(head != nullptr) << "a live version's key is not in the table";
  if (*head != number) {
    // G1 kept it below a weaker version; the operator gives that protection up. G5 as ever.
    const bool hidden = lines_.line(HighestCommitted(*head)).version > line.version;
    if (hidden && !(tombstone(number) && line.prev != memgest::kNoLine))
      QueueCollection(number, memgest::kNoLine);
    return true;
  }
  if (tombstone(number)) return true;  // goes when what is below it is gone (G5)
  const std::string copy(key.data(), key.size());
  Request request;
  request.operation = protocol::Operation::kDelete;
  request.key = copy;
  request.hash = hash;
  request.client_id = dropper;
  request.client = completions_.FindOrAdd(dropper);
  request.seq = ++drop_seq_;
  request.incomplete_delta = static_cast<std::uint32_t>(request.seq - drop_first_seq_);
  request.reply.connection = ~std::uint32_t{0};  // nobody's
  request.request_crc = RequestCrc(request);
  const bool done = Execute(request);
  drop_order_ = log_.next_order() - 1;
  if (!done) --drop_seq_;
  return done;
}

void ShardCoordinator::RemoveMemgest(MemgestId id) {
  memgest::Memgest* const memgest = FindMemgest(id);
  if (memgest == nullptr) return;
  RING_CHECK(memgest->version_count == 0) << "memgest=" << id.value();
  // Entries that the log has not released refer to it: it goes when they cannot be there any more.
  retired_.push_back({log_.next_order(), std::move(memgests_[id.value()])});
  FreeRetired();
}

// G2, across logs: whoever holds one of its lines yet has the collection in its ring, before what
// others put there. A member that was given up without it joins, or hears of the deletion together
// with its next epoch.
void ShardCoordinator::FreeRetired() {
  std::erase_if(retired_, [this](const Retired& retired) {
    const bool free =
        log_.quiet() || log_.next_order() >= retired.order + memgest::ShardLog::kPendingMax;
    if (!free) return false;
    const MemgestId id = retired.memgest->descriptor().id;
    log_.Detach(retired.memgest.get());
    SaveGranules(lines_, id, &snapshots_);
    lines_.FreeGranules(id);
    return true;
  });
}

}  // namespace ring::coordinator
