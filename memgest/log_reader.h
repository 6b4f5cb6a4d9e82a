// memgest/log_reader.h — the member's end of one ring: finds committed entries to fold, and the
// valid tail.
//
// What:      Gives the next entry that is valid (E4) and known to be committed (E9), a ring at a
//            time; after folding, Consume moves on and the folded position goes back to the
//            coordinator as credit (E5). At an epoch change Seal ends that, and what is whole in
//            the ring can be read again, also what was folded.
// Shape:     one reader per (group, shard, epoch) on a member; memory as log_writer.h says.
// Units:     bytes; positions as in log_writer.h.
// Ownership: borrows the ring memory. What a view points at stays until ShareCredit told a folded
//            position behind it: several entries may be taken (Next, Consume, Next, ...) and folded
//            together, before ShareCredit. A sealed reader needs the memory until it dies.
// Threads:   one, the node's; the ring's bytes are written by the peer (or its NIC) at any time.
// Errors:    an entry below the commit position that does not decode is corruption, and so is a
//            control word that goes back or beyond the ring: kDataLoss, and the reader stays where
//            it is.
// Cost:      one load of the control word when there is nothing to fold; a CRC of each entry's
//            payload. Seal: a pass over what is not folded; ReadBack: two over the ring.
// Source:    rules E4, E5, E9, L5; steps 2 and 5 of an epoch change.
#ifndef RING_MEMGEST_LOG_READER_H_
#define RING_MEMGEST_LOG_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memgest/log_entry.h"
#include "memgest/log_writer.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::memgest {

struct LogReaderOptions {
  std::byte* memory = nullptr;  // control line, then the ring; 64-aligned
  std::size_t size = 0;         // of both, a multiple of 64
  Epoch epoch;
  rdma::QueuePair* qp = nullptr;  // towards the coordinator, for the credit; null once it is reset
  rdma::RemoteBuffer credit;      // the coordinator's word
  // Of the credit's WRITEs. One in kCreditSignalEvery is signalled, so that the send queue is
  // emptied; a successful completion needs no answer, a failed one means the link is down.
  std::uint64_t wr_id = 0;
};

// A place between two entries: the end of what is valid.
struct LogTail {
  std::uint64_t position = 0;
  std::uint32_t prev_crc = 0;
  friend bool operator==(const LogTail&, const LogTail&) = default;
};

class LogReader {
 public:
  static constexpr std::uint32_t kCreditSignalEvery = 16;

  explicit LogReader(const LogReaderOptions& options);

  // Whether a committed entry waits (or the control word is wrong, which Next tells). One load.
  bool HasCommitted() const;
  // Decodes the next committed entry into *entry (PADs are skipped). check_payload: its payload's
  // CRC as well; else the caller does that before the entry has an effect (CheckPayload).
  // False, or an error: none, and *entry holds nothing of use. Gives the same entry again until
  // Consume.
  absl::StatusOr<bool> Next(EntryView* entry, bool check_payload = true);
  // The entry that Next gave last is folded, or will be before ShareCredit.
  void Consume(const EntryView& entry);
  // WRITEs the folded position to the coordinator if 1/8 of the ring went by since the last time,
  // or if idle. Errors: the queue pair's, or kFailedPrecondition without one; call again.
  absl::Status ShareCredit(bool idle);
  // The writer ended before it could say so here: the entry of this index in the memgest's log is
  // committed, as another member knows, and so are all before it. False: it is not here. REQUIRES:
  // not sealed.
  bool CommitThrough(MemgestId memgest, std::uint64_t index);
  // L5: the queue pair is reset, whatever becomes of the seal. What is here is folded as ever.
  void DropQueuePair() { options_.qp = nullptr; }

  // Walks the valid tail behind the folded position without a commit position, shows every entry of
  // it but PADs, in order, and gives its end. The ring must be revoked, or its coordinator quiet
  // (L5).
  LogTail FindTail(absl::FunctionRef<void(const EntryView&)> visit) const;

  // L5: the coordinator can write here no more, and the queue pair is gone. Shows the valid tail
  // like FindTail, with entries below the commit position whose payload alone is damaged (F10), and
  // gives its end; Next gives nothing any more. Errors: kDataLoss, and no effect, if the tail ends
  // before what the coordinator called committed.
  absl::StatusOr<LogTail> Seal(absl::FunctionRef<void(const EntryView&)> visit);
  // The next epoch is Normal, and this member is of it: Next gives the whole tail. REQUIRES: Seal.
  void CommitTail();
  // REQUIRES, as ReadBack: Seal.
  bool drained() const { return folded_position_ == tail_.position; }
  // Shows every entry that is still whole (E4), in order, PADs left out: the valid tail, and before
  // it what was folded, back to the oldest remembered place from where on nothing is damaged.
  void ReadBack(absl::FunctionRef<void(const EntryView&)> visit) const;

  Epoch epoch() const { return options_.epoch; }
  std::uint64_t folded_position() const { return folded_position_; }
  // The greatest right control word seen, the present one included.
  std::uint64_t commit_position() const;

 private:
  // What the writer said, or CommitThrough.
  std::uint64_t LoadControlWord() const;
  bool IsRight(std::uint64_t control_word) const;
  void MoveBehind(const EntryView& entry);
  void Remember();
  // Shows the entries from a place on and gives the place behind the last that is valid and ends at
  // or before `end`.
  LogTail Walk(LogTail from, std::uint64_t end, bool check_payload,
               absl::FunctionRef<void(const EntryView&)> visit) const;

  // Places remembered for each turn of the ring: that much of it can be lost to ReadBack.
  static constexpr std::size_t kPlacesPerRing = 16;

  LogReaderOptions options_;
  std::uint64_t ring_size_ = 0;
  std::uint64_t folded_position_ = 0;
  std::uint64_t offset_ = 0;           // folded_position_ modulo the ring's size
  std::uint64_t commit_seen_ = 0;      // control word of the last Next
  std::uint64_t told_commit_ = 0;      // what stands for it, while it is less
  std::uint64_t shared_position_ = 0;  // folded position that was told
  std::uint32_t prev_crc_ = 0;
  std::uint32_t credits_ = 0;  // told
  bool sealed_ = false;
  std::uint64_t sealed_commit_ = 0;  // stands for the control word of a sealed ring
  LogTail tail_;                     // of a sealed ring
  std::uint64_t next_place_ = 0;     // from this folded position on one more is remembered
  std::uint64_t place_count_ = 0;    // ever
  std::array<LogTail, kPlacesPerRing + 1> places_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_READER_H_
