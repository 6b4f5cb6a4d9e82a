// move: the highest version again, as a new version in another memgest; the value does not leave
// this node's memory.
#include "memgest/srs_memgest.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

bool ShardCoordinator::Move(const Request& request) {
  if (CheckOnce(request) == Once::kHandled) return true;
  memgest::Memgest* const target = FindMemgest(request.memgest);
  if (target == nullptr || target->descriptor().state == protocol::MemgestState::kDeleted) {
    RefuseUnknown(request);
    return true;
  }
  std::uint32_t* const head = keys_.Find(request.hash, request.key);
  if (head == nullptr) {
    Decide(request, Outcome::kNotFound);
    return true;
  }
  // G7: only the highest version, and only once it is committed, may be copied.
  if (!committed(*head)) return Defer(request, *head);
  if (tombstone(*head)) {
    Decide(request, Outcome::kNotFound);
    return true;
  }
  if (!ConditionHolds(request, head)) return true;
  const memgest::MetadataLine& source = lines_.line(*head);
  if (source.memgest == request.memgest.value() && !Mutant("G9")) {
    ++counters_.moves;
    Remember(request, Outcome::kOk, Version(source.version));
    AnswerLine(request, *head, false);
    return true;
  }
  if (!target->writable()) {
    RefuseWrite(request, *target);
    return true;
  }
  if (absent(*head)) return AwaitValue(request, *head);  // G8
  if (source.value_length > memgest::kPayloadSizeMax) {
    return LargeWrite::StartMove(*this, request, *target, *head);
  }
  return MoveSmall(request, *target, head);
}

bool ShardCoordinator::MoveSmall(const Request& request, memgest::Memgest& target,
                                 std::uint32_t* head) {
  const std::uint32_t from = *head;
  const std::uint32_t length = lines_.line(from).value_length;
  if (!ReserveWrite(target, request.key.size(), length, 0, false))
    return AwaitRoom(request, target);
  const bool ranged =
      length > target.descriptor().block_size || (lines_.line(from).flags & memgest::kLarge) != 0;
  if (ranged)
    return LargeWrite::StartMove(*this, request, target, from);  // blocks smaller than a payload
  const absl::StatusOr<memgest::Slot> slot = target.allocator().Allocate(length);
  if (!slot.ok()) return AwaitSpace(request, target);

  Write write;
  write.memgest = &target;
  write.slot = *slot;
  write.value_length = length;
  write.value_crc = lines_.line(from).value_crc;
  // V10: a move keeps the expiry
  write.expiry_ns = Mutant("V10") ? 0 : lines_.line(from).expiry_ns;
  write.explicit_move = true;
  std::uint32_t crc = 0;
  if (length > 0) {
    const std::byte* const bytes = MemgestOf(from).heap().At(lines_.line(from).offset_cells);
    if (target.coded()) {
      write.piece = arena_->Take(memgest::DeltaSize(target, length));
      if (write.piece.memory == nullptr) {
        target.allocator().Abandon(*slot, {});
        return AwaitRoom(request, target);
      }
      write.coded_value = bytes;
      crc = Crc32c(bytes, length);
    } else {
      crc = Crc32cCopy(target.heap().At(slot->offset_cells), bytes, length);
    }
  }
  if (crc != write.value_crc) {  // I4: bytes that changed by themselves must not spread
    if (write.piece.memory != nullptr) arena_->GiveBack(write.piece.segment);
    target.allocator().Abandon(*slot, {});
    Decide(request, Outcome::kDataLost);
    return true;
  }
  CommitToWrite(request, write, head);
  if (Mutant("G8")) QueueCollection(from, memgest::kNoLine);
  return true;
}

}  // namespace ring::coordinator
