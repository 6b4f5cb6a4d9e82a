// memgest/log_writer.h — the coordinator's end of one ring: appends entries to one member of a
// shard.
//
// What:      Stages entries of all memgests of the shard, posts them as one chain of gather-WRITEs
//            with one doorbell (Flush), counts the member's acknowledgements, and tells it the
//            commit position (E5).
// Shape:     one writer per (group, shard -> member, epoch); one remote ring; orders rise strictly.
//            `order` is the shard-wide sequence of appended entries: an order is acknowledged here
//            iff order <= acked_order(), for the orders that went to this writer.
//            In a turn: HasRoom, Append, ... , Flush, AdvanceCommit, ShareCommit; and OnCompletion
//            for what the send queue's completion queue gives.
// Units:     bytes; positions count bytes of the ring since its first.
// Ownership: borrows queue pair, staging and credit for its life. The queue pair's send side is the
//            writer's alone. Payload bytes given to Append belong to the device until acked_order()
//            reaches the entry's order.
// Threads:   one, the node's.
// Errors:    a failed completion, a completion of what was never posted, and a credit beyond
//            position() or going backwards make the writer broken(): it posts nothing more, and its
//            ring counts for nothing.
// Cost:      no allocation, one copy of the head (128 bytes) per entry, one CRC of it;
//            tests/memgest/log_bench.cc.
// Source:    rules E5, L6, S11; Ring section 5.2.
#ifndef RING_MEMGEST_LOG_WRITER_H_
#define RING_MEMGEST_LOG_WRITER_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "memgest/log_entry.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

// Memory of a ring at the member: control line, then the entries.
inline constexpr std::size_t kRingControlSize = 64;  // u64 commit position, by the coordinator
inline constexpr std::size_t kRingSizeMin = 4 * kPayloadSizeMax;
inline constexpr std::size_t kStagingSizeMin = 16 * 1024;

struct LogWriterOptions {
  rdma::QueuePair* qp = nullptr;
  // Control line and ring; length = kRingControlSize + ring size, a multiple of 64.
  rdma::RemoteBuffer ring;
  const std::atomic<std::uint64_t>* credit = nullptr;  // folded position, by the member (E5)
  // Registered, 64-aligned memory for heads and trailers. A multiple of 64, at least
  // kStagingSizeMin; an entry in flight takes about 256 bytes, and kEntryHeadSizeMax must be free
  // for HasRoom to admit a large one: 64 KiB keeps a 256 KiB ring of small entries busy.
  std::byte* staging = nullptr;
  std::uint32_t staging_size = 0;
  std::uint32_t staging_lkey = 0;
  std::uint16_t writer_id = 0;  // in the upper 16 bits of every wr_id
  Epoch epoch;
  std::uint32_t send_depth = 256;  // of qp (QueuePairOptions); at least 8
};

// Where the payload of one entry comes from.
struct EntryPayload {
  absl::Span<const rdma::Sge> sges;  // at most 4, payload_length bytes together
  // payload_crc for the trailer. Where a CALC still computes the payload, it comes through the
  // pointer that Append gives back, before the Flush (S11).
  std::uint32_t crc = 0;
  // BASE: this member is not among those that it is for, and gets a bare one.
  bool withheld = false;
};

class LogWriter {
 public:
  static constexpr std::size_t kInFlightMax = 512;  // entries not yet acked and committed
  static constexpr std::size_t kStagedMax = 64;     // entries of one Flush
  static constexpr std::size_t kPayloadSgesMax = 4;
  static constexpr std::uint64_t kOrderMax = (std::uint64_t{1} << 47) - 1;

  explicit LogWriter(const LogWriterOptions& options);
  // Moving keeps what is staged and posted; a moved-from writer may only be destroyed.
  LogWriter(LogWriter&&) = default;
  LogWriter& operator=(LogWriter&&) = default;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Room in ring, staging and queue for an entry (and a PAD before it). reserved: COLLECT,
  // TOMBSTONE and BASE may use the last 1/16 of the ring, other entries may not (E5). False also
  // when broken(), and when kStagedMax entries wait for a Flush.
  bool HasRoom(std::size_t entry_size, bool reserved) const;

  // Stages one entry. head is what BuildEntryHead made; it is copied and sealed. Gives where
  // payload_crc stands in the staged trailer. REQUIRES: HasRoom said yes after the last Append,
  // order > every earlier order and <= kOrderMax.
  std::uint32_t* Append(std::uint64_t order, const std::byte* head, std::size_t head_size,
                        std::size_t payload_length, const EntryPayload& payload);

  // Posts what is staged: one chain, the last request signalled. Nothing staged: no-op. Errors:
  // kResourceExhausted when the queue pair is full, what is staged stays so: call again.
  // kUnavailable when broken(), also when the queue pair refuses for another reason: drops it.
  absl::Status Flush();

  // A completion of this writer's queue pair (wr_id's upper bits say which writer). One of another
  // queue pair or writer id is stale and counts for nothing (L6).
  void OnCompletion(const rdma::WorkCompletion& completion);

  // Everything with an order below first_uncommitted is committed: moves the commit position over
  // it.
  void AdvanceCommit(std::uint64_t first_uncommitted);
  // Posts the commit position to the member's control word if E5 asks for it: the send queue
  // drained, 64 entries went by, or less than a quarter of the ring is free. Call once a turn,
  // after Flush: nothing is told while entries are staged.
  // busy: further entries are likely soon, so that a drained queue alone is no reason.
  void ShareCommit(bool busy = false);
  // The member was not told everything that is committed.
  bool commit_unshared() const { return !broken_ && commit_position_ != shared_position_; }
  // An empty SEND: wakes a member that sleeps (QueuePair::PeerSleep) while entries wait for it.
  void RingDoorbell();

  std::uint64_t acked_order() const { return acked_order_; }
  std::uint64_t last_order() const { return last_order_; }  // that was appended
  std::uint64_t position() const { return position_; }
  std::uint64_t ring_size() const { return ring_size_; }
  std::uint64_t commit_position() const { return commit_position_; }
  // The commit position that the member knows.
  std::uint64_t shared_position() const { return shared_position_; }
  // What the member said it folded, as of the last look.
  std::uint64_t folded_position() const { return folded_position_; }
  std::uint64_t LookAtFolded() const {
    RefreshCredit();
    return folded_position_;
  }
  bool staged() const { return staged_count_ > 0; }
  bool broken() const { return broken_; }
  // The member holds what it should of all orders up to this one. REQUIRES: nothing was appended.
  void StartAt(std::uint64_t order) { acked_order_ = last_order_ = order; }
  // What its member lacks is kept no more: it posts nothing, and only a snapshot helps the member.
  void Abandon() { broken_ = abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  rdma::QueuePair* qp() const { return options_.qp; }

 private:
  // An entry, and a PAD before it, from Append until it is acknowledged and committed.
  struct InFlight {
    std::uint64_t order = 0;
    std::uint64_t end_position = 0;
    std::uint64_t request_total = 0;  // requests staged up to and with it
    std::uint32_t staging_size = 0;   // with what was wasted at the staging's end
  };
  struct Gather {
    rdma::Sge sges[kPayloadSgesMax + 2];
  };
  // Where the next entry goes.
  struct Place {
    std::uint64_t pad_size = 0;
    std::uint64_t next_position = 0;
  };

  Place PlaceFor(std::size_t entry_size) const;
  bool RingHasRoom(const Place& place, bool reserved) const;
  // Bytes of staging that a piece of `size` takes, waste at the end included; 0: no room.
  std::size_t StagingCost(std::size_t size) const;
  void RefreshCredit() const;
  bool InFlightFull() const {
    return in_flight_end_ - (in_flight_acked_ < in_flight_committed_ ? in_flight_acked_
                                                                     : in_flight_committed_) ==
           kInFlightMax;
  }
  std::uint64_t RequestsOutstanding() const { return request_total_ - request_done_; }
  InFlight& At(std::uint64_t sequence) { return in_flight_[sequence % kInFlightMax]; }
  rdma::WorkRequest& StageRequest(std::uint64_t order);
  // A piece of StagingCost(size), and what it took.
  std::byte* TakeStaging(std::size_t size, std::uint32_t* cost);
  void StagePad(std::uint64_t order, std::uint64_t pad_size, std::byte* staging);
  void StageEntry(std::uint64_t order, std::byte* head, std::size_t head_size, std::byte* trailer,
                  std::size_t zeros, const EntryPayload& payload);
  // The gather list stands at the next request's place of gathers_.
  void StageWrite(std::uint64_t order, std::size_t sge_count);
  void DropStaged();
  std::uint64_t RingAddress() const { return options_.ring.address + kRingControlSize + offset_; }
  void MoveTo(std::uint64_t next_position);

  LogWriterOptions options_;
  std::uint64_t ring_size_ = 0;
  std::uint64_t wr_id_base_ = 0;

  std::uint64_t acked_order_ = 0;
  std::uint64_t last_order_ = 0;        // appended
  std::uint64_t flushed_order_ = 0;     // posted
  std::uint64_t position_ = 0;          // of the next entry
  std::uint64_t offset_ = 0;            // position_ modulo the ring's size
  std::uint64_t flushed_position_ = 0;  // behind what was posted
  std::uint64_t commit_position_ = 0;
  std::uint64_t shared_position_ = 0;  // commit position that was told
  std::uint64_t commits_since_share_ = 0;
  // HasRoom looks at the credit and may find it bogus.
  mutable std::uint64_t folded_position_ = 0;
  mutable bool broken_ = false;
  bool abandoned_ = false;
  std::uint32_t prev_crc_ = 0;

  std::size_t staged_count_ = 0;  // entries
  std::size_t staged_requests_ = 0;
  std::vector<rdma::WorkRequest> requests_;
  std::vector<Gather> gathers_;

  std::size_t staging_next_ = 0;  // offset of the next free byte
  std::size_t staging_used_ = 0;  // bytes before it, around the end, that are in flight

  // [first, acked) and [first, committed) of the sequence: first = min of both.
  std::vector<InFlight> in_flight_;
  std::uint64_t in_flight_acked_ = 0;
  std::uint64_t in_flight_committed_ = 0;
  std::uint64_t in_flight_end_ = 0;

  // Requests ever staged, and those known to be done: the queue pair holds the difference.
  std::uint64_t request_total_ = 0;
  std::uint64_t request_done_ = 0;
  std::uint64_t request_signalled_ = 0;  // request_total_ at the last signalled request
  std::uint64_t control_signalled_ = 0;  // request_total_ at the signalled control word, 0: none
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_WRITER_H_
