#include "tests/consensus/sim/checker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/consensus/sim/machine.h"

namespace ring::consensus::sim {
namespace {

std::uint64_t HashOf(const Entry& entry) {
  return Mix(sim::HashOf(entry.data), static_cast<std::uint64_t>(entry.kind));
}

}  // namespace

void Checker::Report(const char* rule, const Raft& raft, LogIndex index) {
  Fail(absl::StrFormat("%s: server=%x term=%d index=%d", rule, raft.id().value(), raft.term(),
                       index));
}

void Checker::AfterStep(const Raft& raft, Witness& witness) {
  if (witness.version != raft.log().version()) CheckLog(raft, witness);
  CheckLeader(raft, witness);
  if (raft.commit_index() != witness.commit) CheckCommit(raft, witness);
}

// Log matching: an index and a term determine the entry and the one before it, everywhere and for
// ever. By induction that is the whole log before it.
void Checker::CheckLog(const Raft& raft, Witness& witness) {
  const RaftLog& log = raft.log();
  const std::size_t count = log.last_index() - log.base_index();
  if (witness.base != log.base_index()) {
    const std::size_t gone = log.base_index() - witness.base;
    witness.terms.erase(
        witness.terms.begin(),
        witness.terms.begin() + static_cast<std::ptrdiff_t>(std::min(gone, witness.terms.size())));
    witness.base = log.base_index();
  }
  contents_.resize(std::max<std::size_t>(contents_.size(), log.last_index() + 1));
  for (std::size_t i = 0; i < count; ++i) {
    const LogIndex index = log.base_index() + 1 + i;
    const Entry& entry = log.At(index);
    if (i < witness.terms.size() && witness.terms[i] == entry.term) continue;
    const Content content{entry.term, *log.TermAt(index - 1), HashOf(entry)};
    bool found = false;
    for (const Content& other : contents_[index]) {
      if (other.term != content.term) continue;
      found = true;
      if (other.before != content.before || other.hash != content.hash) {
        Report("log matching", raft, index);
      }
    }
    if (!found) contents_[index].push_back(content);
    witness.terms.resize(std::max(witness.terms.size(), i + 1));
    witness.terms[i] = entry.term;
  }
  witness.terms.resize(count);
  witness.version = log.version();
  CheckConfiguration(raft, witness);
}

// 10.4: the configuration that holds is the log's last one; a leader's own change takes one voter
// in or out, once an entry of its term is committed.
void Checker::CheckConfiguration(const Raft& raft, Witness& witness) {
  const RaftLog& log = raft.log();
  const LogIndex index = log.configuration_index();
  const std::vector<ServerId> before = std::exchange(witness.voters, log.configuration().voters);
  const bool is_new = std::exchange(witness.configuration, index) < index;
  if (index <= log.base_index()) return;
  if (index > log.last_index() || log.At(index).kind != EntryKind::kConfig) {
    return Report("10.4 a configuration that is not in the log", raft, index);
  }
  if (!is_new || raft.role() != Role::kLeader || log.At(index).term != raft.term()) return;
  if (log.TermAt(raft.commit_index()) != raft.term()) {
    Report("10.4 a change before an entry of the term is committed", raft, index);
  }
  std::vector<ServerId> changed;
  std::set_symmetric_difference(before.begin(), before.end(), witness.voters.begin(),
                                witness.voters.end(), std::back_inserter(changed));
  if (changed.size() > 1) Report("10.4 a change of several voters", raft, index);
}

void Checker::CheckLeader(const Raft& raft, Witness& witness) {
  const bool leads = raft.role() == Role::kLeader;
  if (leads) {
    if (witness.leads && witness.term == raft.term()) {
      // Leader append-only.
      const std::optional<Term> term = raft.log().TermAt(witness.last);
      if (raft.log().last_index() < witness.last ||
          (witness.last >= raft.log().base_index() && term != witness.last_term)) {
        Report("leader append-only", raft, witness.last);
      }
    } else {
      const auto [leader, first] = leaders_.try_emplace(raft.term(), raft.id());
      if (!first && leader->second != raft.id()) Report("election safety", raft, 0);
      leading_[raft.id()] = &raft;
      for (LogIndex index = 1; index < committed_.size(); ++index) CheckComplete(raft, index);
    }
    witness.last = raft.log().last_index();
    witness.last_term = raft.log().last_term();
  } else if (witness.leads) {
    leading_.erase(raft.id());
  }
  witness.leads = leads;
  witness.term = raft.term();
}

// Leader completeness: what was committed in an earlier term is in the log of every later leader.
void Checker::CheckComplete(const Raft& raft, LogIndex index) {
  const Committed& entry = committed_[index];
  if (entry.by >= raft.term() || index < raft.log().base_index()) return;
  if (raft.log().TermAt(index) != entry.term) Report("leader completeness", raft, index);
}

void Checker::CheckCommit(const Raft& raft, Witness& witness) {
  const LogIndex now = raft.commit_index();
  if (now < witness.commit) Report("commit index fell", raft, now);
  for (LogIndex index = witness.commit + 1; index <= now; ++index) {
    const bool known = index < committed_.size();
    if (index <= raft.log().base_index()) {
      // Came as a snapshot: somebody must have committed it.
      if (!known) Report("a snapshot of what is not committed", raft, index);
      if (known && index == raft.log().base_index() &&
          raft.log().TermAt(index) != committed_[index].term) {
        Report("state machine safety", raft, index);
      }
      continue;
    }
    const Entry& entry = raft.log().At(index);
    if (known) {
      if (committed_[index].term != entry.term || committed_[index].hash != HashOf(entry)) {
        Report("state machine safety", raft, index);
      }
      continue;
    }
    committed_.push_back({entry.term, raft.term(), HashOf(entry)});
    for (const auto& [id, leader] : leading_) CheckComplete(*leader, index);
  }
  if (raft.role() == Role::kLeader) {
    CheckDurable(raft, now);
    // 10.2: Raft's figure 8 begins here.
    if (raft.log().TermAt(now) != raft.term()) {
      Report("10.2 a leader committed an entry of an earlier term", raft, now);
    }
  }
  witness.commit = std::max(witness.commit, now);
}

// 10.1, 10.7: whoever was counted has the entry on its disk.
void Checker::CheckDurable(const Raft& raft, LogIndex index) {
  const Configuration& configuration = raft.configuration();
  const auto durable = static_cast<std::size_t>(std::count_if(
      configuration.voters.begin(), configuration.voters.end(),
      [&](ServerId id) { return disks_.HasEntry(id, index, committed_[index].term); }));
  if (durable < QuorumOf(configuration.voters.size())) {
    Report("10.1 committed, but not durable at a quorum", raft, index);
  }
}

void Checker::OnSend(const Message& m, const MemoryStorage& disk) {
  const HardState& hard_state = disk.state().hard_state;
  // A pre-vote names the term that it asks for, and so does its grant.
  const bool granted = m.type == MessageType::kPreVoteReply && !m.reject;
  if (!granted && m.term > hard_state.term + (m.type == MessageType::kPreVote ? 1 : 0)) {
    Fail(absl::StrFormat("10.1 said before it is durable: term=%d server=%x", m.term,
                         m.from.value()));
  }
  switch (m.type) {
    case MessageType::kVoteReply: {
      if (m.reject) break;
      if (hard_state.term == m.term && hard_state.vote != m.to) {
        Fail(absl::StrFormat("10.1 said before it is durable: vote of term=%d server=%x", m.term,
                             m.from.value()));
      }
      const auto [vote, first] = votes_.try_emplace({m.term, m.from}, m.to);
      if (!first && vote->second != m.to) {
        Fail(absl::StrFormat("10.6 two votes: term=%d server=%x", m.term, m.from.value()));
      }
      break;
    }
    case MessageType::kAppendReply:
      if (!m.reject && disk.last_index() < m.index) {
        Fail(absl::StrFormat("10.1 said before it is durable: index=%d server=%x", m.index,
                             m.from.value()));
      }
      break;
    case MessageType::kPreVote:
    case MessageType::kVote:
      if (m.index > 0 && disk.TermAt(m.index) != m.log_term &&
          (disk.state().snapshot == nullptr || disk.state().snapshot->index < m.index)) {
        Fail(absl::StrFormat("10.7 campaigns on what is not durable: index=%d server=%x", m.index,
                             m.from.value()));
      }
      if (m.type == MessageType::kVote) {
        const auto [vote, first] = votes_.try_emplace({m.term, m.from}, m.from);
        if (!first && vote->second != m.from) {
          Fail(absl::StrFormat("10.6 two votes: term=%d server=%x", m.term, m.from.value()));
        }
      }
      break;
    default:
      break;
  }
}

void Checker::OnApply(ServerId id, const Entry& entry, std::uint64_t machine_hash) {
  if (entry.index >= committed_.size() || committed_[entry.index].term != entry.term ||
      committed_[entry.index].hash != HashOf(entry)) {
    Fail(absl::StrFormat("state machine safety: server=%x applied index=%d", id.value(),
                         entry.index));
    return;
  }
  OnRestore(id, entry.index, machine_hash);
}

void Checker::OnRestore(ServerId id, LogIndex index, std::uint64_t machine_hash) {
  history_.resize(std::max<std::size_t>(history_.size(), index + 1));
  Past& past = history_[index];
  if (past.known && past.hash != machine_hash) {
    Fail(absl::StrFormat("state machine safety: server=%x differs after index=%d", id.value(),
                         index));
  }
  past = {true, machine_hash};
}

void Checker::OnEffect(LogIndex index, std::uint32_t client, std::uint32_t sequence) {
  const auto [effect, first] = effects_.try_emplace({client, sequence}, index);
  if (!first && effect->second != index) {
    Fail(absl::StrFormat("10.8 executed twice: client=%d sequence=%d at index=%d and index=%d",
                         client, sequence, effect->second, index));
  }
}

void Checker::OnRead(ServerId id, LogIndex index, LogIndex committed_before) {
  if (index >= committed_before) return;
  Fail(absl::StrFormat("10.5 stale read: server=%x index=%d, but index=%d was committed before",
                       id.value(), index, committed_before));
}

}  // namespace ring::consensus::sim
