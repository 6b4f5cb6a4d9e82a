#include "memgest/coordinator_snapshot.h"

#include <bit>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "memgest/size_class.h"

namespace ring::memgest {

Snapshot TakeCoordinatorSnapshot(std::uint64_t id, const LineTable& lines,
                                 const CompletionTable& completions, const ShardLog& log,
                                 absl::Span<Memgest* const> logs) {
  SnapshotWriter writer(id);
  std::vector<MemgestId> memgests;
  for (Memgest* const memgest : logs) {
    const MemgestId number = memgest->descriptor().id;
    memgests.push_back(number);
    const std::uint64_t block_cells = memgest->allocator().block_size() / kCellSize;
    writer.BeginLog({.memgest = number,
                     .applied = memgest->next_index() - 1 - log.UncommittedCount(*memgest),
                     .end_cells = memgest->allocator().block_count() * block_cells});
    // On their way out, but not behind what is committed.
    absl::flat_hash_set<std::uint32_t> collecting;
    for (std::size_t i = 0; i < memgest->to_collect().size(); ++i) {
      collecting.insert(memgest->to_collect()[i].item.line);
    }
    for (std::size_t i = 0; i < memgest->collecting().size(); ++i) {
      const Memgest::InFlight& in_flight = memgest->collecting()[i];
      if (!log.IsCommitted(in_flight.order)) collecting.insert(in_flight.collection.item.line);
    }
    for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
      const std::uint32_t first = granule * kLinesPerGranule;
      const Granule& record = lines.granule(first);
      if (!record.used || record.memgest != number.value()) continue;
      writer.AddGranule(lines, granule);
      std::uint64_t committed = 0;
      for (std::uint64_t taken = record.taken; taken != 0; taken &= taken - 1) {
        const std::uint32_t line = first + static_cast<std::uint32_t>(std::countr_zero(taken));
        const MetadataLine& held = lines.line(line);
        // A slot that was given out has no version yet.
        if (held.version == 0 || (held.flags & kCommitted) == 0) continue;
        if ((held.flags & kCollecting) != 0 && !collecting.contains(line)) continue;
        committed |= taken & -taken;
      }
      writer.AddLines(lines, granule, committed);
    }
  }
  writer.AddCompletions(completions, memgests);
  return writer.Take();
}

}  // namespace ring::memgest
