// ring/node/control/voter_storage.h — where a node's part in the consensus is kept.
//
// What:      VoterStorage: the port behind which a voter finds who it was, and what it decided. The
//            configuration's data_dir is one (Membership's own); a simulation gives another.
// Ownership: outlives the node that uses it, as a disk does; what it opens belongs to who opens.
// Threads:   the node's; what is opened may go on with a write on another one (Storage::Begin).
// Errors:    Check, Open: whatever keeps it from being opened; the node does not begin without.
// Source:    rule 10.6.
#ifndef RING_NODE_CONTROL_VOTER_STORAGE_H_
#define RING_NODE_CONTROL_VOTER_STORAGE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "consensus/storage.h"
#include "consensus/types.h"

namespace ring::node {

class VoterStorage {
 public:
  virtual ~VoterStorage() = default;
  // Whether it can be opened, as far as that can be known: what is wrong, and what to do.
  virtual absl::Status Check() const = 0;
  // Whether a server wrote more into it than its id: then it comes back as who it was.
  virtual bool HasMemory() const = 0;
  // `id` becomes the server's if it has none yet, and is the server's afterwards. ended: called, on
  // any thread, when a write that went on after Begin has ended. REQUIRES: what was opened before
  // is gone.
  virtual absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId* id,
                                                                   std::function<void()> ended) = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_VOTER_STORAGE_H_
