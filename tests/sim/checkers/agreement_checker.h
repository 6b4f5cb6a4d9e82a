// tests/sim/checkers/agreement_checker.h — what the consensus of a cluster must keep.
//
// What:      AgreementChecker looks at every replica from time to time: a term has one leader, what
//            is committed at an index is the same everywhere and stays, the commit index of a
//            server never falls while it runs, and equal numbers of views are equal views.
// Shape:     tests/consensus/sim checks each step of the consensus alone; this checks it as nodes
//            drive it, with starts that have lost their memory.
// Ownership: remembers hashes, borrows nothing.
// Threads:   one.
// Errors:    Violations, the first few.
// Source:    rule 10.9.
#ifndef RING_TESTS_SIM_CHECKERS_AGREEMENT_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_AGREEMENT_CHECKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "consensus/raft.h"
#include "ring/cluster/view.h"
#include "tests/sim/history.h"

namespace ring::sim {

class AgreementChecker {
 public:
  void Look(const consensus::Raft& raft, const cluster::View& view);
  // Its next start goes on from its disk, and has to learn anew what is committed.
  void OnCrash(consensus::ServerId server) { servers_.erase(server); }
  const std::vector<Violation>& violations() const { return violations_; }
  std::uint64_t entries() const { return by_index_.size(); }

 private:
  struct Seen {
    consensus::Term term = 0;
    std::size_t hash = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  struct Server {
    consensus::LogIndex commit = 0;
    consensus::LogIndex looked = 0;  // committed entries up to here were compared
    std::uint32_t view_epoch = 0;
  };

  void Complain(const std::string& what);
  void LookAtLog(const consensus::Raft& raft, Server* server);

  std::map<consensus::LogIndex, Seen> by_index_;  // committed
  std::map<consensus::Term, consensus::ServerId> leaders_;
  std::map<consensus::ServerId, Server> servers_;
  std::map<std::uint32_t, std::size_t> views_;  // hash by number
  std::vector<Violation> violations_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_AGREEMENT_CHECKER_H_
