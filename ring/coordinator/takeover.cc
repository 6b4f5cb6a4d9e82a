// A shard's coordinator out of what a member folded: one scan of the lines gives the chains of the
// key table (V3), the slots and the counts; then what is dominated is collected (G1, G5).
#include "ring/coordinator/takeover.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

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

absl::StatusOr<std::unique_ptr<ShardCoordinator>> ShardCoordinator::TakeOver(
    const ShardOptions& options, rdma::Device* device, memgest::DeltaArena* arena, ReplySink* sink,
    ValueFetcher* fetcher, FoldedShard folded) {
  std::unique_ptr<ShardCoordinator> shard(
      new ShardCoordinator(options, device, arena, sink, fetcher, &folded));
  RING_RETURN_IF_ERROR(shard->AdoptMemgests(&folded));
  RING_RETURN_IF_ERROR(shard->AdoptLines());
  shard->AdoptKeys();
  return shard;
}

absl::Status ShardCoordinator::AdoptMemgests(FoldedShard* folded) {
  for (FoldedMemgest& one : folded->memgests) {
    const std::size_t index = one.descriptor.id.value();
    if (memgests_.size() <= index) memgests_.resize(index + 1);
    RING_CHECK(memgests_[index] == nullptr) << "memgest=" << index << " comes twice";
    const bool values_here = one.heap.has_value();
    memgests_[index] =
        std::make_unique<memgest::Memgest>(device_, one.descriptor, options_.shard, options_.s,
                                           options_.d, &lines_, std::move(one.heap));
    memgest::Memgest& memgest = *memgests_[index];
    RING_CHECK(!(memgest.coded() && values_here)) << "memgest=" << index;
    memgest.ContinueAt(one.next_index);
    log_.Attach(&memgest, 0);
    const std::uint64_t block_cells = one.descriptor.block_size / kCacheLine;
    const auto blocks = static_cast<std::uint32_t>((one.end_cells + block_cells - 1) / block_cells);
    RING_RETURN_IF_ERROR(memgest.allocator().Adopt(blocks));
    if (memgest.coded()) {
      for (std::uint32_t block = 0; block < memgest.allocator().block_count(); ++block) {
        memgest.allocator().SetLost(block);
      }
    }
    if (values_here) continue;
    for (std::uint32_t line = 0; line < lines_.granule_count() * memgest::kLinesPerGranule;
         ++line) {
      if (!lines_.Has(line) || lines_.granule(line).memgest != index) {
        line += memgest::kLinesPerGranule - 1;
      } else if (lines_.line(line).version != 0 && lines_.line(line).value_length > 0) {
        lines_.line(line).flags |= memgest::kAbsent;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ShardCoordinator::AdoptLines() {
  std::uint64_t versions = 0;
  for (std::uint32_t granule = 0; granule < lines_.granule_count(); ++granule) {
    const std::uint64_t taken = lines_.granule(granule * memgest::kLinesPerGranule).taken;
    versions += static_cast<std::uint64_t>(std::popcount(taken));
  }
  RING_RETURN_IF_ERROR(keys_.ReserveFor(versions));
  for (std::uint32_t granule = 0; granule < lines_.granule_count(); ++granule) {
    const std::uint32_t first = granule * memgest::kLinesPerGranule;
    if (!lines_.Has(first) || lines_.granule(first).taken == 0) continue;
    RING_RETURN_IF_ERROR(AdoptGranule(first));
  }
  return absl::OkStatus();
}

// All hashes first, so that the misses of a granule's buckets hide behind each other.
absl::Status ShardCoordinator::AdoptGranule(std::uint32_t first) {
  std::array<std::uint64_t, memgest::kLinesPerGranule> hashes;
  for (std::uint32_t i = 0; i < memgest::kLinesPerGranule; ++i) {
    if (lines_.line(first + i).version == 0) continue;
    hashes[i] = KeyHash(lines_.Key(first + i), options_.hash_seed);
    keys_.PrefetchBucket(hashes[i]);
  }
  for (std::uint32_t i = 0; i < memgest::kLinesPerGranule; ++i) {
    if (lines_.line(first + i).version == 0) continue;
    RING_RETURN_IF_ERROR(AdoptLine(first + i, hashes[i]));
  }
  return absl::OkStatus();
}

// The version takes its place in its key's chain, the highest first (V3).
absl::Status ShardCoordinator::AdoptLine(std::uint32_t number, std::uint64_t hash) {
  memgest::MetadataLine& line = lines_.line(number);
  memgest::Memgest* const memgest = FindMemgest(MemgestId(line.memgest));
  if (memgest == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "line=", number, " is of memgest=", line.memgest, ", which is not known (V2)"));
  }
  constexpr unsigned kKept =
      memgest::kTombstone | memgest::kLarge | memgest::kExplicit | memgest::kAbsent;
  line.flags =
      static_cast<std::uint8_t>((line.flags & kKept) | memgest::kLive | memgest::kCommitted);
  line.pins = 0;
  line.prev = memgest::kNoLine;
  ++memgest->version_count;
  memgest->absent_count += absent(number) ? 1 : 0;
  std::uint32_t* const entry = keys_.Find(hash, lines_.Key(number));
  if (entry == nullptr) {
    keys_.Insert(hash, number);
    return absl::OkStatus();
  }
  std::uint32_t* place = entry;
  while (*place != memgest::kNoLine && lines_.line(*place).version > line.version) {
    place = &lines_.line(*place).prev;
  }
  if (*place != memgest::kNoLine && lines_.line(*place).version == line.version) {
    return absl::DataLossError(
        absl::StrCat("lines=", number, " and ", *place, " both hold version=", line.version));
  }
  line.prev = *place;
  if (line.prev != memgest::kNoLine) lines_.line(line.prev).flags |= memgest::kSuperseded;
  *place = number;
  if (*entry != number) line.flags |= memgest::kSuperseded;
  return absl::OkStatus();
}

// In the order of the lines, not of the table, which has them at random.
void ShardCoordinator::AdoptKeys() {
  for (std::uint32_t granule = 0; granule < lines_.granule_count(); ++granule) {
    const std::uint32_t first = granule * memgest::kLinesPerGranule;
    if (!lines_.Has(first) || lines_.granule(first).taken == 0) continue;
    for (std::uint32_t line = first; line < first + memgest::kLinesPerGranule; ++line) {
      const bool is_head = (lines_.line(line).flags & memgest::kSuperseded) == 0;
      if (lines_.line(line).version != 0 && is_head) AdoptKey(line);
    }
  }
}

void ShardCoordinator::AdoptKey(std::uint32_t head) {
  if (!tombstone(head)) {
    memgest::Memgest& memgest = MemgestOf(head);
    ++memgest.key_count;
    memgest.logical_bytes += lines_.line(head).value_length;
  } else if (lines_.line(head).prev == memgest::kNoLine) {
    QueueCollection(head, memgest::kNoLine);  // G5: nothing is left below it, in any memgest
  }
  CollectBelow(head);
}

}  // namespace ring::coordinator
