#include "memgest/srs_memgest.h"

#include <array>
#include <cstring>

#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {

std::size_t DeltaSize(const Memgest& memgest, std::uint32_t payload_length) {
  return AlignUp(payload_length, kCacheLine) * memgest.members().size();
}

Pending& AppendCoded(ShardLog& log, Memgest& memgest, const EntryFields& fields,
                     const std::byte* new_bytes, const DeltaArena::Piece& scratch,
                     std::size_t value_size) {
  constexpr std::size_t kParityMax = ec_offload::kDeltaCountMax;
  const std::uint32_t length = fields.payload_length;
  if (length == 0) {
    const EntryPayload nothing;
    return log.Append(memgest, fields, absl::MakeConstSpan(&nothing, 1));
  }
  memgest.allocator().NoteTouch(fields.offset_cells, memgest.next_index());
  const std::size_t parity_count = memgest.members().size();
  const std::size_t stride = AlignUp(length, kCacheLine);
  std::byte* const slot = memgest.heap().At(fields.offset_cells);
  std::array<std::byte*, kParityMax + 1> outputs;
  std::array<std::uint32_t, kParityMax + 1> crcs{};
  for (std::size_t j = 0; j < parity_count; ++j) {
    outputs[j] = scratch.memory + value_size + j * stride;
  }
  outputs[parity_count] = slot;  // S11: in place, behind the read of the old bytes
  const std::array<const std::byte*, 2> inputs = {slot, new_bytes};
  if (Mutant("S3")) std::memset(slot, 0, length);
  if (Mutant("S11")) std::memcpy(slot, new_bytes, length);
  // In this thread: on the software NIC a CALC request costs a third more (ec_offload/ec_send.h).
  RING_CHECK(memgest.CalculatorAt(Mutant("S8") ? 0 : fields.offset_cells)
                 .Run(inputs.data(), outputs.data(), length, crcs.data()));
  std::array<rdma::Sge, kParityMax> deltas;
  std::array<EntryPayload, kParityMax> payloads;
  for (std::size_t j = 0; j < parity_count; ++j) {
    deltas[j] = {outputs[j], length, scratch.lkey};
    payloads[j].sges = absl::MakeConstSpan(&deltas[j], 1);
    payloads[j].crc = crcs[j];
  }
  Pending& pending =
      log.Append(memgest, fields, absl::MakeConstSpan(payloads.data(), parity_count));
  pending.has_piece = true;
  pending.piece_segment = scratch.segment;
  return pending;
}

}  // namespace ring::memgest
