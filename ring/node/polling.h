// ring/node/polling.h — how the reactors of a host wait for work.
//
// What:      PollingOf: a reactor's options by the configuration's `poll`. Adaptive reactors poll
//            for poll_us after the last work and then sleep; with more of them on the host than
//            processors, in whatever process, they sleep at once. Busy ones never sleep, so each
//            needs a processor of its own.
// Threads:   pure.
// Errors:    kInvalidArgument: busy, and more threads that poll than processors; names both.
// Source:    docs/OPERATIONS.md (poll, poll_us).
#ifndef RING_NODE_POLLING_H_
#define RING_NODE_POLLING_H_

#include "absl/status/statusor.h"
#include "ring/node/config/config.h"
#include "ring/node/reactor.h"

namespace ring::node {

struct Pollers {
  int reactors = 1;
  int neighbours = 0;  // nodes of the configuration that other processes of this host run
  int processors = 1;
};

// Without the clock, which the caller has.
absl::StatusOr<ReactorOptions> PollingOf(const NodeConfig& config, const Pollers& pollers);

}  // namespace ring::node

#endif  // RING_NODE_POLLING_H_
