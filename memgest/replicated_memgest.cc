#include "memgest/replicated_memgest.h"

#include "ring/base/crc32c.h"

namespace ring::memgest {

Pending& AppendReplicated(ShardLog& log, Memgest& memgest, const EntryFields& fields) {
  const std::uint32_t length = fields.payload_length;
  rdma::Sge value;
  EntryPayload payload;
  if (length > 0) {
    memgest.allocator().NoteTouch(fields.offset_cells, memgest.next_index());
    std::byte* const slot = memgest.heap().At(fields.offset_cells);
    value = {slot, length, memgest.heap().lkey(fields.offset_cells)};
    payload.sges = absl::MakeConstSpan(&value, 1);
    // The whole value's CRC is known; a part's is not.
    payload.crc = fields.type == EntryType::kPart ? Crc32c(slot, length) : fields.value_crc;
  }
  return log.Append(memgest, fields, absl::MakeConstSpan(&payload, 1));
}

}  // namespace ring::memgest
