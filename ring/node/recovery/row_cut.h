// ring/node/recovery/row_cut.h — the blocks of one parity row, each at a cut: the reader's side
// of S2.
//
// What:      RowCut has blocks of a row frozen at their coordinators and their bytes written here,
//            or held there for partial sums (partial_service.h). What came of it is said column
//            by column: bytes, zeros, a Lost block, or no answer. They stay frozen until Thaw, but
//            not for longer than 1 s (block_freezer.h).
// Shape:     one row at a time; bytes of column c stand at c * block size.
// Ownership: borrows the node; owns the memory that blocks are written to. If not all who were
//            asked for a cut gave their block, memory and key are held by the node until they
//            cannot be written to any more (held_memory.h).
// Threads:   one, the node's.
// Errors:    Begin: kResourceExhausted, no memory. A column's own: as block_freezer.h says, and
//            what the control port says of a coordinator that cannot be asked.
// Cost:      one WRITE of each block.
// Source:    rules S2, L5.
#ifndef RING_NODE_RECOVERY_ROW_CUT_H_
#define RING_NODE_RECOVERY_ROW_CUT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"
#include "ring/recovery/block_message.h"
#include "srs/layout.h"

namespace ring::node {

class Node;

class RowCut {
 public:
  explicit RowCut(Node* node);
  ~RowCut();
  RowCut(const RowCut&) = delete;
  RowCut& operator=(const RowCut&) = delete;

  // Asks for the columns of the mask, in the group's present epoch. What was cut before is given
  // up. REQUIRES: their shards have coordinators.
  absl::Status Begin(const recovery::RowName& place, const srs::Layout& layout,
                     std::uint32_t columns, std::uint64_t now_ns) {
    return Begin(place, layout, columns, false, now_ns);
  }
  // The same, without the bytes.
  absl::Status BeginHeld(const recovery::RowName& place, const srs::Layout& layout,
                         std::uint32_t columns, std::uint64_t now_ns) {
    return Begin(place, layout, columns, true, now_ns);
  }
  bool waiting() const { return attempt_ != nullptr && attempt_->left > 0; }
  std::uint64_t started_ns() const { return started_ns_; }
  // REQUIRES: asked for, and not waiting.
  absl::StatusOr<recovery::FreezeAnswer> answer(std::uint32_t column) const;
  // REQUIRES: not held.
  const std::byte* bytes(std::uint32_t column) const { return memory_ + column * block_size_; }
  // Names the freezes; 0: nothing is frozen.
  std::uint64_t token() const { return frozen_ ? token_ : 0; }
  // Nothing can land any more; false, if somebody gave no block, and may be writing it yet.
  // REQUIRES: not waiting.
  bool Close();
  // Lets the coordinators go on; the bytes stay. A no-op when nothing is asked for.
  void Thaw();

 private:
  // Who was asked for the bytes, and did not give them.
  std::vector<NodeId> Writers() const;
  struct Attempt {  // shared with callbacks, which may come after its end
    std::vector<absl::StatusOr<std::string>> answers;
    std::size_t left = 0;
    std::unique_ptr<rdma::MemoryRegion> region;  // null: held
  };
  absl::Status Begin(const recovery::RowName& place, const srs::Layout& layout,
                     std::uint32_t columns, bool held, std::uint64_t now_ns);
  absl::Status MakeRoom(std::size_t size);
  void Abandon();

  Node* node_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  std::size_t block_size_ = 0;
  std::uint64_t started_ns_ = 0;
  std::uint64_t token_ = 0;  // of the freezes; who was silent may be asked for it after the thaw
  bool frozen_ = false;
  std::vector<NodeId> asked_;
  std::vector<std::uint32_t> columns_;  // that they were asked for
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_ROW_CUT_H_
