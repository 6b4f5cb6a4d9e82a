#include "consensus/raft_log.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "consensus/message.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::consensus {

RaftLog::RaftLog(LogIndex base_index, Term base_term, Configuration base_configuration,
                 std::vector<Entry> entries)
    : base_index_(base_index), base_term_(base_term) {
  configurations_.push_back({base_index, std::move(base_configuration)});
  for (Entry& entry : entries) Append(std::move(entry));
  persisted_ = emitted_ = in_flight_ = last_index();
}

std::optional<Term> RaftLog::TermAt(LogIndex index) const {
  if (index < base_index_ || index > last_index()) return std::nullopt;
  if (index == base_index_) return base_term_;
  return entries_[index - base_index_ - 1].term;
}

const Entry& RaftLog::At(LogIndex index) const {
  RING_CHECK(index > base_index_ && index <= last_index()) << "index=" << index;
  return entries_[index - base_index_ - 1];
}

absl::Span<const Entry> RaftLog::Range(LogIndex first, LogIndex last) const {
  if (first > last) return {};
  RING_CHECK(first > base_index_ && last <= last_index())
      << "first=" << first << " last=" << last << " base=" << base_index_;
  return absl::MakeConstSpan(entries_).subspan(first - base_index_ - 1, last - first + 1);
}

LogIndex RaftLog::LastWithTermUpTo(LogIndex from, Term term) const {
  LogIndex index = std::min(from, last_index());
  while (index > base_index_ && entries_[index - base_index_ - 1].term > term) --index;
  return index;
}

const Configuration& RaftLog::ConfigurationAt(LogIndex index) const {
  RING_CHECK(index >= base_index_) << "index=" << index << " base=" << base_index_;
  const ConfigurationMark* found = &configurations_.front();
  for (const ConfigurationMark& mark : configurations_) {
    if (mark.index <= index) found = &mark;
  }
  return found->configuration;
}

void RaftLog::Append(Entry entry) {
  RING_CHECK(entry.index == last_index() + 1) << "index=" << entry.index;
  if (entry.kind == EntryKind::kConfig) {
    absl::StatusOr<Configuration> configuration = DecodeConfiguration(entry.data);
    RING_CHECK(configuration.ok()) << configuration.status();  // decoders and leaders check it
    configurations_.push_back({entry.index, *std::move(configuration)});
  }
  entries_.push_back(std::move(entry));
  ++version_;
}

void RaftLog::TruncateFrom(LogIndex index) {
  if (index > last_index()) return;
  RING_CHECK(index > base_index_) << "index=" << index << " base=" << base_index_;
  entries_.resize(index - base_index_ - 1);
  while (configurations_.back().index >= index && configurations_.size() > 1 &&
         !Mutant("P104NoRollbackOfChange")) {
    configurations_.pop_back();
  }
  persisted_ = std::min(persisted_, index - 1);
  emitted_ = std::min(emitted_, index - 1);
  in_flight_ = std::min(in_flight_, index - 1);
  ++version_;
}

void RaftLog::CompactTo(LogIndex index) {
  RING_CHECK(index >= base_index_ && index <= persisted_) << "index=" << index;
  const Term term = *TermAt(index);
  Configuration configuration = ConfigurationAt(index);
  entries_.erase(entries_.begin(),
                 entries_.begin() + static_cast<std::ptrdiff_t>(index - base_index_));
  std::erase_if(configurations_, [index](const auto& mark) { return mark.index <= index; });
  configurations_.insert(configurations_.begin(), {index, std::move(configuration)});
  base_index_ = index;
  base_term_ = term;
  ++version_;
}

void RaftLog::Reset(const Snapshot& snapshot) {
  base_index_ = snapshot.index;
  base_term_ = snapshot.term;
  entries_.clear();
  configurations_.assign(1, {snapshot.index, snapshot.configuration});
  emitted_ = snapshot.index;
  persisted_ = in_flight_ = 0;
  ++version_;
}

absl::Span<const Entry> RaftLog::Emit() {
  const LogIndex first = emitted_ + 1;
  emitted_ = in_flight_ = last_index();
  return Range(first, emitted_);
}

void RaftLog::Confirm() { persisted_ = std::max(persisted_, in_flight_); }

void RaftLog::Refuse() { emitted_ = in_flight_ = std::max(persisted_, base_index_); }

}  // namespace ring::consensus
