#include "memgest/shard_log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "memgest/log_tail.h"
#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {

ShardLog::ShardLog(Epoch epoch, DeltaArena* arena, bool held)
    : epoch_(epoch), arena_(arena), pending_(LogRetention::kEntriesMax), held_(held) {}

ShardLog::~ShardLog() {
  EndCalculations();
  GivePiecesBack();
}

LogWriter* ShardLog::AddWriter(Role role, std::unique_ptr<LogWriter> writer) {
  RING_CHECK(next_order_ == 1) << "a log that has entries: say what the member holds";
  return *AddWriter(role, std::move(writer), {});
}

void ShardLog::Attach(Memgest* memgest, RoleMask active) {
  memgests_.push_back(memgest);
  for (const Link& link : links_) {
    if (Member* const member = memgest->members().Find(link.role)) {
      member->writer = link.writer.get();
      member->behind = link.behind;
    }
  }
  memgest->members().SetActive(active);
}

void ShardLog::Detach(Memgest* memgest) { std::erase(memgests_, memgest); }

bool ShardLog::HasRoom(const Memgest& memgest, std::size_t entry_size, bool reserved) const {
  if (held_ || Full()) return false;
  bool lost = false;
  for (const Member& member : memgest.members()) {
    if (member.writer == nullptr || member.behind) continue;
    if (member.writer->HasRoom(entry_size, reserved)) continue;
    const bool gone = member.writer->broken();
    if (!gone && (member.active || member.proposed)) return false;
    lost |= gone;  // a learner falls behind
  }
  // Entries of any log take others' places in the rings that a broken member is to be sent from.
  const bool enough = lost ? memgest.members().Available() : memgest.members().Enough();
  return enough && MayBeShipped(entry_size);
}

bool ShardLog::Stuck(const Memgest& memgest) const {
  if (held_) return false;
  if (!memgest.members().Available()) return true;
  if (Full() && commit_front_ < next_order_ && !at(commit_front_).memgest->members().Available())
    return true;
  return KeepsForNeeded() && (Full() || !MayBeShipped(kEntrySizeMax));
}

Pending& ShardLog::Append(Memgest& memgest, EntryFields fields,
                          absl::Span<const EntryPayload> payloads) {
  RING_CHECK(!Full() && !held_) << "ask HasRoom before";
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
  trailers_ = {};
  if (!memgest.members().empty()) {
    std::byte* const head = retention_.NextHead();
    head_size = BuildEntryHead(fields, epoch_, head);
    for (std::size_t i = 0; i < memgest.members().size(); ++i) {
      const EntryPayload& payload = payloads[payloads.size() == 1 ? 0 : i];
      const Member& member = memgest.members()[i];
      if (member.writer == nullptr || member.behind || member.writer->broken()) continue;
      if (!member.active && !member.proposed) {
        const std::size_t size =
            head_size + AlignUp(fields.payload_length, kEntryAlignment) + kEntryTrailerSize;
        if (!member.writer->HasRoom(size, false)) {
          FallBehind(member.role, order);
          continue;
        }
      }
      std::uint32_t* const trailer =
          Send(*member.writer, order, {head, head_size}, fields.payload_length, payload);
      if (i < trailers_.size()) trailers_[i] = trailer;
    }
    dirty_ = true;
  }
  retention_.Keep(order, head_size, payloads);
  Pending& pending = at(order);
  pending = Pending{};
  pending.order = order;
  pending.memgest = &memgest;
  pending.line = fields.line;
  pending.type = fields.type;
  return pending;
}

// A BASE is bare for those that it is not for (S6): they fold it as nothing, and indexes stay what
// members have in common.
void ShardLog::SendBare(LogWriter& writer, std::uint64_t order, absl::Span<const std::byte> head) {
  alignas(kEntryAlignment) std::byte bare[kEntryHeaderSize + kCollectRoom];
  RING_CHECK(head.size() <= sizeof(bare)) << "head_size=" << head.size();
  std::memcpy(bare, head.data(), head.size());
  MakeBareBase(bare);
  writer.Append(order, bare, head.size(), 0, EntryPayload());
}

void ShardLog::AwaitCalc(CalcQueue::Job* job) {
  job->log = this;
  job->order = next_order_ - 1;
  job->trailers = trailers_;
  first_calculating_ = std::min(first_calculating_, job->order);
  ++calculating_;
}

void ShardLog::OnCalculated(const CalcQueue::Job& job) {
  RING_CHECK(calculating_ > 0) << "order=" << job.order;
  for (std::size_t i = 0; i < job.calculator->delta_count(); ++i) {
    if (job.trailers[i] != nullptr) *job.trailers[i] = job.crcs[i];
    retention_.SetCrc(job.order, i, job.crcs[i]);
  }
  if (--calculating_ == 0) first_calculating_ = ~std::uint64_t{0};
}

// Whether all that is staged can go.
bool ShardLog::TakeCalculated() {
  calc_queue_->Poll();
  waited_for_calc_ = calculating_ > 0;
  return !waited_for_calc_;
}

void ShardLog::EndCalculations() {
  if (calculating_ > 0) calc_queue_->Settle(this);
}

absl::Status ShardLog::FlushStaged() {
  dirty_ = waited_for_calc_ = false;
  absl::Status result;
  if (behind_count_ > 0) {
    for (Link& link : links_) {
      if (link.behind) Feed(link);
    }
  }
  for (const Link& link : links_) {
    if (link.writer->staged()) result.Update(link.writer->Flush());
    dirty_ |= link.writer->staged();  // its queue was full: it goes out with the next Flush
  }
  return result;
}

void ShardLog::MoveFront() {
  while (commit_front_ < next_order_ && at(commit_front_).committed) ++commit_front_;
}

// What nobody lacks is kept no more, committed or not: puts of other shards need arena bytes, too.
void ShardLog::ReleaseAcked() {
  std::uint64_t kept = retention_.first_kept();
  for (; kept < next_order_; ++kept) {
    Pending& pending = at(kept);
    if (kept >= first_calculating_ || !pending.memgest->members().AckedByAll(pending.order)) break;
    if (pending.has_piece) arena_->GiveBack(pending.piece_segment);
    pending.has_piece = false;
  }
  retention_.Release(kept);
  release_front_ = std::min(commit_front_, kept);
}

// I2: whether some memgest that was used would survive fewer losses than it promises, if this
// member, which may well be alive, had to begin anew: too few others have all of it and a
// connection.
bool ShardLog::IsNeeded(Role role) const {
  const bool as_promised = has_successors_ && !Mutant("I2-needed");
  return std::any_of(memgests_.begin(), memgests_.end(), [=](const Memgest* memgest) {
    if (memgest->failures_tolerated() == 0 || memgest->next_index() == 1) return false;
    const int others = as_promised ? memgest->failures_tolerated() : 1;
    return !memgest->members().MayDoWithout(role, others);
  });
}

bool ShardLog::KeepsForBroken() const {
  return std::any_of(links_.begin(), links_.end(), [](const Link& link) {
    return link.writer->broken() && !link.writer->abandoned();
  });
}

bool ShardLog::KeepsForNeeded() const {
  return std::any_of(links_.begin(), links_.end(), [this](const Link& link) {
    return link.writer->broken() && !link.writer->abandoned() && IsNeeded(link.role);
  });
}

// A broken member gets what it lacks in the next epoch, even if another coordinator begins that
// one: it has no more to send than this, out of the others' rings, where it must be whole. They
// hold PADs, too. Nor does the member's own new ring take more: before Normal it folds nothing.
bool ShardLog::MayBeShipped(std::size_t entry_size) const {
  if (!KeepsForBroken() || (Mutant("step5-ring") && !KeepsForNeeded())) return true;
  std::size_t head_size = kEntryHeadSizeMax;
  std::size_t size = entry_size;
  for (std::uint64_t order = retention_.first_kept(); order < next_order_; ++order) {
    const std::size_t head = retention_.Head(order).size();
    if (head == 0) continue;  // it goes nowhere
    head_size += AlignUp(head, kEntryAlignment);
    size += head + retention_.PayloadBytes(order) + kEntryAlignment + kEntryTrailerSize;
  }
  const auto smallest = std::min_element(
      links_.begin(), links_.end(),
      [](const Link& a, const Link& b) { return a.writer->ring_size() < b.writer->ring_size(); });
  return head_size <= LogRetention::kShippedHeadBytesMax &&
         size <= smallest->writer->ring_size() / 2;
}

bool ShardLog::KeepsAllItMay() const { return Full() || !MayBeShipped(kEntrySizeMax); }

// What only a broken member lacks is all that can be kept, or sent again: the others go on without
// it, unless it is needed. It needs a snapshot then, whatever comes of its node.
void ShardLog::AbandonBroken() {
  while (KeepsAllItMay() && release_front_ < commit_front_) {
    const Pending& oldest = at(release_front_);
    bool abandoned = false;
    for (const Member& member : oldest.memgest->members()) {
      if (member.writer == nullptr || member.writer->acked_order() >= oldest.order) continue;
      if (!member.writer->broken() || member.writer->abandoned()) continue;
      if (IsNeeded(member.role)) continue;
      member.writer->Abandon();
      abandoned = true;
    }
    if (!abandoned) return;
    ReleaseAcked();
  }
}

// Deltas that only a broken member lacks would keep the arena's segments from all shards of the
// node until the epoch changes: they move to memory of their own, many at a time, since there are
// not many such pieces.
void ShardLog::SetDeltasAside() {
  if (!arena_->IsScarce()) return;
  if (std::none_of(links_.begin(), links_.end(), [](const Link& link) {
        return link.writer->broken() && !link.writer->abandoned();
      })) {
    return;
  }
  MoveAside();
}

// All that no member is being sent just now.
void ShardLog::MoveAside() {
  const auto wanted = [this](std::uint64_t order) {
    const Pending& pending = at(order);
    return order < first_calculating_ && pending.has_piece &&
           !arena_->aside(pending.piece_segment) && !pending.memgest->members().BeingSent(order);
  };
  std::size_t size = 0;
  for (std::uint64_t order = retention_.first_kept(); order < next_order_; ++order) {
    if (wanted(order)) size += retention_.PayloadBytes(order);
  }
  if (size == 0) return;
  const absl::StatusOr<DeltaArena::Piece> aside = arena_->TakeAside(size);
  if (!aside.ok()) return;  // they stay where they are, and others wait for them
  std::byte* to = aside->memory;
  for (std::uint64_t order = retention_.first_kept(); order < next_order_; ++order) {
    if (!wanted(order)) continue;
    Pending& pending = at(order);
    to = retention_.MovePayloads(order, to, aside->lkey);
    arena_->GiveBack(pending.piece_segment);
    arena_->Share(aside->segment);
    pending.piece_segment = aside->segment;
  }
  arena_->GiveBack(aside->segment);
}

void ShardLog::EndTurn(bool busy) {
  if (held_) return;
  // Most turns are other shards' turns.
  const std::uint64_t news = News() + commit_front_;
  if (news == turn_news_ && (!unshared_ || busy)) return;
  turn_news_ = news;
  ReleaseAcked();
  if (retention_.first_kept() < next_order_) {
    if (KeepsAllItMay()) AbandonBroken();
    SetDeltasAside();
  }
  unshared_ = false;
  const auto feeds_parity = [this](Role role) {
    return std::any_of(memgests_.begin(), memgests_.end(), [role](Memgest* memgest) {
      return memgest->coded() && memgest->members().Find(role) != nullptr;
    });
  };
  for (const Link& link : links_) {
    const bool early = Mutant("E9") || (Mutant("S1") && feeds_parity(link.role));
    link.writer->AdvanceCommit(early ? next_order_ : commit_front_);
    if (!link.writer->commit_unshared()) continue;
    link.writer->ShareCommit(busy);
    const bool unshared = link.writer->commit_unshared();
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
