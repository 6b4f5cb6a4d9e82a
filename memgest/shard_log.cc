#include "memgest/shard_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {

ShardLog::ShardLog(Epoch epoch, DeltaArena* arena)
    : epoch_(epoch), arena_(arena), pending_(kPendingMax) {}

LogWriter* ShardLog::AddWriter(std::unique_ptr<LogWriter> writer) {
  writers_.push_back(std::move(writer));
  return writers_.back().get();
}

bool ShardLog::HasRoom(const Memgest& memgest, std::size_t entry_size, bool reserved) const {
  if (Full()) return false;
  for (const LogWriter* member : memgest.members()) {
    if (!member->HasRoom(entry_size, reserved)) return false;
  }
  return true;
}

Pending& ShardLog::Append(Memgest& memgest, EntryFields fields,
                          absl::Span<const EntryPayload> payloads) {
  RING_CHECK(!Full()) << "ask HasRoom before";
  const std::uint64_t order = next_order_++;
  fields.memgest = memgest.descriptor().id;
  fields.index = memgest.TakeIndex();

  std::array<CollectItem, kCollectCountMax> items;
  std::size_t item_count = 0;
  auto& waiting = memgest.to_collect();
  while (!waiting.empty() && item_count < kCollectCountMax) {
    items[item_count++] = waiting.front().item;
    memgest.collecting().push_back({order, waiting.front()});
    waiting.pop_front();
  }
  fields.collect = absl::MakeConstSpan(items.data(), item_count);

  std::size_t head_size = 0;
  if (!memgest.members().empty()) {
    std::byte* const head = retention_.NextHead();
    head_size = BuildEntryHead(fields, epoch_, head);
    for (std::size_t i = 0; i < memgest.members().size(); ++i) {
      const EntryPayload& payload = payloads[payloads.size() == 1 ? 0 : i];
      memgest.members()[i]->Append(order, head, head_size, fields.payload_length, payload);
    }
    dirty_ = true;
  }
  retention_.Keep(order, head_size, fields.payload_length, payloads);
  Pending& pending = at(order);
  pending = Pending{};
  pending.order = order;
  pending.memgest = &memgest;
  pending.line = fields.line;
  pending.type = fields.type;
  return pending;
}

absl::Status ShardLog::FlushStaged() {
  dirty_ = false;
  absl::Status result;
  for (const std::unique_ptr<LogWriter>& writer : writers_) {
    if (writer->staged()) result.Update(writer->Flush());
    dirty_ |= writer->staged();  // its queue was full: it goes out with the next Flush
  }
  return result;
}

void ShardLog::MoveFront() {
  while (commit_front_ < next_order_ && at(commit_front_).committed) ++commit_front_;
}

// What all members acknowledged is kept no more, committed or not: puts of other shards need arena
// bytes, too.
void ShardLog::ReleaseAcked() {
  std::uint64_t kept = retention_.first_kept();
  for (; kept < next_order_; ++kept) {
    Pending& pending = at(kept);
    if (!pending.memgest->AckedByAll(pending.order)) break;
    if (pending.has_piece) arena_->GiveBack(pending.piece_segment);
    pending.has_piece = false;
  }
  retention_.Release(kept);
  release_front_ = std::min(commit_front_, kept);
}

void ShardLog::EndTurn(bool busy) {
  // Most turns are other shards' turns.
  const std::uint64_t news = News() + commit_front_;
  if (news == turn_news_ && (!unshared_ || busy)) return;
  turn_news_ = news;
  ReleaseAcked();
  unshared_ = false;
  for (const std::unique_ptr<LogWriter>& writer : writers_) {
    writer->AdvanceCommit(commit_front_);
    if (!writer->commit_unshared()) continue;
    writer->ShareCommit(busy);
    const bool unshared = writer->commit_unshared();
    told_ |= !unshared;
    unshared_ |= unshared;
  }
}

Pending* ShardLog::FindByLine(std::uint32_t line) {
  for (std::uint64_t order = next_order_; order-- > commit_front_;) {
    Pending& pending = at(order);
    if (pending.line == line && !pending.committed) return &pending;
  }
  return nullptr;
}

}  // namespace ring::memgest
