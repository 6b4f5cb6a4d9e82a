// The uninterrupted step of every write (V5): version, metadata line, completion record and log
// entry together, after everything that can fail was reserved.
#include "memgest/replicated_memgest.h"
#include "memgest/srs_memgest.h"
#include "ring/base/align.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

static_assert(memgest::kEntryKeySizeMax == protocol::kKeySizeMax);

bool ShardCoordinator::ReserveWrite(const memgest::Memgest& memgest, std::size_t key_length,
                                    std::uint32_t payload, std::size_t range_count,
                                    bool tombstone) const {
  if (tenure_counter_ >= Version::kCounterMax && !Mutant("V1-full")) return false;
  const std::size_t extension =
      AlignUp(key_length + 8 + 8 + range_count * sizeof(memgest::Range), kCacheLine);
  const std::size_t size = memgest::kEntryHeaderSize + extension + memgest::ShardLog::kCollectRoom +
                           AlignUp(payload, kCacheLine) + memgest::kEntryTrailerSize;
  return log_.HasRoom(memgest, size, tombstone) || Mutant("V5-reserve");
}

void ShardCoordinator::CommitToWrite(const Request& request, const Write& write,
                                     std::uint32_t* head) {
  ++tenure_counter_;
  const std::uint64_t of_key = head == nullptr ? 0 : Version(lines_.line(*head).version).counter();
  // V1: assigned once, ever
  const Version version(options_.epoch, Mutant("V1") ? of_key + 1 : tenure_counter_);
  StoreLine(request, write, version, head);
  memgest::CompletionTable::Begin(request.client, request.seq, request.request_crc,
                                  write.memgest->descriptor().id, version);
  memgest::EntryFields fields;
  fields.type = write.type;
  fields.version = version;
  fields.key = request.key;
  fields.line = write.slot.line;
  fields.size_class = write.slot.size_class;
  fields.offset_cells = write.slot.offset_cells;
  fields.value_length = write.value_length;
  fields.value_crc = write.value_crc;
  fields.expiry_ns = write.expiry_ns;
  fields.flags = write.explicit_move ? memgest::kExplicitMove : 0;
  fields.ranges = write.ranges;
  fields.client = request.client_id;
  fields.seq = request.seq;
  fields.incomplete_delta = static_cast<std::uint16_t>(request.incomplete_delta);
  fields.request_crc = request.request_crc;
  fields.result_code = static_cast<std::uint8_t>(protocol::Outcome::kOk);
  fields.payload_length = write.type == memgest::EntryType::kPut ? write.value_length : 0;
  AppendPayload(*write.memgest, fields, write.coded_value, write.piece, write.piece_value_size,
                NewOperation(request, write.type));
}

void ShardCoordinator::AppendPayload(memgest::Memgest& memgest, const memgest::EntryFields& fields,
                                     const std::byte* coded_value,
                                     const memgest::DeltaArena::Piece& piece,
                                     std::size_t piece_value_size, std::uint32_t operation) {
  memgest::Pending& pending =
      memgest.coded()
          ? memgest::AppendCoded(log_, memgest, fields, coded_value, piece, piece_value_size)
          : memgest::AppendReplicated(log_, memgest, fields);
  pending.operation = operation;
}

void ShardCoordinator::StoreLine(const Request& request, const Write& write, Version version,
                                 std::uint32_t* head) {
  memgest::MetadataLine& line = lines_.line(write.slot.line);
  line.version = version.bits();
  line.value_crc = write.value_crc;
  line.value_length = write.value_length;
  line.expiry_ns = write.expiry_ns;
  line.offset_cells = write.slot.offset_cells;
  line.memgest = write.memgest->descriptor().id.value();
  line.size_class = write.slot.size_class;
  line.flags = memgest::kLive;
  if (write.type == memgest::EntryType::kTombstone) line.flags |= memgest::kTombstone;
  if (!write.ranges.empty()) line.flags |= memgest::kLarge;
  if (write.explicit_move) line.flags |= memgest::kExplicit;
  lines_.SetKey(write.slot.line, request.key);
  if (!write.ranges.empty()) lines_.SetRanges(write.slot.line, write.ranges);
  if (head != nullptr) {
    line.prev = *head;
    lines_.line(*head).flags |= memgest::kSuperseded;
    *head = write.slot.line;
  } else {
    line.prev = memgest::kNoLine;
    keys_.Insert(request.hash, write.slot.line);
  }
  ++write.memgest->version_count;
}

}  // namespace ring::coordinator
