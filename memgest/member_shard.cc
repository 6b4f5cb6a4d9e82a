#include "memgest/member_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/entry_check.h"
#include "memgest/size_class.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

// What folding found wrong, with the entry that shows it.
absl::Status Contradiction(const EntryHeader& header, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("entry position=", header.position, " memgest=",
                                          header.memgest, " index=", header.index, ": ", what));
}

bool UsesLine(EntryType type) {
  return type == EntryType::kPut || type == EntryType::kFinal || type == EntryType::kTombstone;
}

// Calls visit(offset_cells, first byte, length) for each block that the bytes touch, until it
// fails.
template <class Visit>
absl::Status ForEachBlock(std::uint32_t offset_cells, std::uint32_t length,
                          std::uint32_t block_size, Visit visit) {
  const std::uint32_t block_cells = block_size / kCellSize;
  for (std::uint32_t done = 0; done < length;) {
    const std::uint32_t room = (block_cells - offset_cells % block_cells) * kCellSize;
    const std::uint32_t size = std::min(room, length - done);
    RING_RETURN_IF_ERROR(visit(offset_cells, done, size));
    offset_cells += CellCount(size);
    done += size;
  }
  return absl::OkStatus();
}

}  // namespace

MemberShard::MemberShard(rdma::Device* device, GroupId group, ShardId shard,
                         std::uint32_t line_count_max)
    : device_(device), group_(group), shard_(shard), lines_(device, line_count_max) {}

MemberShard::MemgestState& MemberShard::AddState(const protocol::MemgestDescriptor& descriptor) {
  std::unique_ptr<MemgestState>& state = states_[descriptor.id];
  if (state == nullptr) state = std::make_unique<MemgestState>();
  state->descriptor = descriptor;
  return *state;
}

void MemberShard::AddReplica(const protocol::MemgestDescriptor& descriptor) {
  MemgestState& state = AddState(descriptor);
  RING_CHECK(state.parity == nullptr) << "memgest=" << descriptor.id.value();
  if (!state.removed && state.replica == nullptr) {
    state.replica = std::make_unique<ReplicaStore>(device_);
  }
}

void MemberShard::AddParity(const protocol::MemgestDescriptor& descriptor, ParityStore* store) {
  MemgestState& state = AddState(descriptor);
  RING_CHECK(state.replica == nullptr) << "memgest=" << descriptor.id.value();
  if (!state.removed) state.parity = store;
}

void MemberShard::AddMetadata(const protocol::MemgestDescriptor& descriptor) {
  const MemgestState& state = AddState(descriptor);
  RING_CHECK(state.replica == nullptr && state.parity == nullptr &&
             descriptor.scheme == protocol::Scheme::kStretchedReedSolomon)
      << "memgest=" << descriptor.id.value();
}

void MemberShard::RemoveMemgest(MemgestId id) {
  MemgestState* state = FindState(id);
  if (state == nullptr || state->removed) return;
  snapshots_.AbandonAll();
  state->removed = true;
  state->replica = nullptr;
  state->parity = nullptr;
  absent_count_ -= std::exchange(state->absent_count, 0);
  for (std::uint32_t granule = 0; granule < lines_.granule_count(); ++granule) {
    const std::uint32_t first = granule * kLinesPerGranule;
    const Granule& record = lines_.granule(first);
    if (!record.used || record.memgest != id.value()) continue;
    for (std::uint64_t left = record.taken; left != 0; left &= left - 1) {
      const std::uint32_t line = first + static_cast<std::uint32_t>(std::countr_zero(left));
      lines_.Clear(line);
      lines_.DropLine(line);
    }
  }
  lines_.FreeGranules(id);
}

MemberShard::MemgestState* MemberShard::FindState(MemgestId id) {
  if (last_state_ != nullptr && last_state_->descriptor.id == id) return last_state_;
  const auto found = states_.find(id);
  if (found == states_.end()) return nullptr;
  last_state_ = found->second.get();
  return last_state_;
}

// Whatever can run out is taken here, while the entry can still be left in the ring.
absl::Status MemberShard::Prepare(const EntryView& entry, MemgestState& state) {
  const EntryHeader& header = entry.header;
  if (absl::Status status = CheckEntryForFold(entry); !status.ok()) {
    return Contradiction(header, status.message());
  }
  if (state.removed) return absl::OkStatus();
  if (header.type == EntryType::kRelease &&
      (header.payload_length != 0) != (state.replica == nullptr)) {
    return Contradiction(header, "a release has a payload for parities, and for them alone");
  }
  if (header.type == EntryType::kBase && state.replica != nullptr) {
    return Contradiction(header, "a base, and no parity is here");
  }
  absl::Status status;
  if (UsesLine(header.type)) status = lines_.EnsureMemory(header.line);
  if (status.ok() && state.replica != nullptr) {
    // An entry without bytes takes none: a release may name memory that was never here.
    if (header.payload_length > 0)
      status = state.replica->Ensure(header.offset_cells, header.payload_length);
  } else if (status.ok() && state.parity != nullptr) {
    status = ForEachBlock(header.offset_cells, header.payload_length, state.parity->block_size(),
                          [&](std::uint32_t offset, std::uint32_t, std::uint32_t size) {
                            return state.parity->Ensure(shard_, offset, size);
                          });
  }
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    return Contradiction(header, status.message());
  }
  return status;
}

void MemberShard::Prefetch(const EntryView& entry, const MemgestState& state) const {
  const EntryHeader& header = entry.header;
  if (state.removed) return;
  if (UsesLine(header.type)) __builtin_prefetch(&lines_.line(header.line), 1);
  for (const CollectItem& item : entry.collect) {
    if (lines_.Has(item.line)) __builtin_prefetch(&lines_.line(item.line), 1);
  }
  if (header.payload_length == 0) return;
  if (state.replica != nullptr) {
    state.replica->Prefetch(header.offset_cells, header.payload_length);
  } else if (state.parity != nullptr) {
    // Longer ones stream well enough by themselves.
    state.parity->Prefetch(shard_, header.offset_cells, std::min(header.payload_length, 2048u));
  }
}

// F10: bits of a payload may turn before it is sent, or in the ring, while the header and its CRC
// still say what was committed. A replica folds that and fetches the value; a parity needs
// the delta where it counts, and cannot go on without it.
bool MemberShard::NeedsPayload(const EntryHeader& header, const MemgestState& state) const {
  if (state.removed || state.parity == nullptr || header.index <= state.applied) return false;
  if (header.type == EntryType::kBase) return true;
  return !ForEachBlock(header.offset_cells, header.payload_length, state.parity->block_size(),
                       [&](std::uint32_t offset, std::uint32_t, std::uint32_t size) {
                         return state.parity->CoversAny(shard_, offset, size)
                                    ? absl::DataLossError("it counts")
                                    : absl::OkStatus();
                       })
              .ok();
}

absl::Status MemberShard::LookAtPayload(Taken& taken) const {
  const EntryHeader& header = taken.view.header;
  taken.damaged = false;
  if (SumsWhileWriting(header, *taken.state)) return absl::OkStatus();
  const absl::Status whole =
      CheckPayload(taken.view, Crc32c(taken.view.payload, header.payload_length));
  taken.damaged = !whole.ok();
  if (!taken.damaged || !NeedsPayload(header, *taken.state)) return absl::OkStatus();
  return Contradiction(header, whole.message());
}

absl::StatusOr<bool> MemberShard::Take(LogReader& reader, Taken* taken) {
  RING_ASSIGN_OR_RETURN(const bool found, reader.Next(&taken->view, /*check_payload=*/false));
  if (!found) return false;
  const EntryHeader& header = taken->view.header;
  taken->state = FindState(MemgestId(header.memgest));
  if (taken->state == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "group=", group_.value(), " shard=", shard_.value(), " position=", header.position,
        ": memgest=", header.memgest, " is not known here yet"));
  }
  RING_RETURN_IF_ERROR(Prepare(taken->view, *taken->state));
  RING_RETURN_IF_ERROR(LookAtPayload(*taken));
  Prefetch(taken->view, *taken->state);
  reader.Consume(taken->view);
  return true;
}

absl::StatusOr<int> MemberShard::Fold(int budget) {
  if (!failure_.ok()) return failure_;
  if (held_ || installing_) return 0;
  if (sealed_ != nullptr) {
    RING_ASSIGN_OR_RETURN(const int folded, FoldSealed(budget));
    if (folded > 0 || sealed_ != nullptr) return folded;
  }
  if (reader_ == nullptr) return 0;
  return FoldFrom(*reader_, budget);
}

absl::StatusOr<int> MemberShard::FoldFrom(LogReader& reader, int budget) {
  snapshots_.AbandonAll();
  std::array<Taken, kAhead + 1> window;
  int taken = 0;
  int folded = 0;
  bool more = true;
  absl::Status stop;
  while (true) {
    while (more && taken < budget && taken - folded < static_cast<int>(window.size())) {
      absl::StatusOr<bool> result =
          Take(reader, &window[static_cast<std::size_t>(taken) % window.size()]);
      if (!result.ok()) stop = result.status();
      more = result.ok() && *result;
      if (more) ++taken;
    }
    if (folded == taken) break;
    Taken& next = window[static_cast<std::size_t>(folded) % window.size()];
    if (absl::Status status = FoldEntry(next); !status.ok()) {
      failure_ = status;
      return failure_;
    }
    ++folded;
  }
  if (fence_) FenceStores();
  fence_ = false;
  FreeReleased();
  if (stop.code() == absl::StatusCode::kDataLoss) failure_ = stop;
  // What was folded before is told first; the same error comes again when it is the ring's next
  // entry.
  if (!stop.ok() && folded == 0) return stop;
  return folded;
}

absl::Status MemberShard::CheckIndex(const EntryHeader& header, const MemgestState& state) const {
  const bool dense = state.ring_index == 0 ? header.index <= state.applied + 1
                                           : header.index == state.ring_index + 1;
  if (dense || Mutant("step5-gap")) return absl::OkStatus();
  return Contradiction(header, absl::StrCat("the log is not dense: applied=", state.applied,
                                            " last in this ring=", state.ring_index));
}

// Each item's line must hold just that version: this log is the only writer of the line.
absl::Status MemberShard::CheckCollects(const EntryView& entry) const {
  for (std::size_t i = 0; i < entry.collect.size(); ++i) {
    const CollectItem& item = entry.collect[i];
    const std::uint64_t held = lines_.Has(item.line) ? lines_.line(item.line).version : 0;
    bool wrong =
        held == 0 || held != item.version || lines_.line(item.line).memgest != entry.header.memgest;
    for (std::size_t j = 0; j < i; ++j) wrong |= entry.collect[j].line == item.line;
    if (!wrong) continue;
    return Contradiction(entry.header, absl::StrCat("collects version=", item.version, " line=",
                                                    item.line, ", which holds version=", held));
  }
  return absl::OkStatus();
}

// G2: a line is used again only behind the collection of what it held.
absl::Status MemberShard::EnsureFree(const EntryHeader& header) {
  const absl::Status status = lines_.EnsureLine(header.line, MemgestId(header.memgest),
                                                header.size_class, header.offset_cells);
  if (!status.ok()) return Contradiction(header, status.message());
  const std::uint64_t held = lines_.line(header.line).version;
  if (held == 0) return absl::OkStatus();
  return Contradiction(header, absl::StrCat("line=", header.line, " still holds version=", held));
}

// S6: what the shard's blocks held when they were read, for a parity that is rebuilt.
absl::Status MemberShard::TakeBase(const EntryView& entry, MemgestState& state) {
  const EntryHeader& header = entry.header;
  if (state.parity == nullptr || header.value_length == 0) return absl::OkStatus();
  const std::byte* const bytes = header.payload_length > 0 ? entry.payload : nullptr;
  const absl::Status status =
      state.parity->Base(shard_, header.offset_cells, bytes, header.value_length, header.version);
  return status.ok() ? status : Contradiction(header, status.message());
}

absl::Status MemberShard::WriteBytes(Taken& taken) {
  const EntryView& entry = taken.view;
  const EntryHeader& header = entry.header;
  MemgestState& state = *taken.state;
  if (header.type == EntryType::kBase) return TakeBase(entry, state);
  const bool release = header.type == EntryType::kRelease;
  if (release && state.replica != nullptr) {
    state.replica->Release(header.offset_cells, header.value_length);
    released_.push_back(&state);
    return absl::OkStatus();
  }
  if (state.replica != nullptr) {
    const ReplicaStore::Written written =
        state.replica->Write(header.offset_cells, entry.payload, header.payload_length);
    fence_ |= written.weak;
    taken.damaged = !CheckPayload(entry, written.crc).ok();
    return absl::OkStatus();
  }
  if (header.payload_length == 0 || state.parity == nullptr) return absl::OkStatus();
  // A BASE between this and where it was taken may have made it count.
  if (taken.damaged && NeedsPayload(header, state)) {
    return Contradiction(header, "its payload is damaged, and counts since the last base");
  }
  const absl::Status status =
      ForEachBlock(header.offset_cells, header.payload_length, state.parity->block_size(),
                   [&](std::uint32_t offset, std::uint32_t first, std::uint32_t size) {
                     RING_RETURN_IF_ERROR(state.parity->Apply(shard_, offset, entry.payload + first,
                                                              size, header.index));
                     if (release) state.parity->ReleaseZeros(shard_, offset, size);
                     return absl::OkStatus();
                   });
  RING_CHECK(status.ok()) << status.message();  // Prepare ensured it
  if (release) released_.push_back(&state);
  return absl::OkStatus();
}

// Not before all that Prepare looked at is folded: it counts on memory that is there.
void MemberShard::FreeReleased() {
  for (MemgestState* const state : released_) {
    if (state->replica != nullptr) state->replica->FreeEmptied();
    if (state->parity != nullptr) state->parity->FreeEmptied();
  }
  released_.clear();
}

void MemberShard::WriteLine(const EntryView& entry) {
  const EntryHeader& header = entry.header;
  MetadataLine& line = lines_.line(header.line);
  line.version = header.version;
  line.value_crc = header.value_crc;
  line.value_length = header.value_length;
  line.expiry_ns = entry.expiry_ns;
  line.offset_cells = header.offset_cells;
  line.prev = kNoLine;
  line.memgest = header.memgest;
  line.size_class = header.size_class;
  line.pins = 0;
  unsigned flags = kLive | kCommitted;
  if (header.type == EntryType::kTombstone) flags |= kTombstone;
  if ((header.flags & kExplicitMove) != 0) flags |= kExplicit;
  line.flags = static_cast<std::uint8_t>(flags);
  lines_.SetKey(header.line, entry.key);
  if (!entry.ranges.empty()) lines_.SetRanges(header.line, entry.ranges);
  lines_.TakeLine(header.line);
}

void MemberShard::CollectLine(std::uint32_t line, MemgestState& state) {
  if ((lines_.line(line).flags & kAbsent) != 0) {
    --state.absent_count;
    --absent_count_;
  }
  lines_.Clear(line);
  lines_.DropLine(line);
}

void MemberShard::FoldRecord(const EntryHeader& header) {
  if (header.client.empty()) return;
  if (Mutant("X1-entry") && UsesLine(header.type)) return;
  if (header.type == EntryType::kExpireRecord) {
    completions_.Expire(header.client, header.seq);
    last_client_ = nullptr;
    return;
  }
  if (last_client_ == nullptr || !(last_client_id_ == header.client)) {
    last_client_ = completions_.FindOrAdd(header.client);
    last_client_id_ = header.client;
  }
  CompletionTable::Finish(last_client_, header.seq - header.incomplete_delta,
                          {.seq = header.seq,
                           .version = header.version,
                           .request_crc = header.request_crc,
                           .memgest = header.memgest,
                           .code = header.result_code});
}

// Of a line that was written just now. PARTs of a FINAL may have been damaged, or come before the
// snapshot that this log goes on behind.
bool MemberShard::LacksValue(const Taken& taken) const {
  const EntryHeader& header = taken.view.header;
  const MemgestState& state = *taken.state;
  if (state.replica == nullptr || header.value_length == 0) return false;
  if (header.type == EntryType::kPut) return taken.damaged;
  const bool unsure = state.install_number != 0 || state.part_damaged;
  return header.type == EntryType::kFinal && unsure && !HasValue(header.line, state);
}

absl::Status MemberShard::FoldEntry(Taken& taken) {
  const EntryView& entry = taken.view;
  const EntryHeader& header = entry.header;
  MemgestState& state = *taken.state;
  RING_RETURN_IF_ERROR(CheckIndex(header, state));
  if (header.index > state.applied || Mutant("step5-twice")) {
    if (!state.removed) {
      RING_RETURN_IF_ERROR(CheckCollects(entry));
      if (UsesLine(header.type)) RING_RETURN_IF_ERROR(EnsureFree(header));
      RING_RETURN_IF_ERROR(WriteBytes(taken));
      if (UsesLine(header.type)) WriteLine(entry);
      if (LacksValue(taken)) MarkAbsent(header.line, state);
      if (taken.damaged) {
        ++damaged_count_;
        state.part_damaged |= header.type == EntryType::kPart;
      }
      for (const CollectItem& item : entry.collect) CollectLine(item.line, state);
      if (header.payload_length > 0 && header.type != EntryType::kBase) {
        const std::uint64_t end =
            header.offset_cells + std::uint64_t{CellCount(header.payload_length)};
        state.end_cells = std::max(state.end_cells, end);
      }
    }
    FoldRecord(header);
    state.applied = header.index;
  }
  state.ring_index = header.index;
  return absl::OkStatus();
}

std::uint64_t MemberShard::applied(MemgestId id) const {
  const auto found = states_.find(id);
  return found == states_.end() ? 0 : found->second->applied;
}

std::uint64_t MemberShard::end_cells(MemgestId id) const {
  const auto found = states_.find(id);
  return found == states_.end() ? 0 : found->second->end_cells;
}

std::uint64_t MemberShard::absent_count(MemgestId id) const {
  const auto found = states_.find(id);
  return found == states_.end() ? 0 : found->second->absent_count;
}

std::uint64_t MemberShard::absent_total(MemgestId id) const {
  const auto found = states_.find(id);
  return found == states_.end() ? 0 : found->second->absent_total;
}

const HeapSpace* MemberShard::replica_heap(MemgestId id) const {
  const auto found = states_.find(id);
  if (found == states_.end() || found->second->replica == nullptr) return nullptr;
  return &found->second->replica->heap();
}

HeapSpace MemberShard::TakeHeap(MemgestId id) { return states_.at(id)->replica->TakeHeap(); }

}  // namespace ring::memgest
