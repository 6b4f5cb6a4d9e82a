// consensus/raft_log.h — the log in memory, and how much of it is durable.
//
// What:      RaftLog: the entries behind a base (what a snapshot stands for), the configurations
//            among them, and three marks: last (in memory), emitted (given to the storage),
//            persisted (known durable). persisted <= emitted <= last.
// Ownership: owns its entries.
// Threads:   thread-compatible; pure.
// Errors:    none: what a caller must not do is a broken invariant.
// Source:    Ongaro's dissertation, 3.5, 4.1 (a configuration holds from its entry on, and falls
//            back with it) and 10.2.1 (the leader writes its log in parallel).
#ifndef RING_CONSENSUS_RAFT_LOG_H_
#define RING_CONSENSUS_RAFT_LOG_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "consensus/types.h"

namespace ring::consensus {

class RaftLog {
 public:
  // A log of a start: all of it is durable. REQUIRES: entries are dense from base_index + 1 on.
  RaftLog(LogIndex base_index, Term base_term, Configuration base_configuration,
          std::vector<Entry> entries);

  LogIndex base_index() const { return base_index_; }
  LogIndex last_index() const { return base_index_ + entries_.size(); }
  Term last_term() const { return entries_.empty() ? base_term_ : entries_.back().term; }
  // Nothing of the log is durable while a snapshot that replaces it is not: 0 then.
  LogIndex persisted() const { return persisted_; }
  // Whether the storage still owes something of the log.
  bool all_persisted() const { return persisted_ == last_index(); }
  // Counts changes, so that an observer knows when to look.
  std::uint64_t version() const { return version_; }

  // The term of an entry or of the base; nothing when it is behind the base or past the end.
  std::optional<Term> TermAt(LogIndex index) const;
  // REQUIRES: base_index < index <= last_index.
  const Entry& At(LogIndex index) const;
  // Entries [first, last]. REQUIRES: both in the log, or first == last + 1.
  absl::Span<const Entry> Range(LogIndex first, LogIndex last) const;
  // The last index <= from whose term is <= term, not below the base.
  LogIndex LastWithTermUpTo(LogIndex from, Term term) const;

  // The configuration that holds: the last one of the log, committed or not; and where it stands
  // (at most the base index: it is part of the base).
  const Configuration& configuration() const { return configurations_.back().configuration; }
  LogIndex configuration_index() const { return configurations_.back().index; }
  // The one that held at an index. REQUIRES: index >= base_index.
  const Configuration& ConfigurationAt(LogIndex index) const;

  // REQUIRES: entry.index == last_index + 1.
  void Append(Entry entry);
  // Drops index and all behind it; a configuration among them falls back (10.4).
  void TruncateFrom(LogIndex index);
  // Drops what a durable snapshot stands for. REQUIRES: base_index <= index <= persisted.
  void CompactTo(LogIndex index);
  // The snapshot stands for everything; nothing is durable until it is emitted and confirmed.
  void Reset(const Snapshot& snapshot);

  // What the storage has not been given yet; Emit gives it. Between Emit and its outcome the log
  // may change: Confirm takes as durable only what is still the same.
  bool HasUnemitted() const { return emitted_ < last_index(); }
  absl::Span<const Entry> Emit();
  void Confirm();
  // The storage failed: all that is not known durable is given again.
  void Refuse();

 private:
  struct ConfigurationMark {
    LogIndex index;
    Configuration configuration;
  };

  LogIndex base_index_;
  Term base_term_;
  std::vector<Entry> entries_;
  std::vector<ConfigurationMark> configurations_;  // never empty; the first is the base's
  LogIndex persisted_;
  LogIndex emitted_;
  LogIndex in_flight_;  // what Confirm makes durable
  std::uint64_t version_ = 0;
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_RAFT_LOG_H_
