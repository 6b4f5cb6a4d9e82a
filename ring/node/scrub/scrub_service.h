// ring/node/scrub/scrub_service.h — a node's part of a scrub, asked for by control messages.
//
// What:      ScrubService: Start begins the walks over this node's shards and parities, Poll tells
//            how far they are, Stop ends them. It always answers what other nodes' walks ask
//            (comparer).
// Shape:     one run at a time. A run that nobody polls for 10 s ends: who started it is gone. The
//            node's own (idle_scrub.h) gives way to it.
// Ownership: borrows the node; owns the walks.
// Threads:   one, the node's.
// Errors:    Start: kResourceExhausted while another run is polled. Poll of another run: kNotFound.
// Cost:      a turn makes one step of the run.
// Source:    rules S2, S12.
#ifndef RING_NODE_SCRUB_SCRUB_SERVICE_H_
#define RING_NODE_SCRUB_SCRUB_SERVICE_H_

#include <memory>

#include "ring/node/scrub/idle_scrub.h"
#include "ring/node/scrub/scrub_run.h"

namespace ring::node {

class ScrubService {
 public:
  // period_ns: of the node's own scrubs, 0 is none.
  ScrubService(Node* node, std::uint64_t period_ns);

  void Progress(std::uint64_t now_ns);
  bool busy() const { return run_ != nullptr || comparer_.busy() || idle_.busy(); }
  bool HasWork() const { return (run_ != nullptr && run_->walks.runnable()) || idle_.HasWork(); }
  const IdleScrub::Totals& idle_totals() const { return idle_.totals(); }

 private:
  struct Run {
    explicit Run(Node* node) : walks(node) {}
    std::uint64_t id = 0;
    std::uint64_t polled_ns = 0;
    ScrubRun walks;
  };

  void OnStart(absl::string_view body, ControlReply reply);
  void OnPoll(absl::string_view body, ControlReply reply);
  void OnStop(absl::string_view body, ControlReply reply);

  Node* node_;
  ScrubComparer comparer_;
  std::unique_ptr<Run> run_;
  IdleScrub idle_;
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_SERVICE_H_
