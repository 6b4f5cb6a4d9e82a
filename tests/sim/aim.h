// tests/sim/aim.h — blows that meet a certain step of a takeover or a join.
//
// What:      Aim reads the events that nodes tell operators (docs/OPERATIONS.md), and says whom the
//            next blow is to meet: of one kind of event that was drawn for the run, who told it,
//            whom it was about, or another one of that group. Blows at random moments hardly meet
//            what is over in a millisecond.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F1 and F2; the steps of an epoch change.
#ifndef RING_TESTS_SIM_AIM_H_
#define RING_TESTS_SIM_AIM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ring/base/random.h"
#include "ring/node/events/event.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class Aim {
 public:
  explicit Aim(SimCluster* cluster);

  // Called again and again. None: what it waits for has not happened since.
  std::optional<NodeId> Look();

 private:
  enum class Whom { kTeller, kSubject, kOther };
  struct Seen {  // of a node's events
    Incarnation incarnation;
    std::uint64_t number = 0;
  };
  NodeId VictimOf(const node::Event& event, NodeId teller);

  SimCluster* cluster_;
  SeededRandom random_;
  node::EventKind kind_;
  Whom whom_;
  std::vector<Seen> seen_;  // by node
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_AIM_H_
