// consensus/storage.h — the port behind which a server's term, vote and log become durable.
//
// What:      Storage: Load once, then Persist; Bootstrap for the first voters of a cluster.
// Shape:     Persist takes a PersistRequest as a whole; after a crash in mid-call any prefix of it
//            may be there (consensus/ready.h says the order). Persist returns when it is durable.
// Ownership: borrows the request for the call.
// Threads:   thread-compatible; the implementation may block in Persist.
// Errors:    Load: kDataLoss for what is corrupt; Persist: anything. After a failed Persist the
//            content is that before the call or a prefix of the request; the next request holds all
//            of it again, and must not be told OK unless all of it is durable (10.7).
#ifndef RING_CONSENSUS_STORAGE_H_
#define RING_CONSENSUS_STORAGE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/ready.h"

namespace ring::consensus {

class Storage {
 public:
  virtual ~Storage() = default;
  virtual absl::StatusOr<InitialState> Load() = 0;
  virtual absl::Status Persist(const PersistRequest& request) = 0;
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
