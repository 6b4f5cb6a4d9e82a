// ring/node/scrub/scrub_run.h — one scrub's walks over what a node holds.
//
// What:      ScrubRun: the values of its shards, each of its members asked, and the rows of its
//            parities.
// Ownership: borrows the node; owns the walks and what they saw.
// Threads:   one, the node's.
// Errors:    tally().failure: something could not be compared at all, and the run is done.
// Cost:      a step sums at most 64 KiB of values and compares at most 64 KiB of one parity row.
// Source:    rules S2, S12.
#ifndef RING_NODE_SCRUB_SCRUB_RUN_H_
#define RING_NODE_SCRUB_SCRUB_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ring/node/scrub/scrub_rows.h"
#include "ring/node/scrub/scrub_values.h"

namespace ring::node {

class ScrubRun {
 public:
  explicit ScrubRun(Node* node);

  void Step(std::uint64_t now_ns);
  // Goes on with a row whose blocks are frozen; else nothing.
  void StepRow(std::uint64_t now_ns);
  bool done() const { return rows_ == nullptr; }
  // Blocks are frozen for it, elsewhere too: it wants to be done with them soon.
  bool in_row() const { return rows_ != nullptr && rows_->in_row(); }
  // The row can go on, without waiting for anybody.
  bool row_runnable() const { return in_row() && rows_->runnable(); }
  // Something to do without waiting for anybody.
  bool runnable() const;
  const ScrubTally& tally() const { return tally_; }

 private:
  void StepValues();

  ScrubTally tally_;
  std::vector<std::unique_ptr<ScrubValueWalk>> values_;
  std::unique_ptr<ScrubRowWalk> rows_;
  std::size_t next_ = 0;  // walk of values, in turn
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_RUN_H_
