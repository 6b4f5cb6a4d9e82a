// put: one new version in the memgest that the client chose.
#include <cstring>

#include "memgest/srs_memgest.h"
#include "ring/base/align.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

bool ShardCoordinator::Put(const Request& request) {
  if (CheckOnce(request) == Once::kHandled) return true;
  memgest::Memgest* const memgest = FindMemgest(request.memgest);
  if (memgest == nullptr || memgest->descriptor().state == protocol::MemgestState::kDeleted) {
    RefuseUnknown(request);
    return true;
  }
  if (!memgest->writable() && !Mutant("G11")) {
    RefuseWrite(request, *memgest);
    return true;
  }
  if (request.value_length > options_.value_size_max && !Mutant("S10-limit")) {
    Refuse(request, Outcome::kTooLarge);
    return true;
  }
  const bool have_key_room = keys_.Reserve().ok();  // before Find: growth moves entries
  std::uint32_t* const head = keys_.Find(request.hash, request.key);
  if (head == nullptr && !have_key_room) {
    Refuse(request, Outcome::kResourceExhausted);
    return true;
  }
  if (!ConditionHolds(request, head)) return true;
  if ((request.flags & protocol::kLargeValue) != 0)
    return LargeWrite::StartPut(*this, request, *memgest);
  if (request.value_length > memgest->descriptor().block_size)
    return LargeWrite::StartInline(*this, request, *memgest);
  return PutSmall(request, *memgest, head);
}

bool ShardCoordinator::PutSmall(const Request& request, memgest::Memgest& memgest,
                                std::uint32_t* head) {
  const std::uint32_t length = request.value_length;
  if (!ReserveWrite(memgest, request.key.size(), length, 0, false))
    return AwaitRoom(request, memgest);
  const absl::StatusOr<memgest::Slot> slot = memgest.allocator().Allocate(length);
  if (!slot.ok()) return AwaitSpace(request, memgest);

  Write write;
  write.memgest = &memgest;
  write.slot = *slot;
  write.value_length = length;
  write.value_crc = request.value_crc;
  std::byte* to = nullptr;
  if (length > 0 && memgest.coded()) {
    // The value is staged, checked, and only then combined with the slot's old bytes (S11).
    write.piece_value_size = AlignUp(length, kCacheLine);
    write.piece = arena_->Take(write.piece_value_size + memgest::DeltaSize(memgest, length));
    if (write.piece.memory == nullptr) {
      memgest.allocator().Abandon(*slot, {});
      return AwaitRoom(request, memgest);
    }
    to = write.piece.memory;
    write.coded_value = to;
  } else if (length > 0) {
    to = memgest.heap().At(slot->offset_cells);
  }
  // The client can change its bytes at any time: they are read once, and what was read is what was
  // summed.
  if (Crc32cCopy(to, request.value, length) != request.value_crc) {
    if (write.piece.memory != nullptr) arena_->GiveBack(write.piece.segment);
    memgest.allocator().Abandon(*slot, {});
    Refuse(request, Outcome::kBadChecksum);
    return true;
  }
  if (Mutant("S14") && head != nullptr && length > 0 && &MemgestOf(*head) == &memgest &&
      lines_.line(*head).value_length >= length) {
    std::memcpy(memgest.heap().At(lines_.line(*head).offset_cells), request.value, length);
  }
  CommitToWrite(request, write, head);
  last_put_ = &memgest;
  last_put_length_ = length;
  return true;
}

}  // namespace ring::coordinator
