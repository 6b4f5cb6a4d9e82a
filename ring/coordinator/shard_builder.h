// ring/coordinator/shard_builder.h — a shard's coordinator out of what a member folded.
//
// What:      ShardBuilder has the allocators find what is free, then scans the lines twice: the
//            first scan gives the chains of the key table (V3) and the counts; the second collects
//            what is dominated (G1, G5).
// Shape:     a step at a time, since others' requests wait for the thread meanwhile. The
//            coordinator waits for its epoch's Normal (ApplyNormal); members come by
//            log().AddWriter.
// Units:     lines.
// Ownership: owns the coordinator until Release; device, arena, sink and fetcher outlive that.
// Threads:   one, the node's.
// Errors:    kDataLoss, lines contradict each other; kFailedPrecondition, a memgest is missing
//            (V2); kResourceExhausted. Nothing is to be released then.
// Cost:      about 30 ns a line and scan.
// Source:    step 4 of an epoch change.
#ifndef RING_COORDINATOR_SHARD_BUILDER_H_
#define RING_COORDINATOR_SHARD_BUILDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ring/coordinator/shard.h"
#include "ring/coordinator/takeover.h"

namespace ring::coordinator {

class ShardBuilder {
 public:
  // fetcher: where values come from that are not here.
  ShardBuilder(const ShardOptions& options, rdma::Device* device, memgest::DeltaArena* arena,
               ReplySink* sink, ValueFetcher* fetcher, FoldedShard folded);

  // Goes on for so many lines, or some more. Gives whether the coordinator is done.
  absl::StatusOr<bool> Step(std::uint64_t line_count);
  // REQUIRES: done.
  std::unique_ptr<ShardCoordinator> Release() { return std::move(shard_); }

 private:
  enum class Stage : std::uint8_t { kMemgests, kSlots, kLines, kKeys, kDone };

  void AdoptMemgests();
  absl::StatusOr<bool> AdoptSlots(std::uint64_t* left);
  absl::Status ReserveKeys();
  absl::Status AdoptGranule(std::uint32_t first);
  absl::Status AdoptLine(std::uint32_t number, std::uint64_t hash);
  void AdoptKeys(std::uint32_t first);
  void AdoptKey(std::uint32_t head);

  std::unique_ptr<ShardCoordinator> shard_;
  std::vector<FoldedMemgest> memgests_;
  std::vector<bool> values_here_;  // by memgest
  Stage stage_ = Stage::kMemgests;
  std::size_t memgest_ = 0;    // whose slots are next, of memgests_
  std::uint32_t granule_ = 0;  // the next of the scan
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_SHARD_BUILDER_H_
