// tools/ringctl/doctor/needs.h — what a configuration asks of the machine it is for.
//
// What:      Needs; NeedsOf a node's configuration, or that of a node which the file does not name.
//            Without a configuration: what any node takes.
// Units:     bytes.
// Ownership: values.
// Threads:   pure.
// Errors:    none.
// Source:    docs/OPERATIONS.md "Memory", "Transports", "Polling and idle", "File descriptors".
#ifndef RING_TOOLS_RINGCTL_DOCTOR_NEEDS_H_
#define RING_TOOLS_RINGCTL_DOCTOR_NEEDS_H_

#include <cstdint>
#include <string>

#include "ring/node/config/config.h"
#include "tools/ringctl/doctor/finding.h"

namespace ring::tools {

enum class Need : std::uint8_t {
  kNo,
  kMay,   // another transport takes its place
  kMust,  // the node does not start without
};

// How bad it is that something is missing.
constexpr Level Missing(Need need) {
  return need == Need::kMust ? Level::kFail : need == Need::kMay ? Level::kWarn : Level::kOk;
}

struct Needs {
  Need rdma = Need::kNo;
  Need shm = Need::kMay;
  Need tcp = Need::kMay;
  std::string rdma_device;       // empty: any
  int rdma_gid_index = -1;       // -1: any
  std::uint64_t arena_size = 0;  // at most; 0: not known
  std::uint64_t fixed_size = 0;  // of it, from the start
  std::uint64_t descriptors = 0;
  int nodes_here = 1;  // of the cluster on this machine, this one included
  int reactors = 1;    // of this one
  node::PollPolicy poll = node::PollPolicy::kAdaptive;
};

Needs NeedsOf(const node::NodeConfig& config, int reactor_count);
// Of a node that was added since: config as SelfIs::kAdded gives it. Only the cluster knows its
// addresses and its host: it may have an address of each kind that a node of the file has, and is
// taken to be alone on this machine.
Needs NeedsOfAdded(node::NodeConfig config, int reactor_count);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_NEEDS_H_
