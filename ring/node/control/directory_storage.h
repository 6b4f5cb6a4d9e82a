// ring/node/control/directory_storage.h — a voter's storage in files, and a learner's in none.
//
// What:      MakeVoterStorage: the storage that the configuration gives a node. Only voters keep
//            files, in data_dir/<name>, if there is a data_dir: a learner decides nothing.
// Ownership: the caller's.
// Threads:   the node's.
// Errors:    Check: kNotFound (no such folder), kPermissionDenied, kFailedPrecondition (another
//            process has it, it is another node's), kDataLoss (corrupt, or its id is lost): with
//            the folder and what to do.
//            Open: the file storage's; kAborted: HasMemory could not look, and there is no memory.
// Source:    rule 10.6.
#ifndef RING_NODE_CONTROL_DIRECTORY_STORAGE_H_
#define RING_NODE_CONTROL_DIRECTORY_STORAGE_H_

#include <memory>
#include <string>

#include "ring/base/id.h"
#include "ring/node/config/config.h"
#include "ring/node/control/voter_storage.h"

namespace ring::node {

std::unique_ptr<VoterStorage> MakeVoterStorage(const NodeConfig& config, NodeId node,
                                               const std::string& name);

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_DIRECTORY_STORAGE_H_
