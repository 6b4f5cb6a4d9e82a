// What a commit does: the version becomes visible, its client is answered, waiters run, lower
// versions are collected.
#include <algorithm>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

std::uint32_t ShardCoordinator::NewOperation(const Request& request, memgest::EntryType type) {
  if (free_operation_ == 0) {
    operations_.emplace_back();
    free_operation_ = static_cast<std::uint32_t>(operations_.size());
  }
  const std::uint32_t handle = free_operation_;
  Waiting& operation = operations_[handle - 1];
  free_operation_ = operation.next_free;
  operation = Waiting{};
  operation.reply = request.reply;
  operation.client = request.client;
  operation.seq = request.seq;
  operation.first_incomplete = request.seq - request.incomplete_delta;
  operation.request_crc = request.request_crc;
  operation.kind = type == memgest::EntryType::kTombstone            ? &ShardCounters::deletes
                   : request.operation == protocol::Operation::kMove ? &ShardCounters::moves
                                                                     : &ShardCounters::puts;
  return handle;
}

void ShardCoordinator::Commit() {
  if (is_retired_) return;
  if (log_.HasNews() || collections_queued_) CommitNews();
  if (!undecided_.empty()) ReleaseUndecided();
  if (!ready_.empty() && !log_.held()) RunReady();
}

void ShardCoordinator::CommitNews() {
  log_.AdvanceCommit([this](memgest::Pending& pending) { OnCommit(pending); });
  collections_queued_ = false;  // below all are looked at; what that queues is for the next turn
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr) continue;
    if (memgest->members().empty()) {
      // Rep(1): its log is this node's memory alone, so a collection is committed when it is asked
      // for.
      while (!memgest->to_collect().empty()) {
        const memgest::Collection collection = memgest->to_collect().front();
        memgest->to_collect().pop_front();
        OnCollected(collection);
      }
    }
    log_.DrainCollected(*memgest,
                        [this](const memgest::Collection& collection) { OnCollected(collection); });
  }
}

void ShardCoordinator::OnCommit(memgest::Pending& pending) {
  if (pending.operation == 0) return;  // PART, COLLECT: nothing becomes visible
  snapshots_.Save(pending.line);
  lines_.line(pending.line).flags |= memgest::kCommitted;
  AnswerOperation(pending);
  Waiting& operation = operations_[pending.operation - 1];
  const bool superseded = (lines_.line(pending.line).flags & memgest::kSuperseded) != 0;
  if (!Mutant("V4") || !superseded) ReleaseWaiters(&operation.waiter);
  operation.client = nullptr;  // nobody attaches to it any more
  operation.next_free = free_operation_;
  free_operation_ = pending.operation;
  pending.operation = 0;

  std::uint32_t above = memgest::kNoLine;
  if (superseded) above = CommittedAbove(pending.line);
  if (above == memgest::kNoLine) {
    CountVisible(pending.line);
    CollectBelow(pending.line);
  } else if (Mutant("V3")) {
    QueueCollection(above, memgest::kNoLine);
  } else {
    // V3: a higher version was committed before; this one changes nothing visible.
    CollectBelow(above);
  }
}

void ShardCoordinator::AnswerOperation(const memgest::Pending& pending) {
  const Waiting& operation = operations_[pending.operation - 1];
  const memgest::MetadataLine& line = lines_.line(pending.line);
  memgest::CompletionTable::Finish(operation.client, operation.first_incomplete,
                                   {.seq = operation.seq,
                                    .version = line.version,
                                    .request_crc = operation.request_crc,
                                    .memgest = line.memgest,
                                    .code = static_cast<std::uint8_t>(protocol::Outcome::kOk)});
  ++(counters_.*operation.kind);
  Reply reply;
  // S13: it is committed, on fewer than its memgest promises. A retry finds the record.
  if (log_.AdoptedByFew(pending) && !Mutant("S13-unknown"))
    reply.outcome = protocol::Outcome::kUnknown;
  reply.version = Version(line.version);
  reply.memgest = MemgestId(line.memgest);
  reply.value_length = line.value_length;
  reply.value_crc = line.value_crc;
  sink_->Answer(operation.reply, reply, *this);
}

std::uint32_t ShardCoordinator::CommittedAbove(std::uint32_t line) {
  const absl::string_view key = lines_.Key(line);
  const std::uint32_t* const entry = keys_.Find(KeyHash(key, options_.hash_seed), key);
  RING_CHECK(entry != nullptr) << "a superseded version's key is not in the table";
  const std::uint32_t highest = HighestCommitted(*entry);
  return highest == line ? memgest::kNoLine : highest;
}

void ShardCoordinator::CountVisible(std::uint32_t line) {
  for (std::uint32_t lower = lines_.line(line).prev; lower != memgest::kNoLine;
       lower = lines_.line(lower).prev) {
    if (!committed(lower)) continue;
    if (!tombstone(lower)) {
      memgest::Memgest& memgest = MemgestOf(lower);
      --memgest.key_count;
      memgest.logical_bytes -= lines_.line(lower).value_length;
    }
    break;
  }
  if (tombstone(line)) return;
  memgest::Memgest& memgest = MemgestOf(line);
  ++memgest.key_count;
  memgest.logical_bytes += lines_.line(line).value_length;
}

void ShardCoordinator::CollectBelow(std::uint32_t number) {
  // Of this version and the committed ones below it, as far as the walk came.
  bool explicit_move = (lines_.line(number).flags & memgest::kExplicit) != 0;
  int strength = MemgestOf(number).failures_tolerated();
  std::uint32_t upper = number;
  for (std::uint32_t lower = lines_.line(number).prev; lower != memgest::kNoLine;
       upper = lower, lower = lines_.line(lower).prev) {
    const memgest::MetadataLine& line = lines_.line(lower);
    // G3: never collected; its readers have their answer (V4)
    if ((line.flags & memgest::kCommitted) == 0 && !Mutant("G3")) {
      if (deferred_count_ > 0) {
        memgest::Pending* const pending = log_.FindByLine(lower);
        if (pending != nullptr && pending->operation != 0) {
          ReleaseWaiters(&operations_[pending->operation - 1].waiter);
        }
      }
      continue;
    }
    // G1: Rep(1) dominates only what is no stronger than itself, unless its user asked for it by a
    // move; and then from below: what is older, and in flight or in a memgest that cannot commit
    // its collection now, would be all that is left of the key when Rep(1) is lost.
    const int own = MemgestOf(lower).failures_tolerated();
    const bool last = line.prev == memgest::kNoLine || Mutant("G1-last");
    const bool moved = (line.flags & memgest::kExplicit) != 0;
    const bool dominated = strength >= 1 || (strength >= own && (!moved || last)) ||
                           (explicit_move && last) || Mutant("G1");
    strength = std::max(strength, own);
    explicit_move |= moved;
    // G5: a tombstone goes once nothing is left below it, whatever is above.
    const bool goes = tombstone(lower) ? line.prev == memgest::kNoLine : dominated;
    if (goes && (line.flags & memgest::kCollecting) == 0) QueueCollection(lower, upper);
  }
}

}  // namespace ring::coordinator
