// memgest/log_writer.h — the coordinator's end of one ring: appends entries to one member of a
// shard.
//
// What:      Stages entries of all memgests of the shard, posts them as one chain of gather-WRITEs
// with one doorbell
//            (Flush), counts the member's acknowledgements, and tells it the commit position (E5).
// Shape:     one writer per (group, shard -> member, epoch); one remote ring; orders rise strictly.
// `order` is the
//            shard-wide sequence of appended entries: an order is acknowledged here iff order <=
//            acked_order(), for the orders that went to this writer.
// Units:     bytes; positions count bytes of the ring since its first.
// Ownership: borrows queue pair, staging and credit for its life. Payload bytes given to Append
// belong to the device
//            until acked_order() reaches the entry's order.
// Threads:   one, the node's.
// Errors:    a failed completion makes the writer broken(): it stages nothing more, and its ring
// counts for nothing. Cost:      no allocation, one copy of the head (128 bytes) per entry, one CRC
// of it. Source:    protocol rules E5, L6; Ring section 5.2.
#ifndef RING_MEMGEST_LOG_WRITER_H_
#define RING_MEMGEST_LOG_WRITER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "memgest/log_entry.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

// Memory of a ring at the member: control line, then the entries.
inline constexpr std::size_t kRingControlSize =
    64;  // u64 commit position, written by the coordinator
inline constexpr std::size_t kRingSizeMin = 4 * kPayloadSizeMax;

struct LogWriterOptions {
  rdma::QueuePair* qp = nullptr;
  rdma::RemoteBuffer ring;  // control line and ring; length = kRingControlSize + ring size
  const std::atomic<std::uint64_t>* credit =
      nullptr;                     // folded position, written by the member (E5)
  std::byte* staging = nullptr;    // registered memory for heads and trailers
  std::uint32_t staging_size = 0;  // a multiple of 64, at least 16 KiB
  std::uint32_t staging_lkey = 0;
  std::uint16_t writer_id = 0;  // in the upper 16 bits of every wr_id
  Epoch epoch;
};

// Where the payload of one entry comes from.
struct EntryPayload {
  absl::Span<const rdma::Sge> sges;  // at most 4
  std::uint32_t crc = 0;             // payload_crc for the trailer, if it is known now
  // Set: the payload is the output of a CALC that is under way; the WRITE waits for it (WAIT on
  // this queue), and the CALC stores payload_crc itself through the pointer that Append gives back.
  rdma::CompletionQueue* wait_cq = nullptr;
};

class LogWriter {
 public:
  static constexpr std::size_t kInFlightMax = 1024;
  static constexpr std::size_t kStagedMax = 64;

  explicit LogWriter(const LogWriterOptions& options);

  // Room in ring, staging and queue for an entry (and a PAD before it). reserved: COLLECT,
  // TOMBSTONE and BASE may use the last 1/16 of the ring, other entries may not (E5).
  bool HasRoom(std::size_t entry_size, bool reserved) const;

  // Stages one entry. head is what BuildEntryHead made; it is copied and sealed. Gives where
  // payload_crc stands in the staged trailer. REQUIRES: HasRoom, !broken(), order > every earlier
  // order.
  std::uint32_t* Append(std::uint64_t order, const std::byte* head, std::size_t head_size,
                        std::size_t payload_length, const EntryPayload& payload);

  // Posts what is staged: one chain, the last request signalled. Nothing staged: no-op.
  absl::Status Flush();

  // A completion of this writer's queue pair (wr_id's upper bits say which writer).
  void OnCompletion(const rdma::WorkCompletion& completion);

  // Everything with an order below first_uncommitted is committed: moves the commit position over
  // it.
  void AdvanceCommit(std::uint64_t first_uncommitted);
  // Posts the commit position to the member's control word if E5 asks for it: the send queue
  // drained, 64 entries went by, or less than a quarter of the ring is free. Call once a turn,
  // after Flush.
  void ShareCommit();

  std::uint64_t acked_order() const { return acked_order_; }
  std::uint64_t position() const { return position_; }
  std::uint64_t commit_position() const { return commit_position_; }
  bool staged() const { return staged_count_ > 0; }
  bool broken() const { return broken_; }
  rdma::QueuePair* qp() const { return options_.qp; }

 private:
  // The writer's implementer owns what stands here.
  LogWriterOptions options_;
  std::uint64_t acked_order_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t commit_position_ = 0;
  std::size_t staged_count_ = 0;
  bool broken_ = false;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_WRITER_H_
