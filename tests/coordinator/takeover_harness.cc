// ShardHarness::TakeOver: a node with empty memory becomes coordinator, out of what members have.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/coordinator/shard_builder.h"
#include "ring/node/recovery/shipped_tail.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/memgest/snapshot_pieces.h"

namespace ring::coordinator {

namespace {

// Step 4 for one log: a snapshot of the longest, and its tail; what others lack goes to tail.
FoldedMemgest FoldLog(const protocol::MemgestDescriptor& descriptor,
                      const std::vector<std::unique_ptr<MemberTwin>>& members,
                      const std::vector<std::vector<memgest::SealedLog>>& sealed,
                      std::uint64_t snapshot, memgest::MemberShard& taker,
                      node::ShippedTail* tail) {
  MemberTwin* from = nullptr;
  std::uint64_t longest = 0;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const memgest::SealedLog& log : sealed[i]) {
      if (log.memgest != descriptor.id) continue;
      shortest = std::min(shortest, log.last);
      if (from != nullptr && log.last <= longest) continue;
      from = members[i].get();
      longest = log.last;
    }
  }
  RING_CHECK(from != nullptr) << descriptor.name << " has nobody left";
  memgest::MemberShard& source = from->shard();
  for (const std::string& piece :
       memgest::AllPieces(*source.TakeSnapshot(snapshot, {descriptor.id}))) {
    RING_CHECK(taker.Install(piece).ok());
  }
  const std::uint64_t known = std::min(source.applied(descriptor.id), shortest);
  if (source.sealed() != nullptr && known < longest) {
    const auto visit = [&](const memgest::EntryView& entry) {
      RING_CHECK(taker.FoldShipped(entry).ok()) << "index=" << entry.header.index;
      if (entry.header.index > shortest) tail->Keep(entry, from->role());
    };
    RING_CHECK(source.sealed()->ReadTail(descriptor.id, known, visit).ok());
  }
  RING_CHECK(taker.applied(descriptor.id) == longest);
  FoldedMemgest folded;
  folded.descriptor = descriptor;
  folded.next_index = longest + 1;
  folded.end_cells = taker.end_cells(descriptor.id);
  return folded;
}

}  // namespace

void ShardHarness::TakeOver(const std::set<int>& gone) {
  const std::vector<std::vector<memgest::SealedLog>> sealed = SealAll(gone);
  for (Answered& answer : answers_) answer.may_be_silent |= answer.count == 0;
  sends_.clear();
  reads_.clear();
  wanted_.clear();
  memgest::MemberShard taker(&taker_device_, GroupId(0), ShardId(0), options_.line_count_max);
  taker.Reset(epoch_);
  std::vector<FoldedMemgest> memgests;
  node::ShippedTail tail;
  for (const protocol::MemgestDescriptor& descriptor : PaperMemgests(options_.block_size)) {
    if (removed_.contains(descriptor.id)) continue;
    if (descriptor.FailuresTolerated() == 0) {
      memgests.emplace_back().descriptor = descriptor;
      continue;
    }
    const bool coded = descriptor.scheme == protocol::Scheme::kStretchedReedSolomon;
    coded ? taker.AddMetadata(descriptor) : taker.AddReplica(descriptor);
    memgests.push_back(FoldLog(descriptor, members_, sealed, ++snapshots_, taker, &tail));
    // Every other time as if the node had no memory for values before.
    if (!coded && snapshots_ % 2 == 0) memgests.back().heap.emplace(taker.TakeHeap(descriptor.id));
  }
  FoldedShard folded{std::move(taker.lines()), std::move(taker.completions()), std::move(memgests)};
  ShardOptions options = shard_->options();
  options.epoch = options.took_over_in = epoch_;
  shard_.reset();
  arena_ = *memgest::DeltaArena::Create(&taker_device_);
  ShardBuilder builder(options, &taker_device_, arena_.get(), this, this, std::move(folded));
  absl::StatusOr<bool> done = false;
  for (; done.ok() && !*done; done = builder.Step(/*line_count=*/1)) {
  }
  RING_CHECK(done.ok()) << done.status().ToString();
  shard_ = builder.Release();
  for (std::size_t i = 0; no_memory_for_tails && i < memgest::DeltaArena::kAsideMax; ++i)
    RING_CHECK(arena_->TakeAside(64).ok());
  const absl::Status adopted = tail.AdoptInto(shard_.get(), arena_.get());
  if (no_memory_for_tails) {
    RING_CHECK(absl::IsResourceExhausted(adopted)) << adopted.ToString();
    return;
  }
  RING_CHECK(adopted.ok()) << adopted.ToString();
  RejoinAll(sealed);
}

bool ShardHarness::BringValue(std::uint32_t number) {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  memgest::Memgest& memgest = *shard_->FindMemgest(MemgestId(line.memgest));
  memgest::Range whole{line.offset_cells, memgest::CellCount(line.value_length)};
  absl::Span<const memgest::Range> ranges = absl::MakeConstSpan(&whole, 1);
  if ((line.flags & memgest::kLarge) != 0) ranges = shard_->lines().Ranges(number);
  if (memgest.coded()) {
    const std::uint32_t block_cells = options_.block_size / 64;
    for (const memgest::Range& range : ranges) {
      for (std::uint32_t cell = range.offset_cells / block_cells * block_cells;
           cell < range.offset_cells + range.length_cells; cell += block_cells) {
        DecodeBlock(memgest, cell / block_cells);
      }
    }
    return true;
  }
  for (const std::unique_ptr<MemberTwin>& member : members_) {
    const memgest::HeapSpace* const copy = member->shard().replica_heap(MemgestId(line.memgest));
    memgest::LineTable& theirs = member->shard().lines();
    if (member->gone || copy == nullptr || !theirs.Has(number) ||
        theirs.line(number).version != line.version) {
      continue;  // E3
    }
    for (const memgest::Range& range : ranges) {
      for (std::uint32_t cell = 0; cell < range.length_cells; ++cell) {
        if (!copy->Has(range.offset_cells + cell, 1)) continue;
        std::memcpy(memgest.heap().At(range.offset_cells + cell),
                    copy->At(range.offset_cells + cell), 64);
      }
    }
    return true;
  }
  return false;
}

// Only this shard writes, and row 0 of the generator is all ones: its parity is the block (S9).
void ShardHarness::DecodeBlock(memgest::Memgest& memgest, std::uint32_t block) {
  if (memgest.allocator().state(block) == memgest::BlockState::kPresent) return;
  memgest.allocator().SetDecoding(block);
  memgest::ParityStore& store = *member(3).parity(memgest.descriptor().id);
  const std::uint32_t cells = block * (options_.block_size / 64);
  const srs::Position at = store.layout().Locate(0, std::uint64_t{cells} * 64);
  const memgest::ParityStore::Row row =
      store.ReadRow(static_cast<std::uint32_t>(at.extent), at.row);
  const bool zero = row.bytes == nullptr;
  if (!zero) {
    RING_CHECK(memgest.heap().Ensure(cells, options_.block_size / 64).ok());
    std::memcpy(memgest.heap().At(cells), row.bytes, options_.block_size);
  }
  memgest.allocator().SetPresent(block, row.last_touch[at.column], zero);
  shard_->OnPresent(memgest.descriptor().id);
}

void ShardHarness::FetchAll(bool ok) {
  while (!wanted_.empty()) {
    const Wanted wanted = wanted_.front();
    wanted_.pop_front();
    shard_->OnValue(wanted.line, wanted.version, ok && BringValue(wanted.line));
  }
}

void ShardHarness::FetchRest() {
  FetchAll();
  memgest::LineTable& lines = shard_->lines();
  for (std::uint32_t line = 0; line < lines.granule_count() * memgest::kLinesPerGranule; ++line) {
    if (!lines.Has(line) || (lines.line(line).flags & memgest::kAbsent) == 0) continue;
    shard_->OnValue(line, Version(lines.line(line).version), BringValue(line));
    EXPECT_EQ(lines.line(line).flags & memgest::kAbsent, 0) << "line=" << line;
  }
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard_->memgests()) {
    if (memgest == nullptr || !memgest->coded()) continue;
    for (std::uint32_t block = 0; block < memgest->allocator().block_count(); ++block) {
      DecodeBlock(*memgest, block);
    }
  }
}

}  // namespace ring::coordinator
