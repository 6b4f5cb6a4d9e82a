#include "memgest/coordinator_snapshot.h"

#include <bit>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "memgest/size_class.h"
#include "ring/base/mutant.h"

namespace ring::memgest {
namespace {

class CommittedLines final : public SnapshotCursor {
 public:
  CommittedLines(std::uint64_t id, std::size_t piece_size, const LineTable& lines,
                 const CompletionTable& completions, std::vector<SnapshotLog> logs,
                 absl::flat_hash_set<std::uint32_t> gone)
      : SnapshotCursor(id, piece_size, lines, completions, std::move(logs)),
        gone_(std::move(gone)) {}

 private:
  std::uint64_t Visible(const LineTable& lines, std::uint32_t granule) const override {
    const std::uint32_t first = granule * kLinesPerGranule;
    std::uint64_t committed = 0;
    for (std::uint64_t left = lines.granule(first).taken; left != 0; left &= left - 1) {
      const std::uint32_t line = first + static_cast<std::uint32_t>(std::countr_zero(left));
      const MetadataLine& held = lines.line(line);
      // A slot that was given out has no version yet.
      if (held.version == 0 || (held.flags & kCommitted) == 0) continue;
      if ((held.flags & kCollecting) != 0 && gone_.contains(line)) continue;
      committed |= left & -left;
    }
    return committed;
  }

  // Lines whose collection was committed when the snapshot began. A version that takes one's place
  // is committed only once the granule was saved.
  absl::flat_hash_set<std::uint32_t> gone_;
};

}  // namespace

std::shared_ptr<SnapshotCursor> TakeCoordinatorSnapshot(std::uint64_t id, const LineTable& lines,
                                                        const CompletionTable& completions,
                                                        const ShardLog& log,
                                                        absl::Span<Memgest* const> logs,
                                                        absl::Span<const std::uint32_t> lingering,
                                                        std::size_t piece_size) {
  std::vector<SnapshotLog> taken;
  absl::flat_hash_set<std::uint32_t> gone(lingering.begin(), lingering.end());
  for (Memgest* const memgest : logs) {
    // Committed, and not acted upon before all members have it (G2): who joins gets no entry of it.
    for (std::size_t i = 0; i < memgest->collecting().size(); ++i) {
      const Memgest::InFlight& in_flight = memgest->collecting()[i];
      if (log.IsCommitted(in_flight.order) && !Mutant("L7-collected"))
        gone.insert(in_flight.collection.item.line);
    }
    const std::uint64_t block_cells = memgest->allocator().block_size() / kCellSize;
    taken.push_back({.memgest = memgest->descriptor().id,
                     .applied = memgest->next_index() - 1 - log.UncommittedCount(*memgest),
                     .end_cells = memgest->allocator().block_count() * block_cells});
  }
  return std::make_shared<CommittedLines>(id, piece_size, lines, completions, std::move(taken),
                                          std::move(gone));
}

}  // namespace ring::memgest
