// memgest/memgest.h — one memgest in one shard, at the shard's coordinator.
//
// What:      The value heap, the slots, the log index, the members, and the collections that wait
//            for the next entry of this log. How a payload reaches the members is
//            replicated_memgest.h and srs_memgest.h.
// Shape:     one per (memgest, shard).
// Ownership: owns heap and allocator; borrows the shard's lines and the writers of its members.
// Threads:   one, the node's.
// Errors:    as the allocator.
// Source:    Ring section 5; docs/GLOSSARY.md (log, member, commit rule); rules G1, G2.
#ifndef RING_MEMGEST_MEMGEST_H_
#define RING_MEMGEST_MEMGEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ec_offload/delta_calculator.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "memgest/member_set.h"
#include "memgest/parity_rebuild.h"
#include "memgest/size_class.h"
#include "memgest/slot_allocator.h"
#include "ring/base/fifo.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"
#include "srs/codec.h"

namespace ring::memgest {

// A version on its way out: unlinked and freed once its collection is committed (G2).
struct Collection {
  CollectItem item;
  std::uint32_t upper = kNoLine;  // the line whose prev it was when queued: a hint for unlinking
};

class Memgest {
 public:
  // (s, d): of the cluster. No member has a writer or counts yet. heap: of a replica that goes on
  // as coordinator.
  Memgest(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, ShardId shard, int s,
          int d, LineTable* lines, std::optional<HeapSpace> heap = std::nullopt);

  const protocol::MemgestDescriptor& descriptor() const { return descriptor_; }
  void set_state(protocol::MemgestState state) { descriptor_.state = state; }
  bool writable() const { return descriptor_.state == protocol::MemgestState::kActive; }
  bool draining() const { return descriptor_.state == protocol::MemgestState::kDraining; }
  int failures_tolerated() const { return failures_tolerated_; }
  bool coded() const { return descriptor_.scheme == protocol::Scheme::kStretchedReedSolomon; }

  HeapSpace& heap() { return heap_; }
  SlotAllocator& allocator() { return allocator_; }
  const HeapSpace& heap() const { return heap_; }
  const SlotAllocator& allocator() const { return allocator_; }
  const MemberSet& members() const { return members_; }
  MemberSet& members() { return members_; }

  std::uint64_t next_index() const { return last_index_ + 1; }
  // A log that was taken over goes on here. REQUIRES: nothing was appended.
  void ContinueAt(std::uint64_t next_index) { last_index_ = next_index - 1; }
  std::uint64_t TakeIndex() { return ++last_index_; }

  // Calculator of the code column that the block at this offset lies in: inputs {old, new}, outputs
  // {m deltas, slot}. REQUIRES: coded().
  const ec_offload::DeltaCalculator& CalculatorAt(std::uint32_t offset_cells) const;
  // The same without the slot.
  const ec_offload::DeltaCalculator& DeltasAt(std::uint32_t offset_cells) const;
  // REQUIRES: coded(), as all of this paragraph.
  const srs::Codec& codec() const { return *codec_; }
  // What parity j multiplies the bytes at this offset with.
  ec_offload::gf256::Element Coefficient(std::size_t j, std::uint32_t offset_cells) const {
    return codec_->generator().At(j, ColumnAt(offset_cells));
  }
  // What a block is decoded from, to be left out one by one when what comes of it does not fit
  // (S12): data columns, then parities; none if there is no parity to spare.
  std::uint32_t source_count() const;
  // As a mask: bit c is column c, bit k + j parity j. 0: source i is the block's own column.
  std::uint32_t SourceMask(std::uint32_t block, std::uint32_t i) const;
  std::string SourceName(std::uint32_t block, std::uint32_t i) const;
  // New parities, until they have everything (S6). REQUIRES: coded().
  ParityRebuild& rebuild() { return rebuild_; }
  const ParityRebuild& rebuild() const { return rebuild_; }

  // Versions whose collection goes out with the next entries of this log.
  Fifo<Collection>& to_collect() { return to_collect_; }
  // Collections in flight: appended with `order`, in order.
  struct InFlight {
    std::uint64_t order = 0;
    Collection collection;
  };
  Fifo<InFlight>& collecting() { return collecting_; }

  // What entries up to this order refer to may be another version's bytes by now.
  std::uint64_t reused_order = 0;

  // Counts for operators: newest committed versions and their bytes.
  std::uint64_t key_count = 0;
  std::uint64_t version_count = 0;
  std::uint64_t absent_count = 0;  // of them, without their bytes (kAbsent)
  std::uint64_t lost_count = 0;    // of those, with bytes that nobody has
  std::uint64_t logical_bytes = 0;

 private:
  std::uint32_t ColumnAt(std::uint32_t offset_cells) const {
    return codec_->layout().Locate(shard_.value(), std::uint64_t{offset_cells} * kCellSize).column;
  }

  protocol::MemgestDescriptor descriptor_;
  ShardId shard_;
  std::optional<srs::Codec> codec_;  // of a coded one
  HeapSpace heap_;
  SlotAllocator allocator_;
  MemberSet members_;
  int failures_tolerated_;
  std::uint64_t last_index_ = 0;
  std::vector<ec_offload::DeltaCalculator> calculators_;  // by code column
  std::vector<ec_offload::DeltaCalculator> delta_calculators_;
  ParityRebuild rebuild_{this};
  Fifo<Collection> to_collect_;
  Fifo<InFlight> collecting_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_MEMGEST_H_
