#include "ring/coordinator/shard_builder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/coordinator/large_write.h"

namespace ring::coordinator {

ShardCoordinator::ShardCoordinator(const ShardOptions& options, rdma::Device* device,
                                   memgest::DeltaArena* arena, ReplySink* sink,
                                   ValueFetcher* fetcher, FoldedShard* folded)
    : options_(options),
      device_(device),
      arena_(arena),
      sink_(sink),
      fetcher_(fetcher),
      lines_(std::move(folded->lines)),
      keys_(device, &lines_),
      completions_(Mutant("X2-takeover") ? memgest::CompletionTable()
                                         : std::move(folded->completions)),
      log_(options.epoch, arena, /*held=*/true),
      landing_places_(device) {}

ShardBuilder::ShardBuilder(const ShardOptions& options, rdma::Device* device,
                           memgest::DeltaArena* arena, ReplySink* sink, ValueFetcher* fetcher,
                           FoldedShard folded)
    : shard_(new ShardCoordinator(options, device, arena, sink, fetcher, &folded)),
      memgests_(std::move(folded.memgests)) {}

absl::StatusOr<bool> ShardBuilder::Step(std::uint64_t line_count) {
  if (stage_ == Stage::kMemgests) {
    AdoptMemgests();
    stage_ = Stage::kSlots;
  }
  if (stage_ == Stage::kSlots) {
    RING_ASSIGN_OR_RETURN(const bool all, AdoptSlots(&line_count));
    if (!all) return false;
    RING_RETURN_IF_ERROR(ReserveKeys());
    stage_ = Stage::kLines;
  }
  const memgest::LineTable& lines = shard_->lines_;
  for (std::uint64_t done = 0; stage_ != Stage::kDone && done < line_count;) {
    if (granule_ == lines.granule_count()) {
      granule_ = 0;
      stage_ = stage_ == Stage::kLines ? Stage::kKeys : Stage::kDone;
      continue;
    }
    const std::uint32_t first = granule_++ * memgest::kLinesPerGranule;
    const bool any = lines.Has(first) && lines.granule(first).taken != 0;
    done += any ? memgest::kLinesPerGranule : 1;
    if (!any) continue;
    if (stage_ == Stage::kLines) {
      RING_RETURN_IF_ERROR(AdoptGranule(first));
    } else {
      AdoptKeys(first);
    }
  }
  return stage_ == Stage::kDone;
}

void ShardBuilder::AdoptMemgests() {
  std::vector<std::unique_ptr<memgest::Memgest>>& memgests = shard_->memgests_;
  const ShardOptions& options = shard_->options_;
  for (FoldedMemgest& one : memgests_) {
    const std::size_t index = one.descriptor.id.value();
    if (memgests.size() <= index) memgests.resize(index + 1);
    RING_CHECK(memgests[index] == nullptr) << "memgest=" << index << " comes twice";
    values_here_.resize(memgests.size());
    values_here_[index] = one.heap.has_value();
    memgests[index] = std::make_unique<memgest::Memgest>(shard_->device_, one.descriptor,
                                                         options.shard, options.s, options.d,
                                                         &shard_->lines_, std::move(one.heap));
    memgest::Memgest& memgest = *memgests[index];
    RING_CHECK(!(memgest.coded() && values_here_[index])) << "memgest=" << index;
    memgest.ContinueAt(one.next_index);
    shard_->log_.Attach(&memgest, 0);
  }
}

// Memgest by memgest. Gives whether all are done.
absl::StatusOr<bool> ShardBuilder::AdoptSlots(std::uint64_t* left) {
  for (; memgest_ < memgests_.size(); ++memgest_) {
    const FoldedMemgest& one = memgests_[memgest_];
    memgest::Memgest& memgest = *shard_->FindMemgest(one.descriptor.id);
    memgest::SlotAllocator& allocator = memgest.allocator();
    const std::uint64_t block_cells = one.descriptor.block_size / kCacheLine;
    const auto blocks = static_cast<std::uint32_t>((one.end_cells + block_cells - 1) / block_cells);
    const memgest::BlockState state =
        memgest.coded() ? memgest::BlockState::kLost : memgest::BlockState::kPresent;
    RING_ASSIGN_OR_RETURN(const bool done, allocator.Adopt(blocks, state, left));
    if (!done) return false;
  }
  return true;
}

absl::Status ShardBuilder::ReserveKeys() {
  const memgest::LineTable& lines = shard_->lines_;
  std::uint64_t versions = 0;
  for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
    const std::uint64_t taken = lines.granule(granule * memgest::kLinesPerGranule).taken;
    versions += static_cast<std::uint64_t>(std::popcount(taken));
  }
  return shard_->keys_.ReserveFor(versions);
}

// All hashes first, so that the misses of a granule's buckets hide behind each other.
absl::Status ShardBuilder::AdoptGranule(std::uint32_t first) {
  std::array<std::uint64_t, memgest::kLinesPerGranule> hashes;
  for (std::uint32_t i = 0; i < memgest::kLinesPerGranule; ++i) {
    if (shard_->lines_.line(first + i).version == 0) continue;
    hashes[i] = KeyHash(shard_->lines_.Key(first + i), shard_->options_.hash_seed);
    shard_->keys_.PrefetchBucket(hashes[i]);
  }
  for (std::uint32_t i = 0; i < memgest::kLinesPerGranule; ++i) {
    if (shard_->lines_.line(first + i).version == 0) continue;
    RING_RETURN_IF_ERROR(AdoptLine(first + i, hashes[i]));
  }
  return absl::OkStatus();
}

// The version takes its place in its key's chain, the highest first (V3).
absl::Status ShardBuilder::AdoptLine(std::uint32_t number, std::uint64_t hash) {
  memgest::MetadataLine& line = shard_->lines_.line(number);
  memgest::Memgest* const memgest = shard_->FindMemgest(MemgestId(line.memgest));
  if (memgest == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "line=", number, " is of memgest=", line.memgest, ", which is not known (V2)"));
  }
  constexpr unsigned kKept =
      memgest::kTombstone | memgest::kLarge | memgest::kExplicit | memgest::kAbsent;
  line.flags =
      static_cast<std::uint8_t>((line.flags & kKept) | memgest::kLive | memgest::kCommitted);
  if (!values_here_[line.memgest] && line.value_length > 0) line.flags |= memgest::kAbsent;
  line.pins = 0;
  line.prev = memgest::kNoLine;
  ++memgest->version_count;
  memgest->absent_count += shard_->absent(number) ? 1 : 0;
  std::uint32_t* const entry = shard_->keys_.Find(hash, shard_->lines_.Key(number));
  if (entry == nullptr) {
    shard_->keys_.Insert(hash, number);
    return absl::OkStatus();
  }
  std::uint32_t* place = entry;
  while (*place != memgest::kNoLine && shard_->lines_.line(*place).version > line.version) {
    place = &shard_->lines_.line(*place).prev;
  }
  if (*place != memgest::kNoLine && shard_->lines_.line(*place).version == line.version) {
    return absl::DataLossError(
        absl::StrCat("lines=", number, " and ", *place, " both hold version=", line.version));
  }
  line.prev = *place;
  if (line.prev != memgest::kNoLine) shard_->lines_.line(line.prev).flags |= memgest::kSuperseded;
  *place = number;
  if (*entry != number) line.flags |= memgest::kSuperseded;
  return absl::OkStatus();
}

// In the order of the lines, not of the table, which has them at random.
void ShardBuilder::AdoptKeys(std::uint32_t first) {
  for (std::uint32_t line = first; line < first + memgest::kLinesPerGranule; ++line) {
    const memgest::MetadataLine& held = shard_->lines_.line(line);
    if (held.version != 0 && (held.flags & memgest::kSuperseded) == 0) AdoptKey(line);
  }
}

void ShardBuilder::AdoptKey(std::uint32_t head) {
  if (!shard_->tombstone(head)) {
    memgest::Memgest& memgest = shard_->MemgestOf(head);
    ++memgest.key_count;
    memgest.logical_bytes += shard_->lines_.line(head).value_length;
  } else if (shard_->lines_.line(head).prev == memgest::kNoLine) {
    shard_->QueueCollection(head,
                            memgest::kNoLine);  // G5: nothing is left below it, in any memgest
  }
  shard_->CollectBelow(head);
}

}  // namespace ring::coordinator
