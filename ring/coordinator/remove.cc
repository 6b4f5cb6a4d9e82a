// delete: one tombstone, in a memgest strong enough to outlive every version below it (G4).
#include <algorithm>

#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

namespace {

// V9: OK says that the key was there. That may hang on a version that is not committed only if it
// stands before the tombstone in the same log, and so commits with it: one of another log may yet
// vanish, and its put run again behind the delete that told of it (I3).
bool IsThere(const memgest::LineTable& lines, std::uint32_t head, const memgest::Memgest& home) {
  for (std::uint32_t line = head; line != memgest::kNoLine; line = lines.line(line).prev) {
    const memgest::MetadataLine& version = lines.line(line);
    if ((version.flags & memgest::kTombstone) != 0) return false;
    if ((version.flags & memgest::kCommitted) != 0) return true;
    if (version.memgest == home.descriptor().id.value()) return true;
  }
  return false;
}

}  // namespace

bool ShardCoordinator::Remove(const Request& request) {
  if (CheckOnce(request) == Once::kHandled) return true;
  std::uint32_t* const head = keys_.Find(request.hash, request.key);
  if (head == nullptr) {
    Decide(request, Outcome::kNotFound);
    return true;
  }
  if (!ConditionHolds(request, head)) return true;
  if (tombstone(*head)) {
    if (!committed(*head) && !Mutant("V9-gone"))
      return Defer(request, *head);  // V9: NOT_FOUND only from what is committed
    Decide(request, Outcome::kNotFound);
    return true;
  }
  memgest::Memgest* const home = TombstoneHome(*head);
  if (home == nullptr) {
    Refuse(request, Outcome::kUnavailable);
    return true;
  }
  if (!IsThere(lines_, *head, *home) && !Mutant("V9-delete")) return Defer(request, *head);
  if (!ReserveWrite(*home, request.key.size(), 0, 0, true)) return AwaitRoom(request, *home);
  const absl::StatusOr<memgest::Slot> slot = home->allocator().AllocateTombstone();
  if (!slot.ok()) return AwaitSpace(request, *home);
  Write write;
  write.memgest = home;
  write.type = memgest::EntryType::kTombstone;
  write.slot = *slot;
  CommitToWrite(request, write, head);
  return true;
}

// X7: never one that loses its records with this node, if the shard has another: a retry at the
// next coordinator would delete what was written since.
memgest::Memgest* ShardCoordinator::TombstoneHome(std::uint32_t head) {
  const bool has_strong = std::any_of(memgests_.begin(), memgests_.end(), [](const auto& memgest) {
    return memgest != nullptr && memgest->failures_tolerated() > 0;
  });
  memgest::Memgest* home = nullptr;
  int strongest = has_strong && !Mutant("X7-delete") ? 1 : 0;
  for (std::uint32_t line = head; line != memgest::kNoLine; line = lines_.line(line).prev) {
    memgest::Memgest& memgest = MemgestOf(line);
    if (memgest.failures_tolerated() > strongest) strongest = memgest.failures_tolerated();
    const bool stronger = home == nullptr || (memgest.failures_tolerated() >
                                              home->failures_tolerated()) != Mutant("G4");
    if (memgest.writable() && stronger) home = &memgest;
  }
  if (home != nullptr && (home->failures_tolerated() >= strongest || Mutant("G4"))) return home;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest != nullptr && memgest->writable() && memgest->failures_tolerated() >= strongest)
      return memgest.get();
  }
  // G10: nothing else is as strong as what is being drained: its own log takes tombstones as long
  // as it has versions of the key, and they are collected when those are (G5).
  for (std::uint32_t line = head; line != memgest::kNoLine && !Mutant("G10-strongest");
       line = lines_.line(line).prev) {
    memgest::Memgest& memgest = MemgestOf(line);
    if (memgest.draining() && memgest.failures_tolerated() >= strongest) return &memgest;
  }
  return nullptr;
}

}  // namespace ring::coordinator
