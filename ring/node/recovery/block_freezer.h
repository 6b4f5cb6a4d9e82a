// ring/node/recovery/block_freezer.h — blocks at a cut: the coordinator's side of S2.
//
// What:      Freezes a block. Once no entry that touches it is uncopied or uncommitted, its bytes
//            are written to the reader, and when they are there the answer says the last index
//            that touches it: only if the block was frozen all that time, for what is deleted or
//            thawed meanwhile is read by the WRITE as something else.
//            Nothing writes it until the reader's Thaw, the group's next epoch, or until 1 s
//            passed. A block that is Lost here is said to be so: an erasure. A reader that only
//            wants it held asks for sums over its bytes instead (partial_service.h).
//            What is over for its reader stays frozen until its WRITE is done, or the connection
//            that has it ended: the device reads the block's memory until then.
// Shape:     kFrozenMax blocks at a time. Readers: a scrub, a decode (recovery/row_cut.h).
// Ownership: borrows the node.
// Threads:   one, the node's.
// Errors:    answered: kNotFound (no such memgest or block here), kUnavailable (the shard is not
//            served here in this epoch), kResourceExhausted, kAborted (1 s passed, or the epoch
//            changed, first).
// Source:    rules S2, S4.
#ifndef RING_NODE_RECOVERY_BLOCK_FREEZER_H_
#define RING_NODE_RECOVERY_BLOCK_FREEZER_H_

#include <memory>
#include <vector>

#include "ring/coordinator/shard.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/block_message.h"

namespace ring::node {

class Node;

class BlockFreezer {
 public:
  static constexpr std::uint64_t kFreezeNs = 1'000'000'000;
  static constexpr std::size_t kFrozenMax = 256;

  explicit BlockFreezer(Node* node);
  void Progress(std::uint64_t now_ns);
  bool busy() const { return !frozen_.empty() || !sending_.empty(); }
  // The bytes of a block while it is frozen for that reader, null for zeros. kAborted: it is not.
  absl::StatusOr<const std::byte*> Held(NodeId reader, std::uint64_t token,
                                        const recovery::LogName& log, std::uint32_t block);

 private:
  struct Frozen {
    NodeId reader;
    recovery::FreezeRequest request;
    std::uint64_t expires_ns = 0;
    std::uint64_t order = 0;  // entries below may touch the block
    std::uint64_t id = 0;
    bool large_write = false;
    bool writing = false;
    std::weak_ptr<bool> write;  // there as long as the control connection has the WRITE
    ControlReply reply;         // null: answered
  };
  // Of a freeze that is over.
  struct Sending {
    recovery::FreezeRequest request;  // its epoch: the last one in which the block was frozen
    std::weak_ptr<bool> write;
  };

  void OnFreeze(NodeId from, absl::string_view body, ControlReply reply);
  void OnThaw(NodeId from, absl::string_view body, ControlReply reply);
  bool Step(Frozen& frozen, std::uint64_t now_ns);
  void Answer(Frozen& frozen, memgest::Memgest& memgest);
  void OnWritten(std::uint64_t id, const recovery::FreezeAnswer& answer);
  void End(Frozen& frozen, const absl::Status& why);
  void ProgressSending();
  void Thaw(const recovery::FreezeRequest& request);
  coordinator::ShardCoordinator* Serving(const recovery::LogName& log) const;
  memgest::Memgest* Find(const recovery::FreezeRequest& request,
                         coordinator::ShardCoordinator** shard);

  Node* node_;
  std::vector<Frozen> frozen_;
  std::vector<Sending> sending_;
  std::uint64_t last_id_ = 0;
  bool answered_ = false;  // since Progress: one each time, and more while the turn has bytes left
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_BLOCK_FREEZER_H_
