// ring/node/scrub/scrub_rows.h — parity rows against an encode of their blocks, at a cut.
//
// What:      ScrubRowWalk goes over the rows of all parities of this node. For each it freezes the
//            covered blocks at their coordinators, gets their bytes and their last index, waits
//            until the parity folded just that, and compares.
// Shape:     one row at a time, compared in slices of 64 KiB.
// Ownership: borrows the node.
// Threads:   one, the node's.
// Errors:    a coordinator that cannot be asked ends the walk (ScrubTally::failure). A cut that was
//            not reached in time is tried again; a parity that never comes to the coordinator's
//            index is a mismatch. A row with a Lost block is not compared.
// Cost:      one WRITE of each block, k multiply-adds.
// Source:    rules S2, S12; Ring section 3.3.
#ifndef RING_NODE_SCRUB_SCRUB_ROWS_H_
#define RING_NODE_SCRUB_SCRUB_ROWS_H_

#include <vector>

#include "memgest/parity_store.h"
#include "ring/node/recovery/row_cut.h"
#include "ring/node/scrub/scrub_tally.h"

namespace ring::node {

class Node;

class ScrubRowWalk {
 public:
  static constexpr std::size_t kSliceSize = 64 * 1024;
  // Measured here from before the freeze, so within the freezes' 1 s wherever they are.
  static constexpr std::uint64_t kCutNs = 700'000'000;
  static constexpr int kAttemptsMax = 20;

  ScrubRowWalk(Node* node, ScrubTally* tally);

  void Step(std::uint64_t now_ns);
  bool done() const { return stage_ == Stage::kDone; }
  // Something to do without waiting for anybody.
  bool runnable() const { return stage_ == Stage::kNext || stage_ == Stage::kCompare; }
  // Blocks are frozen for a row.
  bool in_row() const {
    return stage_ == Stage::kFreezing || stage_ == Stage::kFold || stage_ == Stage::kCompare;
  }

 private:
  enum class Stage : std::uint8_t {
    kNext = 0,
    kFreezing = 1,
    kFold = 2,
    kCompare = 3,
    kPause = 4,
    kDone = 5
  };
  struct Parity {
    GroupId group;
    MemgestId memgest;
    std::uint32_t extent_count = 0;
  };
  memgest::ParityStore* Find() const;  // null: it went with its memgest
  void Next(std::uint64_t now_ns);
  absl::Status Begin(std::uint64_t now_ns);
  void OnFrozen(std::uint64_t now_ns);
  void OnFold(std::uint64_t now_ns);
  bool Covers(const memgest::ParityStore& store) const;
  bool Folded(const memgest::ParityStore& store) const;
  void CompareSlice(std::uint64_t now_ns);
  bool EqualsEncode(const memgest::ParityStore& store, std::size_t begin, std::size_t size);
  void EndRow(bool checked);
  void Retry(absl::Status why, std::uint64_t now_ns);
  std::string Name() const;

  Node* node_;
  ScrubTally* tally_;
  std::vector<Parity> parities_;
  std::size_t parity_ = 0;
  std::uint32_t extent_ = 0;
  std::uint32_t row_ = 0;
  Stage stage_ = Stage::kNext;
  int attempts_ = 0;
  std::uint64_t pause_until_ns_ = 0;
  RowCut cut_;
  std::vector<recovery::FreezeAnswer> frozen_;  // by column
  std::size_t compared_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_ROWS_H_
