#include "consensus/storage.h"

#include <cstddef>
#include <memory>

#include "ring/base/status.h"

namespace ring::consensus {

bool IsEmpty(const InitialState& state) {
  return state.hard_state == HardState{} && state.snapshot == nullptr && state.entries.empty();
}

absl::Status Bootstrap(const Configuration& configuration, Storage& storage) {
  RING_RETURN_IF_ERROR(configuration.Validate());
  RING_ASSIGN_OR_RETURN(const InitialState state, storage.Load());
  if (!IsEmpty(state)) {
    return absl::FailedPreconditionError("bootstrap: the storage belongs to a server already");
  }
  PersistRequest request;
  request.hard_state = HardState{};
  Snapshot snapshot;
  snapshot.configuration = configuration;
  request.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  request.snapshot_replaces_log = true;
  return storage.Persist(request);
}

void DropCoveredEntries(const Snapshot& snapshot, std::vector<Entry>& entries) {
  if (entries.empty() || entries.front().index > snapshot.index) return;
  const std::size_t count = static_cast<std::size_t>(snapshot.index - entries.front().index) + 1;
  if (count > entries.size() || entries[count - 1].term != snapshot.term) {
    entries.clear();
  } else {
    entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

}  // namespace ring::consensus
