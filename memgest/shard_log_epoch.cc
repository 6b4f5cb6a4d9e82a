// ShardLog in an epoch change (steps 5 and 6), and learners (L7).
//
// A writer knows one number, the order up to which its member has everything (ADR 0008). A member
// that holds some of the kept entries and lacks others gets each of those under the order before
// the next one that it lacks: when that is acknowledged, all in between is there as well.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/shard_log.h"
#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {

// Once more in the same epoch when a shard that stopped in it goes on (E8): nothing was appended.
void ShardLog::BeginEpoch(Epoch epoch) {
  RING_CHECK(epoch > epoch_ || (epoch == epoch_ && held_))
      << "epoch=" << epoch.value() << " present=" << epoch_.value();
  EndCalculations();  // the CRCs go to what is kept, and to writers that are still there
  epoch_ = epoch;
  held_ = true;
  for (Memgest* const memgest : memgests_) memgest->members().DropWriters();
  links_.clear();
  behind_count_ = 0;
  dirty_ = unshared_ = false;
  caught_up_mark_ = next_order_ - 1;
  retention_.SetEpoch(next_order_, epoch);
  ForgetNews();
  // F11: it may be held for long, and meanwhile gives nothing back to the other shards.
  if (!Mutant("F11-held")) MoveAside();
}

void ShardLog::Retire() {
  EndCalculations();
  held_ = true;
  for (Memgest* const memgest : memgests_) memgest->members().DropWriters();
  memgests_.clear();
  links_.clear();
  behind_count_ = 0;
  dirty_ = unshared_ = false;
  GivePiecesBack();
}

void ShardLog::GivePiecesBack() {
  for (std::uint64_t order = retention_.first_kept(); order < next_order_; ++order) {
    if (at(order).has_piece) arena_->GiveBack(at(order).piece_segment);
    at(order).has_piece = false;
  }
}

const ShardLog::Link* ShardLog::FindLink(Role role) const {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [role](const Link& link) { return link.role == role; });
  return found == links_.end() ? nullptr : &*found;
}

ShardLog::Link* ShardLog::FindLink(Role role) {
  return const_cast<Link*>(std::as_const(*this).FindLink(role));
}

void ShardLog::RemoveWriter(Role role) {
  Link* const link = FindLink(role);
  if (link == nullptr) return;
  EndCalculations();
  for (Memgest* const memgest : memgests_) {
    Member* const member = memgest->members().Find(role);
    if (member == nullptr) continue;
    RING_CHECK(held_ || (!member->active && !member->proposed)) << "role=" << role.value();
    member->writer = nullptr;
  }
  SetBehind(*link, false);
  links_.erase(links_.begin() + (link - links_.data()));
  ForgetNews();
}

bool ShardLog::IsBehind(Role role) const {
  const Link* const link = FindLink(role);
  return link != nullptr && link->behind;
}

bool ShardLog::Counts(Role role) const {
  return std::any_of(memgests_.begin(), memgests_.end(), [role](Memgest* memgest) {
    const Member* const member = memgest->members().Find(role);
    return member != nullptr && (member->active || member->proposed);
  });
}

bool ShardLog::IsHeldUpBy(Role role) const {
  const Link* const link = FindLink(role);
  if (link == nullptr || held_ || !Full() || release_front_ == next_order_) return false;
  return at(release_front_).memgest->members().Find(role) != nullptr &&
         link->writer->acked_order() < release_front_;
}

// Whether the entry is one that the link's member should have and does not.
bool ShardLog::Lacks(const Link& link, std::uint64_t order) const {
  Memgest& memgest = *at(order).memgest;
  if (memgest.members().Find(link.role) == nullptr) return false;
  for (const SealedLog& log : link.held) {
    if (log.memgest == memgest.descriptor().id) return retention_.Index(order) > log.last;
  }
  return true;
}

std::uint64_t ShardLog::NextLacked(const Link& link, std::uint64_t order) const {
  while (order < next_order_ && !Lacks(link, order)) ++order;
  return order;
}

absl::Status ShardLog::CheckKept(const Link& link, const Memgest& memgest) const {
  std::uint64_t last = 0;
  for (const SealedLog& log : link.held) {
    if (log.memgest == memgest.descriptor().id) last = log.last;
  }
  const auto what = [&] {
    return absl::StrCat("role=", link.role.value(), " memgest=", memgest.descriptor().id.value(),
                        " last=", last, ", next_index=", memgest.next_index());
  };
  if (last >= memgest.next_index()) {
    return absl::FailedPreconditionError(absl::StrCat(what(), ": it has more than there is"));
  }
  if (last + 1 == memgest.next_index()) return absl::OkStatus();
  const std::uint64_t first = std::max(retention_.first_kept(), memgest.reused_order + 1);
  for (std::uint64_t order = first; order < next_order_; ++order) {
    if (at(order).memgest != &memgest) continue;
    if (retention_.Index(order) <= last + 1) return absl::OkStatus();
    break;
  }
  return absl::OutOfRangeError(absl::StrCat(what(), ": what it lacks is kept no more"));
}

absl::StatusOr<LogWriter*> ShardLog::AddWriter(Role role, std::unique_ptr<LogWriter> writer,
                                               absl::Span<const SealedLog> held) {
  RING_CHECK(FindLink(role) == nullptr) << "role=" << role.value() << " has a writer";
  Link link;
  link.role = role;
  link.held.assign(held.begin(), held.end());
  for (Memgest* const memgest : memgests_) {
    if (memgest->members().Find(role) == nullptr) continue;
    RING_RETURN_IF_ERROR(CheckKept(link, *memgest));
  }
  link.next_order = NextLacked(link, retention_.first_kept());
  LogWriter* const added = writer.get();
  added->StartAt(link.next_order - 1);
  link.writer = std::move(writer);
  links_.push_back(std::move(link));
  for (Memgest* const memgest : memgests_) {
    Member* const member = memgest->members().Find(role);
    if (member == nullptr) continue;
    member->writer = added;
    if (Mutant("L7") && !held_) member->active = true;
  }
  if (links_.back().next_order < next_order_) SetBehind(links_.back(), true);
  ForgetNews();
  return added;
}

void ShardLog::SetBehind(Link& link, bool behind) {
  behind_count_ += (behind ? 1 : 0) - (link.behind ? 1 : 0);
  link.behind = behind;
  for (Memgest* const memgest : memgests_) {
    if (Member* const member = memgest->members().Find(link.role)) member->behind = behind;
  }
  if (!behind) link.held.clear();
}

void ShardLog::FallBehind(Role role, std::uint64_t order) {
  Link& link = *FindLink(role);
  link.next_order = order;
  SetBehind(link, true);
}

void ShardLog::Feed(Link& link) {
  if (link.writer->broken()) return;  // what it lacks may be kept no more
  while (link.next_order < next_order_) {
    const std::uint64_t order = link.next_order;
    const MemberSet& members = at(order).memgest->members();
    const absl::Span<const std::byte> head = retention_.Head(order);
    std::size_t place = 0;
    while (members[place].role != link.role) ++place;
    const std::size_t payload_length = retention_.PayloadLength(order, place);
    const std::size_t size =
        head.size() + AlignUp(payload_length, kEntryAlignment) + kEntryTrailerSize;
    if (!link.writer->HasRoom(size, true)) return;  // it goes on behind acknowledgements
    const std::uint64_t next = NextLacked(link, order + 1);
    Send(*link.writer, next - 1, head, payload_length, retention_.Payload(order, place));
    link.next_order = next;
    dirty_ = true;
  }
  SetBehind(link, false);
}

absl::Status ShardLog::Adopt(Memgest& memgest, absl::Span<const std::byte> head,
                             absl::Span<const EntryPayload> payloads,
                             const DeltaArena::Piece* piece) {
  RING_CHECK(held_ && links_.empty());
  EntryHeader header;
  RING_CHECK(head.size() >= sizeof(header) && head.size() <= kEntryHeadSizeMax)
      << "head_size=" << head.size();
  std::memcpy(&header, head.data(), sizeof(header));
  if (Full()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "memgest=", memgest.descriptor().id.value(), " index=", header.index,
        ": too much was lacked to send all of it again: who lacks it needs a snapshot"));
  }
  const std::uint64_t order = next_order_++;
  std::memcpy(retention_.NextHead(), head.data(), head.size());
  EntryPayload bare;
  bare.withheld = true;
  if (header.type == EntryType::kBase) payloads = absl::MakeConstSpan(&bare, 1);
  retention_.Keep(order, head.size(), payloads);
  retention_.SetEpoch(next_order_, epoch_);
  Pending& pending = at(order);
  pending = Pending{};
  pending.order = order;
  pending.memgest = &memgest;
  pending.line = header.line;
  pending.type = header.type;
  pending.has_piece = piece != nullptr;
  if (piece != nullptr) pending.piece_segment = piece->segment;
  caught_up_mark_ = order;
  return absl::OkStatus();
}

bool ShardLog::CaughtUp(Role role) const {
  const Link* const link = FindLink(role);
  if (link == nullptr) return false;
  // A writer acknowledges what went to it: the last entries may be of logs without this role.
  std::uint64_t last = caught_up_mark_;
  while (last >= retention_.first_kept() && last > link->writer->acked_order() &&
         at(last).memgest->members().Find(role) == nullptr) {
    --last;
  }
  return last < retention_.first_kept() || last <= link->writer->acked_order();
}

void ShardLog::Normal() {
  RING_CHECK(held_);
  for (const Memgest* const memgest : memgests_) {
    for (const Member& member : memgest->members()) {
      RING_CHECK(!member.active || CaughtUp(member.role))
          << "role=" << member.role.value() << " is named and lacks entries";
    }
  }
  held_ = false;
  adopted_end_ = next_order_;
  ForgetNews();
}

}  // namespace ring::memgest
