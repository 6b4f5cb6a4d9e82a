// ring/node/scrub/scrub_service.h — a node's part of a scrub, asked for by control messages.
//
// What:      ScrubService: Start begins the walks over this node's shards and parities, Poll tells
//            how far they are, Stop ends them. It always answers what other nodes' walks ask
//            (comparer).
// Shape:     one run at a time. A run that nobody polls for 10 s ends: who started it is gone.
// Ownership: borrows the node; owns the walks.
// Threads:   one, the node's.
// Errors:    Start: kResourceExhausted while another run is polled. Poll of another run: kNotFound.
// Cost:      a turn sums at most 64 KiB of values and compares at most 64 KiB of one parity row.
// Source:    protocol rules S2, S12.
#ifndef RING_NODE_SCRUB_SCRUB_SERVICE_H_
#define RING_NODE_SCRUB_SCRUB_SERVICE_H_

#include <memory>
#include <vector>

#include "ring/node/scrub/scrub_rows.h"
#include "ring/node/scrub/scrub_values.h"

namespace ring::node {

class ScrubService {
 public:
  explicit ScrubService(Node* node);

  void Progress(std::uint64_t now_ns);
  bool busy() const { return run_ != nullptr || comparer_.busy(); }
  bool HasWork() const;

 private:
  struct Run {
    std::uint64_t id = 0;
    std::uint64_t polled_ns = 0;
    ScrubTally tally;
    std::vector<std::unique_ptr<ScrubValueWalk>> values;
    std::unique_ptr<ScrubRowWalk> rows;
    std::size_t next = 0;  // walk of values, in turn
    bool done = false;
  };

  void OnStart(absl::string_view body, ControlReply reply);
  void OnPoll(absl::string_view body, ControlReply reply);
  void OnStop(absl::string_view body, ControlReply reply);
  void StepRun(std::uint64_t now_ns);

  Node* node_;
  ScrubComparer comparer_;
  std::unique_ptr<Run> run_;
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_SERVICE_H_
