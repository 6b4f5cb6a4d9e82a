// The epoch change at a coordinator that keeps its role: the state stays, the members change.
#include <algorithm>
#include <utility>

#include "memgest/coordinator_snapshot.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

void ShardCoordinator::BeginEpoch(Epoch epoch) {
  EndDegradedReads();
  snapshots_.AbandonAll();  // whom they are for joins anew
  options_.epoch = epoch;
  tenure_counter_ = 0;  // V1: the epoch makes its versions new
  served_ |= !log_.held();
  log_.BeginEpoch(epoch);
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest != nullptr) memgest->allocator().ThawAll();  // S2
  }
}

void ShardCoordinator::SkipVersions(std::uint64_t up_to) {
  RING_CHECK(up_to >= tenure_counter_ && up_to <= Version::kCounterMax) << "up_to=" << up_to;
  tenure_counter_ = up_to;
}

void ShardCoordinator::ApplyNormal(absl::Span<const NamedSet> sets) {
  for (const NamedSet& set : sets) {
    memgest::Memgest* const memgest = FindMemgest(set.memgest);
    if (memgest == nullptr) continue;
    memgest->members().SetActive(set.roles, set.complete);
    memgest->rebuild().OnNormal(set.roles, set.incomplete, log_.held());
    rebuilding_ |= memgest->rebuild().active();
    release_due_ |= memgest->allocator().release_due();
  }
  if (log_.held()) log_.Normal();
  log_.ForgetNews();
}

void ShardCoordinator::Propose(absl::Span<const NamedSet> sets) {
  for (const NamedSet& set : sets) {
    memgest::Memgest* const memgest = FindMemgest(set.memgest);
    if (memgest != nullptr) memgest->members().Propose(set.roles);
  }
  log_.MarkProposal();
}

absl::StatusOr<ShardCoordinator::Learner> ShardCoordinator::AddLearner(
    Role role, std::unique_ptr<memgest::LogWriter> writer, std::uint64_t snapshot_id,
    std::size_t piece_size) {
  RING_CHECK(!log_.held()) << "role=" << role.value() << " joins before Normal";
  // X7: a record that a drain moves is called the new log's already, and until its RECORD is
  // committed nobody else need have it there: a snapshot without that log would have it nowhere.
  if (drain_order_ >= log_.commit_front() && !Mutant("X7-join"))
    return absl::UnavailableError("records that a drain moved are not committed yet");
  // Lines show what was adopted already: it would be in the snapshot, and come by the ring again.
  if (!log_.adopted_all() && !Mutant("L7-adopted"))
    return absl::UnavailableError("what was taken over is not committed here yet");
  std::vector<memgest::Memgest*> logs;
  std::vector<memgest::SealedLog> held;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || memgest->members().Find(role) == nullptr) continue;
    logs.push_back(memgest.get());
    const std::uint64_t last = memgest->next_index() - 1 - log_.UncommittedCount(*memgest);
    held.push_back({memgest->descriptor().id, last, last});
  }
  Learner learner;
  RING_ASSIGN_OR_RETURN(learner.writer, log_.AddWriter(role, std::move(writer), held));
  for (memgest::Memgest* const memgest : logs) {
    if (!memgest->coded()) continue;
    learner.parities.emplace_back(memgest->descriptor().id, memgest->rebuild().Begin(role));
    rebuilding_ |= memgest->rebuild().active();
  }
  learner.snapshot = TakeSnapshot(snapshot_id, logs, piece_size);
  return learner;
}

std::shared_ptr<memgest::SnapshotCursor> ShardCoordinator::TakeSnapshot(
    std::uint64_t id, absl::Span<memgest::Memgest* const> logs, std::size_t piece_size) {
  std::shared_ptr<memgest::SnapshotCursor> snapshot = memgest::TakeCoordinatorSnapshot(
      id, lines_, completions_, log_, logs, lingering_, piece_size);
  snapshots_.Add(snapshot);
  return snapshot;
}

void ShardCoordinator::RemoveMember(Role role) {
  log_.RemoveWriter(role);
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || !memgest->coded()) continue;
    const memgest::Member* const member = memgest->members().Find(role);
    if (member != nullptr && !member->active) memgest->rebuild().End(role);
  }
}

bool ShardCoordinator::HasLargeWriteUpTo(std::uint64_t last) const {
  return std::any_of(
      large_writes_.begin(), large_writes_.end(),
      [last](const std::unique_ptr<LargeWrite>& write) { return write->token() <= last; });
}

}  // namespace ring::coordinator
