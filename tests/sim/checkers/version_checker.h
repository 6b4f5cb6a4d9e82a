// tests/sim/checkers/version_checker.h — linearizability, with the versions of the answers as
// witness.
//
// What:      OnInvoke and OnReturn are called as the run goes on: an answer must not be older than
//            what had been answered when the operation began (I1). Finish looks at what is known of
//            each key as a whole: one version is one value (V1), a value is executed once
//            (exactly_once_checker.h, asked with what this one knows of losses), a move takes the
//            value below it (G7), a condition held (V9).
// Shape:     linear in the history. What it does not see (e.g. which tombstone a NOT_FOUND was
//            about) the search checker does.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    Violations.
// Source:    rules I1, I3, G6 (LoseUnreliable is the model of what Rep(1) may lose).
#ifndef RING_TESTS_SIM_CHECKERS_VERSION_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_VERSION_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/checkers/exactly_once_checker.h"
#include "tests/sim/history.h"

namespace ring::sim {

class VersionChecker {
 public:
  explicit VersionChecker(const History* history) : history_(history) {}

  void OnInvoke(std::size_t op);
  // reliable: the answer's version is in a memgest with f >= 1.
  void OnReturn(std::size_t op, bool reliable);
  // G6: the memory of these keys' coordinator is gone, with its versions in memgests of f = 0, all
  // of epochs before `epoch`, that of the next coordinator. They vanish at once; what is left is
  // the newest version of a reliable memgest. Answers that are still on their way tell of the past.
  void LoseUnreliable(const std::function<bool(int key)>& concerned, Epoch epoch);
  // F3: more was lost than memgests survive, and shards go on. Whatever was told before is owed no
  // more; what is told of epochs from epoch_of(key) on is.
  void LoseEverything(const std::function<Epoch(int key)>& epoch_of);
  // E8: the same of some keys, which somebody accepted, for epochs before `epoch`.
  void LoseAccepted(const std::function<bool(int key)>& concerned, Epoch epoch);
  void Finish();
  // Keys that may have lost something so: which answers were right, their order does not tell.
  bool MayHaveLost(int key) const;
  // ... whatever its memgests survive.
  bool MayHaveLostReliable(int key) const;
  LossModel Losses() const;

  const std::vector<Violation>& violations() const { return violations_; }

 private:
  struct Floor {
    Version any;
    bool any_deleted = false;
    Version reliable;
    bool reliable_deleted = false;
  };
  struct KeyState {
    Floor floor;  // the newest that an answer told of
    std::uint32_t losses = 0;
    Epoch lost_before;           // unreliable versions of earlier epochs are gone
    std::uint32_t accepted = 0;  // of the losses: reliable ones, too
    Epoch accepted_before;
    bool unreliable = false;  // it was, or may have been, in a memgest of f = 0
  };
  struct Begun {
    Floor floor;
    std::uint32_t losses = 0;
    std::uint32_t accepted = 0;
  };
  // What is known of one key at the end.
  struct Story {
    std::map<std::uint64_t, std::size_t> writes;  // by version: answered puts and deletes
    std::map<std::uint64_t, std::size_t> moves;   // answered moves that made a version
    std::map<std::uint64_t, ValueId> read;        // by version
    std::uint64_t open_moves = 0;                 // that may have made a version nobody told of
    std::uint64_t open_deletes = 0;
  };

  struct Known {
    Version version;
    bool exists = false;  // it is no tombstone
  };

  void Complain(absl::string_view kind, const Operation& op, absl::string_view why);
  bool DeleteMayStandAbove(const Operation& op, Version floor) const;
  static void LoseReliable(Epoch before, KeyState* key);
  bool MovedAwayFrom(int key, Version reliable) const;
  std::map<int, Story> Collect();
  void CheckReads(const Story& story);
  void CheckMoves(const Story& story);
  void CheckConditions(const Story& story);
  std::optional<Known> NewestBelow(const Story& story, std::uint64_t version) const;

  bool everything_ = false;  // of all keys
  const History* history_;
  std::map<int, KeyState> keys_;
  std::vector<Begun> begun_;
  std::vector<Violation> violations_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_VERSION_CHECKER_H_
