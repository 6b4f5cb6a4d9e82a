// ring/recovery/block_recovery.h — brings the Lost blocks of coded memgests back to a shard's new
// coordinator.
//
// What:      BlockRecovery says which block is asked for next and of whom: first what operations
//            wait for, then all the rest within the node's pace. It installs what comes, if the
//            block is still Decoding in the same epoch (S5) and every version in it has its
//            checksum (S12), and makes the block Present. Blocks of one version that has several
//            stay Decoding until all are here, and become Present together.
// Shape:     one per shard that was taken over, through its epochs. Blocks of all coded memgests;
//            extents that were never used are never Lost, and need nothing.
// Units:     nanoseconds of the caller's clock.
// Ownership: borrows actions, pace and the shard's lines.
// Threads:   one, the node's.
// Errors:    an answer that is an error is asked for again, of another parity, ever later. One that
//            is kDataLoss says that nobody can ever help: the block stays Lost in this epoch. So do
//            all if the record names nobody who has any (E8: that loss was accepted). Wrong
//            bytes of one parity are asked for of the others, all blocks of a version of one
//            parity; if each gives such, they are asked for without one block of the row after the
//            other, as rank allows. If nothing fits, they are installed, and only the versions that
//            none of them fitted are lost.
// Cost:      one copy of a block, and its checksums; for a block of several, a look at the others.
// Source:    Ring section 5.5 (on-demand recovery); rules S4, S5, S7, S12, E8, I4.
#ifndef RING_RECOVERY_BLOCK_RECOVERY_H_
#define RING_RECOVERY_BLOCK_RECOVERY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "memgest/line_table.h"
#include "memgest/memgest.h"
#include "ring/base/id.h"
#include "ring/base/pace.h"
#include "ring/cluster/normal_record.h"
#include "ring/recovery/block_message.h"

namespace ring::recovery {

class BlockActions {
 public:
  virtual ~BlockActions() = default;
  // Null: the memgest was deleted.
  virtual memgest::Memgest* Find(MemgestId memgest) = 0;
  // Asks a parity node. Answer with OnBlock, once, not from within; not at all if it is certain
  // that the answer never comes.
  virtual void Ask(std::uint64_t call, NodeId parity, const DecodeRequest& request) = 0;
  // All blocks of the version of several whose value is absent and has bytes in this one; empty:
  // there is none.
  virtual std::vector<std::uint32_t> BlocksOfValue(MemgestId memgest, std::uint32_t block) = 0;
  // Its bytes, in place by now, have its checksum; true if there is none.
  virtual bool ValueFits(MemgestId memgest, std::uint32_t block) = 0;
  // The block is Present.
  virtual void OnPresent(MemgestId memgest, std::uint32_t block) = 0;
  // Nobody has what it could be decoded from, or will have.
  virtual void OnGone(MemgestId memgest, std::uint32_t block) = 0;
  // Somebody wants it, and it does not come: may be refused. It is still asked for.
  virtual void OnDelayed(MemgestId memgest, std::uint32_t block) = 0;
};

class BlockRecovery {
 public:
  static constexpr std::size_t kBackgroundMax = 4;  // blocks under way that nobody waits for
  static constexpr std::size_t kUrgentMax = 16;
  static constexpr std::uint32_t kLooksPerStep = 64;  // at blocks whose time may have come
  static constexpr int kFailuresUntilDelayed = 12;
  // Between two looks whether a block that is here waits for others in vain: its value was deleted.
  static constexpr std::uint64_t kLookNs = 1'000'000;

  BlockRecovery(BlockActions* actions, Pace* pace, const memgest::LineTable* lines, GroupId group,
                ShardId shard)
      : actions_(actions), pace_(pace), lines_(lines), group_(group), shard_(shard) {}

  // Its Lost blocks are to come back. index: where its log was adopted.
  void Add(MemgestId memgest, std::uint64_t index);
  // The epoch's Normal record: whom to ask (L7). Calls of an earlier epoch are nobody's, what was
  // Decoding is Lost again, and what is gone is asked for again. s: of the cluster. Gives whether
  // the epoch is another one than before.
  bool SetSources(Epoch epoch, const cluster::NormalRecord& normal, int s);
  // The shard is not served any more until the next SetSources.
  void EndEpoch();

  // An operation waits for this block. REQUIRES: it is not Present.
  void Want(MemgestId memgest, std::uint32_t block);
  // Whether the block may come soon, or be found gone.
  bool CanBring(MemgestId memgest, std::uint32_t block) const;
  // Whether there is anybody to ask.
  bool HasSource(MemgestId memgest) const;
  bool gone(MemgestId memgest, std::uint32_t block) const;

  // Begins what is due.
  void Step(std::uint64_t now_ns);
  void OnBlock(std::uint64_t call, const absl::StatusOr<std::string>& body);
  std::uint64_t blocks_total() const { return total_; }
  std::uint64_t blocks_left() const;

 private:
  using Key = std::pair<MemgestId, std::uint32_t>;
  struct Log {
    std::uint64_t index = 0;
    bool named = false;           // in the record of the present epoch
    std::vector<NodeId> sources;  // ... with all blocks, or who counts from some extent on
    std::uint32_t walk = 0;
  };
  // A block that is asked for, or was.
  struct Block {
    bool asked = false;
    bool gone = false;
    bool here = false;           // the bytes are, those of the value's other blocks are not
    bool told = false;           // OnDelayed
    int failures = 0;            // since the epoch began, or other bytes were asked for
    std::size_t source = 0;      // next to ask, of any
    std::optional<NodeId> only;  // ... or this one: what others gave did not fit
    std::vector<NodeId> wrong;   // parities whose bytes, of all the value's blocks, did not
    std::uint32_t without = 0;   // number of the source that is left out, from 1; 0: none is
    std::uint32_t refuted = 0;   // so many of them did not help
    NodeId from;                 // whose bytes are in place
    std::uint32_t from_without = 0;
    std::uint64_t last_touch = 0;
    bool zero = false;  // those bytes
    std::uint64_t retry_ns = 0;
  };
  struct Call {
    Key key;
    Epoch epoch;
    NodeId parity;
    std::uint32_t without = 0;
  };

  void Begin(const Key& key, Block& block);
  bool Due(const Block& block) const {
    return !block.asked && !block.gone && !block.here && now_ns_ >= block.retry_ns;
  }
  bool BeginNext();
  void Fail(const Call& call, Block& block, const absl::Status& why);
  void Lose(const Key& key, Block& block);
  absl::Status Install(const Key& key, const DecodeAnswer& answer);
  void Place(const Key& key, absl::string_view bytes);
  std::uint32_t NextWithout(const std::vector<Key>& value);
  void TellWhatWasLeftOut(const std::vector<Key>& value);
  NodeId SourceFor(const Block& block, const Log& log) const;
  std::vector<Key> ValueOf(const Key& key);
  void Settle(const Key& key);
  void Refute(const std::vector<Key>& value);
  void AskAnother(const std::vector<Key>& value);
  void Release(const std::vector<Key>& value);
  void LookAtOneThatWaits();
  bool SlotsFit(const memgest::Memgest& memgest, std::uint32_t block) const;

  BlockActions* actions_;
  Pace* pace_;
  const memgest::LineTable* lines_;
  GroupId group_;
  ShardId shard_;
  Epoch epoch_;  // 0: between two
  std::uint64_t now_ns_ = 0;
  std::uint64_t total_ = 0;
  std::map<MemgestId, Log> logs_;
  std::map<Key, Block> blocks_;
  std::set<Key> wanted_;  // of them, those that operations wait for
  std::set<Key> here_;    // ... and those that wait for others of their value
  Key look_;
  std::uint64_t look_ns_ = 0;
  absl::flat_hash_map<std::uint64_t, Call> calls_;
  std::uint64_t last_call_ = 0;
  std::size_t asked_count_ = 0;
};

}  // namespace ring::recovery

#endif  // RING_RECOVERY_BLOCK_RECOVERY_H_
