// ring/node/recovery/block_fetch.h — values of coded memgests, for a coordinator that took its
// shard over.
//
// What:      BlockFetch asks parity nodes for the shard's Lost blocks, as recovery::BlockRecovery
//            says, and tells the shard which versions are here once their blocks are.
// Shape:     one per shard that was taken over.
// Ownership: borrows shard, pace and control port.
// Threads:   one, the node's.
// Errors:    as block_recovery.h: a value whose block is gone is lost, one that does not come for
//            long is refused meanwhile.
// Source:    Ring section 5.5; rules S4, S5, S12.
#ifndef RING_NODE_RECOVERY_BLOCK_FETCH_H_
#define RING_NODE_RECOVERY_BLOCK_FETCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ring/coordinator/shard.h"
#include "ring/coordinator/takeover.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/block_recovery.h"

namespace ring::node {

class BlockFetch final : public recovery::BlockActions {
 public:
  // shard: just taken over. on_value: operations of the shard may go on.
  BlockFetch(ControlPort* control, Pace* pace, coordinator::ShardCoordinator* shard,
             std::function<void()> on_value);
  ~BlockFetch() override;

  // As ValueFetcher's, for lines of coded memgests.
  bool CanBring(std::uint32_t line) const;
  // ... and what it waits for has not all come, wrong.
  bool MayCome(std::uint32_t line) const;
  void Want(std::uint32_t line);

  recovery::BlockRecovery& recovery() { return recovery_; }
  const recovery::BlockRecovery& recovery() const { return recovery_; }

 private:
  memgest::Memgest* Find(MemgestId memgest) override { return shard_->FindMemgest(memgest); }
  void Ask(std::uint64_t call, NodeId parity, const recovery::DecodeRequest& request) override;
  std::vector<std::uint32_t> BlocksOfValue(MemgestId memgest, std::uint32_t block) override;
  bool ValueFits(MemgestId memgest, std::uint32_t block) override;
  void OnPresent(MemgestId memgest, std::uint32_t block) override;
  void OnGone(MemgestId memgest, std::uint32_t block) override;
  void OnDelayed(MemgestId memgest, std::uint32_t block) override;

  bool Absent(std::uint32_t line) const;
  template <class Visit>
  void ForEachBlock(std::uint32_t line, Visit visit) const;
  // The line of the version of several blocks whose value is absent and has bytes in the block;
  // memgest::kNoLine.
  std::uint32_t LargeLine(MemgestId memgest, std::uint32_t block) const;
  void ForgetLarge(MemgestId memgest, std::uint32_t block);
  // Lines whose value is absent and has bytes in the block.
  std::vector<std::uint32_t> LinesOf(MemgestId memgest, std::uint32_t block) const;

  ControlPort* control_;
  coordinator::ShardCoordinator* shard_;
  std::function<void()> on_value_;
  recovery::BlockRecovery recovery_;
  std::map<MemgestId, std::vector<std::uint32_t>> large_;  // line or kNoLine, by block
  std::shared_ptr<bool> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_BLOCK_FETCH_H_
