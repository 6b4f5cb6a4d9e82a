// ring/node/recovery/held_memory.h — memory that other nodes were asked to write to, and may yet.
//
// What:      HeldMemory keeps what a cut's blocks were to be written to (row_cut.h) when not all
//            who were asked have answered: a coordinator that was stopped in the middle of the copy
//            goes on with it when it is woken, and a key that was taken back meanwhile does not
//            hinder it. It is free when each has answered a thaw of the cut, which it does between
//            two copies, or another start of it is registered.
// Ownership: owns the memory and its region; borrows the node.
// Threads:   one, the node's.
// Errors:    none. A node that is never heard of again costs what it was asked to write to.
// Source:    rule L5.
#ifndef RING_NODE_RECOVERY_HELD_MEMORY_H_
#define RING_NODE_RECOVERY_HELD_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/fabric.h"
#include "ring/base/id.h"

namespace ring::node {

class Node;

class HeldMemory {
 public:
  explicit HeldMemory(Node* node) : node_(node) {}

  struct Piece {
    std::byte* memory = nullptr;  // of the node's device, shared
    std::size_t size = 0;
    std::unique_ptr<rdma::MemoryRegion> region;
    std::uint64_t token = 0;  // of the freezes, which a thaw ends
  };
  void Add(Piece piece, const std::vector<NodeId>& writers);
  // Asks who has not answered, and frees what nobody writes to any more.
  void Progress(std::uint64_t now_ns);
  std::size_t count() const { return held_.size(); }

 private:
  static constexpr std::uint64_t kAskPeriodNs = 1'000'000'000;
  // Nobody waits for what is freed, and a node that is stopped for long leaves much to look at.
  static constexpr std::uint64_t kLookPeriodNs = 1'000'000;
  struct Writer {
    NodeId node;
    Incarnation incarnation;
    bool done = false;
  };
  struct Held {  // shared with callbacks, which may come after its end
    Piece piece;
    std::vector<Writer> writers;
    std::uint64_t ask_ns = 0;  // not before
  };
  void Ask(const std::shared_ptr<Held>& held);
  bool IsDone(const Held& held) const;

  Node* node_;
  std::vector<std::shared_ptr<Held>> held_;
  std::uint64_t look_ns_ = 0;  // not before
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_HELD_MEMORY_H_
