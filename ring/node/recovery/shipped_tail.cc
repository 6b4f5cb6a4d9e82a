#include "ring/node/recovery/shipped_tail.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/log_retention.h"
#include "memgest/memgest.h"
#include "ring/base/align.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {

using memgest::LogRetention;

std::string Copy(const std::byte* bytes, std::size_t size) {
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

std::uint32_t ParityOf(Role role, int s) { return static_cast<std::uint32_t>(role.value() - s); }

}  // namespace

void ShippedTail::Keep(const memgest::EntryView& entry, Role source) {
  Log& log = logs_[MemgestId(entry.header.memgest)];
  log.source = source;
  // F10: who lacks what is damaged joins, rather than gets it under a checksum of its own.
  const std::uint32_t crc = Crc32c(entry.payload, entry.header.payload_length);
  log.damaged |= !memgest::CheckPayload(entry, crc).ok();
  const absl::Span<const std::byte> raw = memgest::EntryBytes(entry);
  const auto head_size = static_cast<std::size_t>(entry.payload - raw.data());
  log.entries.push_back({Copy(raw.data(), head_size),
                         Copy(entry.payload, entry.header.payload_length),
                         entry.header.offset_cells});
}

absl::Status ShippedTail::AdoptInto(coordinator::ShardCoordinator* coordinator,
                                    memgest::DeltaArena* arena) {
  std::size_t entries_left = LogRetention::kShippedMax;
  std::size_t head_bytes_left = LogRetention::kShippedHeadBytesMax;
  for (auto& [id, log] : std::exchange(logs_, {})) {
    memgest::Memgest* const memgest = coordinator->FindMemgest(id);
    std::size_t head_bytes = 0;
    for (const Entry& entry : log.entries) {
      head_bytes += AlignUp(entry.head.size(), memgest::kEntryAlignment);
    }
    const bool fits = log.entries.size() <= entries_left && head_bytes <= head_bytes_left;
    if (memgest == nullptr || !fits || log.damaged) continue;
    RING_RETURN_IF_ERROR(AdoptLog(log, *memgest, coordinator, arena));
    entries_left -= log.entries.size();
    head_bytes_left -= head_bytes;
  }
  return absl::OkStatus();
}

// All payloads of a log stand in one piece of arena memory, which goes when the last entry does.
absl::Status ShippedTail::AdoptLog(const Log& log, memgest::Memgest& memgest,
                                   coordinator::ShardCoordinator* coordinator,
                                   memgest::DeltaArena* arena) {
  const bool coded = memgest.coded();
  const std::size_t copies = coded ? memgest.members().size() : 1;
  std::size_t size = 0;
  for (const Entry& entry : log.entries) {
    size += copies * AlignUp(entry.payload.size(), memgest::kEntryAlignment);
  }
  memgest::DeltaArena::Piece piece;
  if (size > 0) {
    // F11: without memory the takeover is tried again. Who lacks the log could join instead, but
    // may be the only one that has the values of another.
    RING_ASSIGN_OR_RETURN(piece, arena->TakeAside(size));
  }
  const coordinator::ShardOptions& options = coordinator->options();
  std::byte* at = piece.memory;
  absl::Status status;
  for (const Entry& entry : log.entries) {
    std::vector<rdma::Sge> sges(copies);
    std::vector<memgest::EntryPayload> payloads(copies);
    for (std::size_t i = 0; i < copies && !entry.payload.empty(); ++i) {
      const std::size_t length = entry.payload.size();
      std::memcpy(at, entry.payload.data(), length);
      const std::uint32_t to = coded ? ParityOf(memgest.members()[i].role, options.s) : 0;
      const std::uint32_t from = coded ? ParityOf(log.source, options.s) : 0;
      if (from != to) {  // S8
        memgest.codec().RescalePayload(at, at, options.shard.value(),
                                       std::uint64_t{entry.offset_cells} * kCacheLine, from, to,
                                       length);
      }
      sges[i] = {at, static_cast<std::uint32_t>(length), piece.lkey};
      payloads[i].sges = absl::MakeConstSpan(&sges[i], 1);
      payloads[i].crc = Crc32c(at, length);
      at += AlignUp(length, memgest::kEntryAlignment);
    }
    const bool has_bytes = !entry.payload.empty();
    if (has_bytes) arena->Share(piece.segment);
    status = coordinator->log().Adopt(
        memgest, {reinterpret_cast<const std::byte*>(entry.head.data()), entry.head.size()},
        payloads, has_bytes ? &piece : nullptr);
    if (status.ok()) continue;
    if (has_bytes) arena->GiveBack(piece.segment);
    status = absl::InternalError(absl::StrCat("a tail that fits is refused: ", status.message()));
    break;
  }
  if (size > 0) arena->GiveBack(piece.segment);
  return status;
}

}  // namespace ring::node
