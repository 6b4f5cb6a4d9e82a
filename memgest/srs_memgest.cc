#include "memgest/srs_memgest.h"

#include <array>
#include <cstring>

#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {

namespace {

constexpr std::size_t kParityMax = ec_offload::kDeltaCountMax;
using Outputs = std::array<std::byte*, kParityMax + 1>;  // the deltas, then the slot

// Null: the device takes it not, or not now.
CalcQueue::Job* PostCalc(const ShardLog& log, Memgest& memgest, const EntryFields& fields,
                         const std::byte* new_bytes, const DeltaArena::Piece& scratch,
                         std::size_t value_size, const Outputs& outputs) {
  CalcQueue* const queue = log.calc_queue();
  if (queue == nullptr || new_bytes != scratch.memory || value_size < fields.payload_length)
    return nullptr;
  CalcQueue::Job job;
  job.calculator = &memgest.DeltasAt(fields.offset_cells);
  job.slot = memgest.heap().At(fields.offset_cells);
  job.slot_lkey = memgest.heap().lkey(fields.offset_cells);
  job.length = fields.payload_length;
  job.new_bytes = new_bytes;
  for (std::size_t j = 0; j < memgest.members().size(); ++j) job.deltas[j] = outputs[j];
  job.lkey = scratch.lkey;
  return queue->Post(job);
}

}  // namespace

std::size_t DeltaSize(const Memgest& memgest, std::uint32_t payload_length) {
  return AlignUp(payload_length, kCacheLine) * memgest.members().size();
}

Pending& AppendCoded(ShardLog& log, Memgest& memgest, const EntryFields& fields,
                     const std::byte* new_bytes, const DeltaArena::Piece& scratch,
                     std::size_t value_size) {
  const std::uint32_t length = fields.payload_length;
  if (length == 0) {
    const EntryPayload nothing;
    return log.Append(memgest, fields, absl::MakeConstSpan(&nothing, 1));
  }
  memgest.allocator().NoteTouch(fields.offset_cells, memgest.next_index());
  const std::size_t parity_count = memgest.members().size();
  const std::size_t stride = AlignUp(length, kCacheLine);
  std::byte* const slot = memgest.heap().At(fields.offset_cells);
  Outputs outputs;
  std::array<std::uint32_t, kParityMax + 1> crcs{};
  for (std::size_t j = 0; j < parity_count; ++j) {
    outputs[j] = scratch.memory + value_size + j * stride;
  }
  outputs[parity_count] = slot;  // S11: in place, behind the read of the old bytes
  if (Mutant("S3")) std::memset(slot, 0, length);
  if (Mutant("S11")) std::memcpy(slot, new_bytes, length);
  CalcQueue::Job* const job =
      PostCalc(log, memgest, fields, new_bytes, scratch, value_size, outputs);
  if (job == nullptr) {
    const std::array<const std::byte*, 2> inputs = {slot, new_bytes};
    RING_CHECK(memgest.CalculatorAt(Mutant("S8") ? 0 : fields.offset_cells)
                   .Run(inputs.data(), outputs.data(), length, crcs.data()));
  }
  std::array<rdma::Sge, kParityMax> deltas;
  std::array<EntryPayload, kParityMax> payloads;
  for (std::size_t j = 0; j < parity_count; ++j) {
    deltas[j] = {outputs[j], length, scratch.lkey};
    payloads[j].sges = absl::MakeConstSpan(&deltas[j], 1);
    payloads[j].crc = crcs[j];
  }
  Pending& pending =
      log.Append(memgest, fields, absl::MakeConstSpan(payloads.data(), parity_count));
  if (job != nullptr) log.AwaitCalc(job);
  pending.has_piece = true;
  pending.piece_segment = scratch.segment;
  return pending;
}

}  // namespace ring::memgest
