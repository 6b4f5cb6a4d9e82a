// memgest/parity_rebuild.h — new parities of one memgest, at a shard's coordinator, until they have
// all that the shard holds.
//
// What:      A parity that joins covers a shard from the extent on that was unused when its ring
//            opened (E0); what lies below is pushed to it in BASE entries of the shard's own log,
//            from the first cell to the last. Until then nothing is allocated in what it does not
//            cover, so that an entry which it acknowledges is one that it can decode.
// Shape:     one per coded memgest of a shard. Contributions are linear: each shard is based by
//            itself, between puts, and no other shard waits for it. A BASE never crosses a block,
//            is at most 64 KiB and a 64th of the ring, and the next one follows when it is
//            committed. New parities of the same memgest share those that both need.
// Units:     cells of the shard's heap.
// Ownership: borrows the memgest; arena pieces are the log's once they were appended.
// Threads:   one, the node's.
// Errors:    none: what does not go now goes with a later Step.
// Cost:      one multiplication and one CRC over each piece and new parity. Pages that were never
//            touched cost an entry a block, without a payload.
// Source:    rules S6, E5; docs/adr/0018.
#ifndef RING_MEMGEST_PARITY_REBUILD_H_
#define RING_MEMGEST_PARITY_REBUILD_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "memgest/delta_arena.h"
#include "memgest/member_set.h"
#include "ring/base/id.h"

namespace ring::memgest {

class Memgest;
class ShardLog;

class ParityRebuild {
 public:
  explicit ParityRebuild(Memgest* memgest) : memgest_(memgest) {}

  // The ring of this role's new holder opens, and it gets a snapshot of this very moment. Gives its
  // E0; 0: the shard never used the memgest, and the parity has all of it.
  std::uint64_t Begin(Role role);
  // Who began and is in no record did not get its snapshot: it begins again, if at all, and what
  // was barred for it serves meanwhile.
  void End(Role role);
  // A Normal was applied: it names `active`, and of these `incomplete` as such. first: it is the
  // epoch's first, and who had begun and is not named begins again. Who is incomplete and never
  // began here was sent its bases by another coordinator: it gets all of them again, and counts
  // none twice.
  struct From {
    Role role;
    std::uint64_t extent = 0;
  };
  void OnNormal(RoleMask active, absl::Span<const From> incomplete, bool first);

  enum class Pushed : std::uint8_t {
    kNothing = 0,  // all is sent, or what is to be sent is not here (S4), or nobody is named
    kWaits = 1,    // for the BASE before to be committed
    kNoRoom = 2,   // in ring or arena, just now
    kOne = 3,
  };
  // Appends at most one BASE. REQUIRES: the log is not held.
  Pushed Step(ShardLog& log, DeltaArena* arena);

  // Somebody still lacks something, as far as it is known here.
  bool active() const { return !parities_.empty(); }
  // Memory that nothing is allocated in yet is needed: what is left to send goes at once, whatever
  // the pace of recovery is.
  void Hurry() { hurries_ = barring_; }
  bool hurries() const { return hurries_; }
  // What is known of a role that began: whether it has all that it was to be sent.
  bool Complete(Role role, const ShardLog& log) const;
  std::vector<From> parities() const;
  // How far each of them is, by role.
  struct Progress {
    Role role;
    std::uint64_t sent_cells = 0;
    std::uint64_t all_cells = 0;  // never 0
  };
  std::vector<Progress> progress() const;
  // Bytes of all BASE entries so far; each new parity counts.
  std::uint64_t pushed_bytes() const { return pushed_bytes_; }

 private:
  struct Parity {
    Role role;
    std::uint64_t extent = 0;
    std::uint64_t from_cells = 0;
    std::uint64_t next_cells = 0;  // sent are those below
    std::uint64_t last_order = 0;  // of the last BASE
  };
  struct Piece {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    bool zero = false;
  };

  const Parity* Find(Role role) const;
  void Add(Role role, std::uint64_t extent);
  bool Takes(const Member& member, std::uint64_t cell) const;
  Piece NextPiece() const;
  void Append(ShardLog& log, const Piece& piece, const DeltaArena::Piece& scratch);
  void BarAllocation();

  Memgest* memgest_;
  std::vector<Parity> parities_;  // until a Normal says that they are complete
  std::uint64_t last_order_ = 0;
  std::uint64_t pushed_bytes_ = 0;
  bool barring_ = false;
  bool hurries_ = false;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_PARITY_REBUILD_H_
