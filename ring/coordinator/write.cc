// The uninterrupted step of every write (V5): version, metadata line, completion record and log entry together, after
// everything that can fail was reserved.
#include <algorithm>
#include <array>

#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

bool ShardCoordinator::ReserveWrite(const memgest::Memgest& memgest, std::size_t key_length,
                                    std::uint32_t payload, std::size_t range_count,
                                    bool tombstone) const {
  if (tenure_counter_ >= Version::kCounterMax) return false;
  const std::size_t extension =
      AlignUp(key_length + 8 + 8 + range_count * sizeof(memgest::Range), kCacheLine);
  const std::size_t size = memgest::kEntryHeaderSize + extension + memgest::ShardLog::kCollectRoom +
                           AlignUp(payload, kCacheLine) + memgest::kEntryTrailerSize;
  return log_.HasRoom(memgest, size, tombstone);
}

void ShardCoordinator::CommitToWrite(const Request& request, const Write& write,
                                     std::uint32_t* head) {
  const Version version(options_.epoch, ++tenure_counter_);  // V1: assigned once, ever
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
  constexpr std::size_t kParityMax = ec_offload::kDeltaCountMax;
  std::array<rdma::Sge, kParityMax> sges;
  std::array<memgest::EntryPayload, kParityMax> payloads;
  std::size_t payload_count = 1;
  const std::uint32_t length = fields.payload_length;
  if (length > 0) {
    memgest.allocator().NoteTouch(fields.offset_cells, memgest.next_index());
    std::byte* const slot = memgest.heap().At(fields.offset_cells);
    if (memgest.coded()) {
      payload_count = memgest.members().size();
      std::array<std::byte*, kParityMax + 1> outputs;
      std::array<std::uint32_t, kParityMax + 1> crcs{};
      const std::size_t stride = AlignUp(length, kCacheLine);
      for (std::size_t j = 0; j < payload_count; ++j)
        outputs[j] = piece.memory + piece_value_size + j * stride;
      outputs[payload_count] =
          slot;  // S11: in place, behind the read of the old bytes (S3: whatever they are)
      const std::array<const std::byte*, 2> inputs = {slot, coded_value};
      RING_CHECK(memgest.CalculatorAt(fields.offset_cells)
                     .Run(inputs.data(), outputs.data(), length, crcs.data()));
      for (std::size_t j = 0; j < payload_count; ++j) {
        sges[j] = {outputs[j], length, piece.lkey};
        payloads[j].sges = absl::MakeConstSpan(&sges[j], 1);
        payloads[j].crc = crcs[j];
      }
    } else {
      sges[0] = {slot, length, memgest.heap().lkey(fields.offset_cells)};
      payloads[0].sges = absl::MakeConstSpan(sges.data(), 1);
      payloads[0].crc =
          fields.type == memgest::EntryType::kPart ? Crc32c(slot, length) : fields.value_crc;
    }
  }
  memgest::Pending& pending =
      log_.Append(memgest, fields, absl::MakeConstSpan(payloads.data(), payload_count));
  pending.operation = operation;
  pending.has_piece = piece.memory != nullptr;
  pending.piece_segment = piece.segment;
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
