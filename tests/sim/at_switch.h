// tests/sim/at_switch.h — faults that meet the line that a bug switch would break.
//
// What:      AtSwitch listens where the code comes to the switch that is on, or probed
//            (ring/base/mutant.h), and says what is to befall whom there: who came there, or
//            another one of a group that it is in. What a rule protects from is hardly ever at
//            hand at a random moment; where the switch acts it is.
// Shape:     only some of the times that it is come to, drawn for the run: a line that is passed
//            for each put is met at the first one, or long after.
// Ownership: borrows the cluster; one at a time in a process.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F1, F2, F5 and F6.
#ifndef RING_TESTS_SIM_AT_SWITCH_H_
#define RING_TESTS_SIM_AT_SWITCH_H_

#include <cstdint>
#include <functional>

#include "ring/base/random.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class AtSwitch {
 public:
  enum class Deed {
    kCrash,
    kCrashTwo,  // `other`, too, some time later
    kPause,     // too short to be missed
    kSilence,   // others take over
    kWithhold,  // what it sends goes nowhere, and then it is lost
    kMute,      // it does not reach `other` for a while, which nobody misses
  };
  struct Order {
    Deed deed = Deed::kCrash;
    NodeId node;
    NodeId other;
    std::uint64_t delay_ns = 0;
  };

  // Orders are given in the midst of a node's turn: what they ask for happens between turns.
  AtSwitch(SimCluster* cluster, const FaultOptions& options,
           std::function<void(const Order&)> call);
  ~AtSwitch();
  AtSwitch(const AtSwitch&) = delete;
  AtSwitch& operator=(const AtSwitch&) = delete;

 private:
  void OnSwitch();
  void DrawSkip();
  Order Draw(NodeId here);
  NodeId AnotherOf(NodeId node);

  SimCluster* cluster_;
  FaultOptions options_;
  SeededRandom random_;
  std::function<void(const Order&)> call_;
  std::uint64_t orders_ = 0;
  std::uint64_t skip_ = 0;  // so many times nothing happens
  std::uint64_t skip_bits_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_AT_SWITCH_H_
