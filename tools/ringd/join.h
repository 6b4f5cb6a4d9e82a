// tools/ringd/join.h — how a node that the configuration does not name finds its cluster.
//
// What:      AwaitAdded: asks the nodes of the file, as a client does, until one knows a node of
//            this name; completes the configuration with what it says.
// Threads:   the caller waits.
// Errors:    kCancelled: told to stop. kInvalidArgument: nobody can be asked. Everything else that
//            goes wrong is logged when it changes, and tried again: an operator may yet add the
//            node.
#ifndef RING_TOOLS_RINGD_JOIN_H_
#define RING_TOOLS_RINGD_JOIN_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ring/node/config/config.h"

namespace ring::tools {

// stop: waits a moment; true: give up.
absl::Status AwaitAdded(absl::FunctionRef<bool()> stop, const std::string& name,
                        node::NodeConfig* config);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGD_JOIN_H_
