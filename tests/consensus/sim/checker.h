// tests/consensus/sim/checker.h — Raft's properties, checked after every step of every server.
//
// What:      Checker: election safety, leader append-only, log matching, leader completeness, state
//            machine safety (10.9); nothing said or committed that is not durable (10.1, 10.7); one
//            vote a term and server (10.6); reads see what was committed before them (10.5). Of
//            10.2 and 10.4 the rule itself is checked: what comes of a breach takes a history of
//            many steps (tests/consensus/scenarios.h), which seeds meet once in thousands.
// Shape:     incremental: each call looks at what changed since the last one at that server.
// Ownership: keeps what it needs of the past; borrows its arguments.
// Threads:   thread-compatible.
// Errors:    the first violation is kept as text; later ones follow from it.
// Source:    Ongaro's dissertation, figure 3.2.
#ifndef RING_TESTS_CONSENSUS_SIM_CHECKER_H_
#define RING_TESTS_CONSENSUS_SIM_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "consensus/memory_storage.h"
#include "consensus/raft.h"

namespace ring::consensus::sim {

// What the checker remembers of one server since its start.
struct Witness {
  LogIndex commit = 0;
  std::uint64_t version = ~std::uint64_t{0};
  LogIndex base = 0;
  std::vector<Term> terms;  // of the entries behind base
  bool leads = false;
  Term term = 0;
  LogIndex last = 0;
  Term last_term = 0;
  LogIndex configuration = 0;
  std::vector<ServerId> voters;
};

class Checker {
 public:
  // The durable state of a server, by id, to ask whether a commit is durable; true also for servers
  // that were destroyed after they had it.
  class Disks {
   public:
    virtual ~Disks() = default;
    virtual bool HasEntry(ServerId id, LogIndex index, Term term) const = 0;
  };

  explicit Checker(const Disks& disks) : disks_(disks), committed_(1), history_(1) {}

  bool ok() const { return violation_.empty(); }
  const std::string& violation() const { return violation_; }
  void Fail(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
  }

  // A server started or is gone.
  void Forget(ServerId id) { leading_.erase(id); }
  void AfterStep(const Raft& raft, Witness& witness);
  void OnSend(const Message& m, const MemoryStorage& disk);
  // A server applied an entry; its state machine then has this hash.
  void OnApply(ServerId id, const Entry& entry, std::uint64_t machine_hash);
  void OnRestore(ServerId id, LogIndex index, std::uint64_t machine_hash);
  // A command had an effect in the history that all servers share.
  void OnEffect(LogIndex index, std::uint32_t client, std::uint32_t sequence);
  std::size_t elections() const { return leaders_.size(); }
  // What a read that begins now must see.
  LogIndex committed_index() const { return static_cast<LogIndex>(committed_.size()) - 1; }
  void OnRead(ServerId id, LogIndex index, LogIndex committed_before);

 private:
  struct Content {
    Term term;
    Term before;  // term of the entry before it
    std::uint64_t hash;
  };
  struct Committed {
    Term term = 0;
    Term by = 0;  // the term in which it was committed first
    std::uint64_t hash = 0;
  };
  struct Past {
    bool known = false;
    std::uint64_t hash = 0;
  };

  void CheckLog(const Raft& raft, Witness& witness);
  void CheckConfiguration(const Raft& raft, Witness& witness);
  void CheckLeader(const Raft& raft, Witness& witness);
  void CheckCommit(const Raft& raft, Witness& witness);
  void CheckDurable(const Raft& raft, LogIndex index);
  void CheckComplete(const Raft& raft, LogIndex index);
  void Report(const char* rule, const Raft& raft, LogIndex index);

  const Disks& disks_;
  std::string violation_;
  std::map<Term, ServerId> leaders_;
  std::map<ServerId, const Raft*> leading_;
  std::vector<std::vector<Content>> contents_;  // by index
  std::vector<Committed> committed_;            // by index; 0 unused
  std::vector<Past> history_;                   // by index
  std::map<std::pair<std::uint32_t, std::uint32_t>, LogIndex> effects_;
  std::map<std::pair<Term, ServerId>, ServerId> votes_;
};

}  // namespace ring::consensus::sim

#endif  // RING_TESTS_CONSENSUS_SIM_CHECKER_H_
