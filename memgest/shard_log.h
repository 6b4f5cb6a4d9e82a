// memgest/shard_log.h — the log of one shard at its coordinator: append to the members, learn what
// is committed.
//
// What:      Gives every appended entry an order; sends it to the writers of its memgest's members;
//            an entry is committed when its memgest's commit rule holds. Orders below
//            commit_front() are all committed, which is what members may fold (E9).
//            An entry whose deltas the device calculates is staged at once, and keeps what is
//            staged from being posted until it has them: entries leave in order.
// Shape:     at most kPendingMax entries are uncommitted, or not acknowledged by some member, or
//            behind such a one. That long they can be sent again (log_retention.h).
//            In an epoch change the log is held: it takes no entries and commits nothing, while
//            members get what they lack (shard_log_epoch.cc).
// Ownership: owns the writers.
// Threads:   one, the node's.
// Errors:    HasRoom false: nothing was done, ask again after completions. Flush passes on what
//            posting says.
// Cost:      per entry: one head built where it is kept, copied and summed per member; per commit:
//            one compare per member.
// Source:    docs/GLOSSARY.md (commit position); rules E5, E9, L6.
#ifndef RING_MEMGEST_SHARD_LOG_H_
#define RING_MEMGEST_SHARD_LOG_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memgest/calc_queue.h"
#include "memgest/delta_arena.h"
#include "memgest/log_entry.h"
#include "memgest/log_retention.h"
#include "memgest/log_writer.h"
#include "memgest/memgest.h"
#include "memgest/sealed_ring.h"
#include "ring/base/id.h"
#include "ring/base/mutant.h"

namespace ring::memgest {

// An appended entry until it is committed, with what the coordinator needs then.
struct Pending {
  std::uint64_t order = 0;
  Memgest* memgest = nullptr;
  std::uint32_t line = kNoLine;
  EntryType type = EntryType::kPut;
  bool committed = false;
  bool has_piece = false;  // arena bytes to give back once it is kept no more
  std::uint8_t piece_segment = 0;
  std::uint32_t operation = 0;  // the coordinator's handle of who waits for it; 0: nobody
};

class ShardLog {
 public:
  // No more than can be sent to a member that has nothing of it, whoever does so.
  static constexpr std::uint64_t kPendingMax = LogRetention::kShippedMax;

  // held: of a shard that is taken over; it waits for the epoch's Normal.
  ShardLog(Epoch epoch, DeltaArena* arena, bool held = false);
  ~ShardLog();

  // The writer towards a role's holder.
  struct Link {
    Role role;
    std::unique_ptr<LogWriter> writer;
    // A writer that is behind gets its entries out of what is kept, from this order on; of each log
    // those beyond `held`.
    bool behind = false;
    std::uint64_t next_order = 0;
    std::vector<SealedLog> held;
  };
  // Adds the writer towards a member; stable address. Memgests that have the role get it. REQUIRES:
  // nothing was appended yet.
  LogWriter* AddWriter(Role role, std::unique_ptr<LogWriter> writer);
  const std::vector<Link>& links() const { return links_; }

  // A log of this shard. Its members get their writers from here; `active` of them count.
  void Attach(Memgest* memgest, RoleMask active);
  // REQUIRES: no entry of it is pending.
  void Detach(Memgest* memgest);

  // Whether an entry of this size can go now to every member of the memgest that counts and is not
  // gone, and enough are left (V5: reserved before the step).
  bool HasRoom(const Memgest& memgest, std::size_t entry_size, bool reserved) const;

  // Appends one entry: takes order and index, attaches waiting collections of this log (G2), sends
  // it to the members. payloads: one for all members, or one a member; those of a BASE may be
  // withheld from some. REQUIRES: HasRoom(EntrySize + kCollectRoom).
  Pending& Append(Memgest& memgest, EntryFields fields, absl::Span<const EntryPayload> payloads);
  // Room for a full collect list, to be added to what HasRoom is asked.
  static constexpr std::size_t kCollectRoom = kCollectCountMax * sizeof(CollectItem) + 64;

  // calc_queue.h: where the device may calculate deltas. Null: nowhere.
  void set_calc_queue(CalcQueue* queue) { calc_queue_ = queue; }
  // Null: not now. While entries wait for CALCs of an earlier turn nothing joins them that would
  // keep them longer.
  CalcQueue* calc_queue() const { return waited_for_calc_ ? nullptr : calc_queue_; }
  // The last entry's payloads are this job's deltas. REQUIRES: calc_queue() took the job since the
  // entry before.
  void AwaitCalc(CalcQueue::Job* job);
  // The deltas of an entry are there: by the queue, once for each AwaitCalc.
  void OnCalculated(const CalcQueue::Job& job);
  // Some entry, and some slot, waits for its CALC.
  bool calculating() const { return calculating_ > 0; }
  // Afterwards none does.
  void EndCalculations();

  // Room for this memgest's entries will not come back before the epoch changes: too few of its
  // members are left, or of another memgest's and what waits for them fills the log.
  bool Stuck(const Memgest& memgest) const;
  // Whether nobody can read, or be sent again, what was appended to this log up to the order: what
  // its entries refer to may be used again (G2).
  bool MayReuse(Memgest& memgest, std::uint64_t order) const {
    if (held_ || (order >= retention_.first_kept() && !memgest.members().AckedByAll(order))) {
      return false;
    }
    memgest.reused_order = std::max(memgest.reused_order, order);
    return true;
  }

  // The epoch change (steps 5 and 6) at a coordinator that lives on, or takes over.
  // Drops all writers: nothing they are told counts any more (L6). From here to Normal nothing is
  // appended, committed or told. What was appended belongs to the new epoch. REQUIRES: epoch is
  // higher, or the present one and not Normal yet; the queue pairs of the writers are reset.
  void BeginEpoch(Epoch epoch);
  // A fresh ring at this role's holder, which has of each log what `held` says: its last index
  // (SealedLog::last), 0 where it says nothing. The entries beyond go there, in order, as they were
  // appended; its acknowledgement of the others is taken as given. Outside of an epoch change: a
  // learner, with what its snapshot says. Errors, without effect: kOutOfRange, something it lacks
  // is not kept any more, and it needs a snapshot; kFailedPrecondition, it has more than there is.
  absl::StatusOr<LogWriter*> AddWriter(Role role, std::unique_ptr<LogWriter> writer,
                                       absl::Span<const SealedLog> held);
  // Taking over: an entry of a log that was adopted, as it was appended there, for members that
  // lack it; in order of each log, and of every log all up to its last. payloads: as for Append.
  // Of a BASE nothing but its index goes on: who was rebuilt by it gets what it lacks anew (S6).
  // piece: arena memory that they stand in (TakeAside), given back when nobody lacks the entry, or
  // null. Errors: kResourceExhausted, more than can be kept. REQUIRES: held; no writer was added.
  absl::Status Adopt(Memgest& memgest, absl::Span<const std::byte> head,
                     absl::Span<const EntryPayload> payloads, const DeltaArena::Piece* piece);
  // Whether the role's holder has all that was appended before the epoch, or before the last
  // Propose: who is named in a Normal must.
  bool CaughtUp(Role role) const;
  // The first Normal of the epoch was applied, and the memgests know whom it names: what was
  // appended before is committed, whatever the size of the sets. REQUIRES: who is named is
  // CaughtUp.
  void Normal();
  // The writer towards a role that does not count is of no use any more. REQUIRES: no memgest has
  // the role active or proposed; its queue pair is reset before the device does anything.
  void RemoveWriter(Role role);
  // Whether the role's entries come out of what is kept, because its ring was full.
  bool IsBehind(Role role) const;
  // Whether some entries wait for this role's acknowledgement.
  bool Counts(Role role) const;
  // Nothing more can be appended before this role acknowledges what it lacks.
  bool IsHeldUpBy(Role role) const;
  // L7: a further Normal is to be proposed. Call MemberSet::Propose first; then, when everyone it
  // names is CaughtUp, propose.
  void MarkProposal() { caught_up_mark_ = next_order_ - 1; }
  // The role is lost: writers and arena bytes go, nothing is appended or committed any more.
  // REQUIRES: as BeginEpoch.
  void Retire();
  bool held() const { return held_; }
  // Whether another coordinator takes over when this one is lost. Else nobody would profit from
  // what a broken member has: the others go on without it if one of them has as much.
  void set_has_successors(bool has) { has_successors_ = has; }
  // Who counts has changed: what waits is looked at again.
  void ForgetNews() { commit_news_ = turn_news_ = ~std::uint64_t{0}; }
  // S13: the order was committed by a Normal that names too few of its memgest.
  bool AdoptedByFew(const Pending& pending) const {
    return pending.order < adopted_end_ && !pending.memgest->members().Enough();
  }

  // Posts what is staged, one chain a member.
  absl::Status Flush() {
    if (calculating_ > 0 && !TakeCalculated()) return absl::OkStatus();
    return dirty_ || behind_count_ > 0 ? FlushStaged() : absl::OkStatus();
  }
  // Flush has something to do, without waiting for anybody.
  bool dirty() const { return dirty_ && calculating_ == 0; }

  // Calls on_commit(Pending&) for every entry that became committed, in order of each log.
  template <class OnCommit>
  void AdvanceCommit(OnCommit on_commit) {
    if (held_) return;
    commit_news_ = News();
    for (std::uint64_t order = commit_front_; order < next_order_; ++order) {
      Pending& pending = at(order);
      if (pending.committed) continue;
      if (order >= adopted_end_ && !pending.memgest->members().Satisfied(order)) continue;
      pending.committed = true;
      on_commit(pending);
    }
    MoveFront();
  }

  // Whether AdvanceCommit or DrainCollected can find anything: something was appended or
  // acknowledged, or a member was lost, since the last AdvanceCommit.
  bool HasNews() const { return News() != commit_news_; }

  // Tells members the commit position where E5 asks for it, and gives acknowledged bytes back. Once
  // a turn. busy: further entries are likely soon.
  void EndTurn(bool busy = false);
  // Whether a member was told a commit position since the last call.
  bool TakeTold() { return std::exchange(told_, false); }

  // Visits collections that are committed and that nobody lacks (G2), and drops them.
  template <class OnCollected>
  void DrainCollected(Memgest& memgest, OnCollected on_collected) {
    auto& queue = memgest.collecting();
    while (!queue.empty() && IsCommitted(queue.front().order) &&
           (MayReuse(memgest, queue.front().order) || Mutant("G2"))) {
      const Collection collection = queue.front().collection;
      queue.pop_front();
      on_collected(collection);
    }
  }

  bool IsCommitted(std::uint64_t order) const {
    return order < commit_front_ || (order < next_order_ && at(order).committed);
  }
  // Entries of this log that are not committed: its last ones, as a log commits in order.
  std::uint64_t UncommittedCount(const Memgest& memgest) const {
    std::uint64_t count = 0;
    for (std::uint64_t order = commit_front_; order < next_order_; ++order) {
      count += at(order).memgest == &memgest && !at(order).committed ? 1 : 0;
    }
    return count;
  }
  std::uint64_t commit_front() const { return commit_front_; }
  // What was adopted is committed here, too, and what each of it said was acted upon.
  bool adopted_all() const { return commit_front_ >= adopted_end_; }
  std::uint64_t next_order() const { return next_order_; }
  // Everything appended is committed, lacked by nobody, and the members were told.
  bool quiet() const {
    return release_front_ == next_order_ && !unshared_ && !held_ && behind_count_ == 0;
  }
  Epoch epoch() const { return epoch_; }
  // The pending entry that made this line, newest first; null if it is committed and gone.
  Pending* FindByLine(std::uint32_t line);

 private:
  // Grows with every event that can move an entry on: all of its parts only grow.
  std::uint64_t News() const {
    std::uint64_t news = next_order_;
    for (const Link& link : links_) {
      news += link.writer->acked_order() + (link.writer->broken() ? 1 : 0);
    }
    return news;
  }
  absl::Status FlushStaged();
  bool TakeCalculated();
  // Gives where the payload's CRC is staged; null: nowhere.
  static std::uint32_t* Send(LogWriter& writer, std::uint64_t order,
                             absl::Span<const std::byte> head, std::size_t payload_length,
                             const EntryPayload& payload) {
    if (!payload.withheld)
      return writer.Append(order, head.data(), head.size(), payload_length, payload);
    SendBare(writer, order, head);
    return nullptr;
  }
  static void SendBare(LogWriter& writer, std::uint64_t order, absl::Span<const std::byte> head);
  Pending& at(std::uint64_t order) { return pending_[order % LogRetention::kEntriesMax]; }
  const Pending& at(std::uint64_t order) const {
    return pending_[order % LogRetention::kEntriesMax];
  }
  Link* FindLink(Role role);
  const Link* FindLink(Role role) const;
  void SetBehind(Link& link, bool behind);
  void FallBehind(Role role, std::uint64_t order);
  bool Lacks(const Link& link, std::uint64_t order) const;
  std::uint64_t NextLacked(const Link& link, std::uint64_t order) const;
  absl::Status CheckKept(const Link& link, const Memgest& memgest) const;
  void Feed(Link& link);
  void MoveFront();
  void ReleaseAcked();
  bool IsNeeded(Role role) const;
  bool KeepsForBroken() const;
  bool KeepsForNeeded() const;
  void GivePiecesBack();
  bool MayBeShipped(std::size_t entry_size) const;
  void AbandonBroken();
  void SetDeltasAside();
  void MoveAside();
  bool Full() const { return next_order_ - release_front_ >= kPendingMax || !retention_.HasRoom(); }
  bool KeepsAllItMay() const;

  Epoch epoch_;
  DeltaArena* arena_;
  std::vector<Link> links_;
  std::vector<Memgest*> memgests_;
  std::vector<Pending> pending_;
  std::uint64_t next_order_ = 1;
  std::uint64_t commit_front_ = 1;   // every order below is committed
  std::uint64_t release_front_ = 1;  // every order below is committed, and kept no more
  std::uint64_t adopted_end_ = 0;    // every order below was committed by a Normal
  std::uint64_t caught_up_mark_ = 0;
  int behind_count_ = 0;  // links
  bool has_successors_ = true;
  bool held_ = false;
  bool dirty_ = false;
  bool unshared_ = false;  // some member waits to hear of a commit position
  bool told_ = false;
  std::uint64_t commit_news_ = 0;  // News at the last AdvanceCommit
  std::uint64_t turn_news_ = 0;    // ... and at the last EndTurn, with its commit_front_
  LogRetention retention_;
  CalcQueue* calc_queue_ = nullptr;
  std::uint64_t calculating_ = 0;                        // entries
  std::uint64_t first_calculating_ = ~std::uint64_t{0};  // no order below is one of them
  bool waited_for_calc_ = false;                         // what is staged, in a Flush
  decltype(CalcQueue::Job::trailers) trailers_{};        // of the last entry
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SHARD_LOG_H_
