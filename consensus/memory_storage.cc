#include "consensus/memory_storage.h"

#include "ring/base/check.h"

namespace ring::consensus {

absl::Status MemoryStorage::Persist(const PersistRequest& request) {
  if (failures_ > 0) {
    --failures_;
    WritePart(request, steps_kept_);
    return absl::ResourceExhaustedError("memory storage: injected failure");
  }
  WritePart(request, kAllSteps);
  return absl::OkStatus();
}

void MemoryStorage::WritePart(const PersistRequest& request, std::size_t steps) {
  if (request.hard_state.has_value() && steps > 0) {
    state_.hard_state = *request.hard_state;
    --steps;
  }
  if (request.snapshot != nullptr && steps > 0) {
    state_.snapshot = request.snapshot;
    if (request.snapshot_replaces_log) {
      state_.entries.clear();
    } else {
      DropCoveredEntries(*request.snapshot, state_.entries);
    }
    --steps;
  }
  for (const Entry& entry : request.entries) {
    if (steps-- == 0) return;
    if (entry.index <= last_index()) {
      const LogIndex base = last_index() - state_.entries.size();
      RING_CHECK(entry.index > base) << "index=" << entry.index << " base=" << base;
      state_.entries.resize(entry.index - base - 1);
    }
    RING_CHECK(entry.index == last_index() + 1) << "index=" << entry.index;
    state_.entries.push_back(entry);
  }
}

LogIndex MemoryStorage::last_index() const {
  if (!state_.entries.empty()) return state_.entries.back().index;
  return state_.snapshot == nullptr ? 0 : state_.snapshot->index;
}

Term MemoryStorage::TermAt(LogIndex index) const {
  if (!state_.entries.empty() && index >= state_.entries.front().index &&
      index <= state_.entries.back().index) {
    return state_.entries[index - state_.entries.front().index].term;
  }
  return state_.snapshot != nullptr && state_.snapshot->index == index ? state_.snapshot->term : 0;
}

}  // namespace ring::consensus
