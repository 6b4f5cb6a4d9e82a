// memgest/sealed_ring.h — the ring of the last Normal epoch, at a member, while the next one is
// made.
//
// What:      What the member's logs of that epoch are (its answer to Seal), and the raw entries
//            that are still whole in the ring, for a coordinator or member that lacks them.
// Shape:     one for each member shard at most: rings of epochs that were abandoned are not kept.
// Ownership: owns the reader, which borrows the ring's memory: that is its node's until this is
//            gone.
// Threads:   one, the node's.
// Errors:    Create: kDataLoss, the reader's, or an index that does not follow; the member counts
//            as failed then. ReadTail: kOutOfRange, and nothing was shown, when the entry that was
//            asked for is not whole in the ring any more: who needs it becomes a learner.
// Cost:      Create: a pass over what was not folded. ReadTail: two passes over the ring.
// Source:    rules E1, E4, L5; steps 2, 4, 5 of an epoch change.
#ifndef RING_MEMGEST_SEALED_RING_H_
#define RING_MEMGEST_SEALED_RING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memgest/log_reader.h"
#include "ring/base/id.h"

namespace ring::memgest {

// One log of a member that was sealed.
struct SealedLog {
  MemgestId memgest;
  std::uint64_t applied = 0;  // the last index folded
  std::uint64_t last = 0;     // the last index held: folded, or in the valid tail
  friend bool operator==(const SealedLog&, const SealedLog&) = default;
};

class SealedRing {
 public:
  // logs: what is folded of each, with `last` the last index met in this ring, 0 for none.
  // REQUIRES: the ring is revoked and its queue pair gone (L5).
  static absl::StatusOr<std::unique_ptr<SealedRing>> Create(std::unique_ptr<LogReader> reader,
                                                            std::vector<SealedLog> logs);

  // In order of memgests; stays what it was when the ring was sealed.
  const std::vector<SealedLog>& logs() const { return logs_; }
  // Shows the entries of a log from after_index + 1 to its last one, in order.
  absl::Status ReadTail(MemgestId memgest, std::uint64_t after_index,
                        absl::FunctionRef<void(const EntryView&)> visit) const;

  Epoch epoch() const { return reader_->epoch(); }
  LogReader& reader() { return *reader_; }

 private:
  SealedRing(std::unique_ptr<LogReader> reader, std::vector<SealedLog> logs)
      : reader_(std::move(reader)), logs_(std::move(logs)) {}

  std::unique_ptr<LogReader> reader_;
  std::vector<SealedLog> logs_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SEALED_RING_H_
