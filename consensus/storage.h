// consensus/storage.h — the port behind which a server's term, vote and log become durable.
//
// What:      Storage: Load once, then Persist, or Begin and TakeOutcome; Bootstrap for the first
//            voters of a cluster.
// Shape:     a PersistRequest is taken as a whole; after a crash in the middle any prefix of it may
//            be there (consensus/ready.h says the order). Persist returns when it is durable. Begin
//            need not: what came of it is taken later.
// Ownership: Persist borrows the request for the call, Begin shares it until its outcome is there.
// Threads:   thread-compatible; the implementation may block in Persist.
// Errors:    Load: kDataLoss for what is corrupt; Persist: anything. After a failed Persist the
//            content is that before the call or a prefix of the request; the next request holds all
//            of it again but for an own snapshot, which may never come again, and must not be told
//            OK unless all that it holds is durable (10.7).
#ifndef RING_CONSENSUS_STORAGE_H_
#define RING_CONSENSUS_STORAGE_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/ready.h"

namespace ring::consensus {

class Storage {
 public:
  virtual ~Storage() = default;
  virtual absl::StatusOr<InitialState> Load() = 0;
  // REQUIRES: nothing is under way.
  virtual absl::Status Persist(const PersistRequest& request) = 0;

  // As Persist, whose status TakeOutcome gives, once, when it is known. REQUIRES: as Persist.
  virtual void Begin(std::shared_ptr<const PersistRequest> request) {
    outcome_ = Persist(*request);
  }
  // Whether TakeOutcome has anything to give: a load.
  virtual bool HasOutcome() const { return outcome_.has_value(); }
  virtual std::optional<absl::Status> TakeOutcome() {
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  std::optional<absl::Status> outcome_;
};

// Whether a storage has never been written.
bool IsEmpty(const InitialState& state);

// Writes what each voter of a new cluster begins with: a snapshot of index 0 that holds the
// configuration.
// Errors: kFailedPrecondition when the storage is not empty; what Persist gives.
absl::Status Bootstrap(const Configuration& configuration, Storage& storage);

// What follows from a log and a snapshot that were written one after the other: entries at or below
// the snapshot go; all go when the log does not contain the snapshot's last entry.
// REQUIRES: the entries are dense.
void DropCoveredEntries(const Snapshot& snapshot, std::vector<Entry>& entries);

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_STORAGE_H_
