// ring/node/scrub/idle_scrub.h — a node's own scrub, again and again, while nobody needs it.
//
// What:      IdleScrub compares what the node holds once in a period, in the pauses of its
//            requests. What it finds is an error in the log, an event, and a number in the
//            statistics: it mends nothing, as which side is right is not its to say.
// Shape:     nodes begin at different times of the period. A run waits as long as requests come,
//            but for a row whose blocks are frozen: that is finished first. A run that an epoch
//            change or an operator's scrub ends begins again a period later.
// Units:     nanoseconds.
// Ownership: borrows the node; owns the run.
// Threads:   one, the node's.
// Errors:    none; a run that cannot compare something ends, and says so in the log.
// Cost:      without requests at most 2 MiB every 5 ms; else a load and a comparison a look.
// Source:    rule S12.
#ifndef RING_NODE_SCRUB_IDLE_SCRUB_H_
#define RING_NODE_SCRUB_IDLE_SCRUB_H_

#include <cstdint>
#include <memory>

#include "ring/node/scrub/scrub_run.h"

namespace ring::node {

class IdleScrub {
 public:
  struct Totals {
    std::uint64_t checked = 0;  // values and rows, in runs that ended
    std::uint64_t mismatches = 0;
  };
  // period_ns: 0 is never.
  IdleScrub(Node* node, std::uint64_t period_ns);

  void Progress(std::uint64_t now_ns);
  // Gives way to an operator's scrub.
  void Stop() { run_.reset(); }
  // Wants a look at each turn.
  bool busy() const { return run_ != nullptr && run_->in_row(); }
  bool HasWork() const { return run_ != nullptr && run_->row_runnable(); }
  const Totals& totals() const { return totals_; }

 private:
  // No request was executed for a while.
  bool IsIdle(std::uint64_t now_ns);
  void Tell();

  Node* node_;
  std::uint64_t period_ns_;
  std::uint64_t due_ns_ = 0;  // 0: not known yet
  std::uint64_t next_ns_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t idle_since_ns_ = 0;
  std::unique_ptr<ScrubRun> run_;
  Totals totals_;
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_IDLE_SCRUB_H_
