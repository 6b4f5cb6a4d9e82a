// memgest/log_reader.h — the member's end of one ring: finds committed entries to fold, and the
// valid tail.
//
// What:      Gives the next entry that is valid (E4) and known to be committed (E9), a ring at a
// time; after folding,
//            Consume moves on and the folded position goes back to the coordinator as credit (E5).
// Shape:     one reader per (group, shard, epoch) on a member; memory as log_writer.h says.
// Units:     bytes; positions as in log_writer.h.
// Ownership: borrows the ring memory. A view is good until the next Next or Consume.
// Threads:   one, the node's; the ring's bytes are written by the peer (or its NIC) at any time.
// Errors:    an entry below the commit position that does not decode is corruption: kDataLoss, and
// the reader stays
//            where it is.
// Cost:      one load of the control word when there is nothing to fold.
// Source:    protocol rules E4, E5, E9.
#ifndef RING_MEMGEST_LOG_READER_H_
#define RING_MEMGEST_LOG_READER_H_

#include <cstdint>

#include "memgest/log_entry.h"
#include "memgest/log_writer.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

struct LogReaderOptions {
  std::byte* memory = nullptr;  // control line, then the ring
  std::size_t size = 0;         // of both
  Epoch epoch;
  rdma::QueuePair* qp = nullptr;  // towards the coordinator, for the credit
  rdma::RemoteBuffer credit;      // the coordinator's word
};

class LogReader {
 public:
  explicit LogReader(const LogReaderOptions& options);

  // Whether a committed entry waits. One load.
  bool HasCommitted() const;
  // Decodes the next committed entry into *entry (PADs are skipped). False: none.
  absl::StatusOr<bool> Next(EntryView* entry);
  // The entry that Next gave is folded.
  void Consume(const EntryView& entry);
  // WRITEs the folded position to the coordinator if 1/8 of the ring went by since the last time,
  // or if idle.
  absl::Status ShareCredit(bool idle);

  // Walks the valid tail behind the folded position without a commit position and gives its end.
  // For seal and scrub.
  std::uint64_t ValidTail() const;

  std::uint64_t folded_position() const { return folded_position_; }
  std::uint64_t commit_position() const;

 private:
  LogReaderOptions options_;
  std::uint64_t folded_position_ = 0;
  std::uint64_t shared_position_ = 0;
  std::uint32_t prev_crc_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_READER_H_
