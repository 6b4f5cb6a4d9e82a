// tests/chaos/faults.h — what is done to the nodes, and when they are well again.
//
// What:      FaultInjector: one fault at a time, drawn from the classes that are asked for. Each
//            ends with all nodes running and connected; before the next one the cluster has to be
//            protected again, since it survives so many losses only from there.
// Shape:     kill      kill -9 of any node; it starts again later, empty
//            restart   kill -9, and it starts again at once (L8)
//            forget    as kill; a voter's decisions are gone, too: it is another server
//            pause     SIGSTOP shorter than the detection
//            zombie    SIGSTOP longer than the detection: it is replaced, and wakes up
//            partition a node and the rest cannot reach each other, or one way only: by routes
//                      of network namespaces; without them the nodes' devices are asked to fail
//                      what goes to the other side (FaultyDevice::Cut), which is both ways
//            double    two nodes at once, half of the time who leads the consensus and who
//                      coordinates a shard: only where every memgest with f >= 1 has f >= 2
//            nic       the network device of a node does wrong for a while: requests fail, WRITEs
//                      are torn, a bit turns, completions are late, resources are refused
// Ownership: borrows the nodes and the watch.
// Threads:   one, that of the nodes.
// Errors:    kDeadlineExceeded: the cluster was not protected again in time; kUnavailable: a
//            program could not be started.
// Source:    fault classes F1, F2, F4 to F8, F10, F11.
#ifndef RING_TESTS_CHAOS_FAULTS_H_
#define RING_TESTS_CHAOS_FAULTS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/admin/admin_client.h"
#include "ring/base/random.h"
#include "tests/chaos/chaos_options.h"
#include "tests/chaos/view_watch.h"
#include "tools/common/node_processes.h"

namespace ring::chaos {

class FaultInjector {
 public:
  FaultInjector(const ChaosOptions& options, tools::NodeProcesses* nodes, const ViewWatch* watch);

  // Whether there is such a class.
  static bool Knows(absl::string_view fault);
  // Injects until the time is over or enough was injected; everything runs when it returns ok.
  absl::Status Run(absl::Time until);
  // Everything runs and is connected again, whatever happened.
  absl::Status Heal();
  // What happened, by class.
  const std::map<std::string, int>& counts() const { return counts_; }
  // What parts nodes here: "namespaces" or "links".
  absl::string_view partitions_over() const {
    return options_.namespaces.empty() ? "links" : "namespaces";
  }

 private:
  // Whether it happened: who was just started may not take it yet.
  absl::StatusOr<bool> Inject(absl::string_view fault);
  std::vector<std::size_t> Pair(std::size_t victim);
  absl::Status Kill(std::vector<std::size_t> victims, absl::Duration down, bool forget);
  void Pause(std::size_t victim, absl::Duration time);
  absl::StatusOr<bool> DisturbNic(std::size_t victim);
  rdma::DeviceFault DrawNicFault();
  absl::Status Partition(std::size_t victim, absl::Duration time);
  absl::StatusOr<bool> Cut(std::size_t victim, absl::Duration time);
  absl::Status AskToCut(std::size_t from, std::size_t to, absl::Duration time);
  absl::StatusOr<admin::AdminClient*> Admin(std::size_t node);
  absl::Status Route(absl::string_view verb, std::size_t from, std::size_t to);
  std::string Draw();
  std::size_t Victim();
  void Say(absl::string_view fault, absl::string_view what);
  absl::Duration Between(absl::Duration low, absl::Duration high);

  const ChaosOptions& options_;
  tools::NodeProcesses* nodes_;
  const ViewWatch* watch_;
  SeededRandom random_;
  absl::Duration detect_;
  std::vector<std::pair<std::size_t, std::size_t>> cut_;
  std::map<std::string, int> counts_;
  std::vector<std::string> deck_;                            // classes that have yet to come
  std::vector<std::unique_ptr<admin::AdminClient>> admins_;  // by node; null until asked
};

}  // namespace ring::chaos

#endif  // RING_TESTS_CHAOS_FAULTS_H_
