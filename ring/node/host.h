// ring/node/host.h — runs one or all nodes of a cluster in this process.
//
// What:      Host starts reactor threads, opens the nodes on them, connects them to their peers,
//            and serves until Stop. One node from a config file, or a whole embedded cluster: the
//            same code.
// Shape:     nodes are dealt out over reactors round robin.
// Ownership: owns threads and nodes.
// Threads:   Start, Stop and the destructor from one thread; admin() and the rest from any.
// Errors:    Start: kInvalidArgument (config; or poll = "busy" and more threads that poll than
//            processors, those of the host's other nodes included), kResourceExhausted,
//            kUnavailable (address in use), kNotFound (the name of a hosted node has no address),
//            naming the thing.
// Source:    docs/OPERATIONS.md "Start" (the embedded cluster).
#ifndef RING_NODE_HOST_H_
#define RING_NODE_HOST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ring/node/admin_port.h"
#include "ring/node/config/config.h"
#include "ring/node/name_finder.h"

namespace ring::node {

struct HostOptions {
  NodeConfig config;
  std::vector<NodeId> hosted;  // nodes that run here; empty: all of them
  int reactor_count = 1;
  int processor_count = 0;  // that the reactors run on; 0: the machine's
  // Names of the configuration's hosts; null: ResolveHostPort (ring/base/host_port.h).
  Resolve resolve = nullptr;
  absl::Duration resolve_period = absl::Seconds(5);  // of those that have no address yet
  // So long voters that know of no cluster ask the other nodes before they found one; zero:
  // Membership::kFoundWithoutNs. A test makes sure that they are asked in time.
  absl::Duration found_without = absl::ZeroDuration();
  // A hosted node lost its RDMA card; on a thread of the host, which goes on until Stop.
  std::function<void(NodeId, const absl::Status&)> card_lost = nullptr;
};

class Host {
 public:
  static absl::StatusOr<std::unique_ptr<Host>> Start(const HostOptions& options);
  virtual ~Host() = default;  // stops

  // Waits until every hosted coordinator is connected to its members and serves. kDeadlineExceeded
  // names who is missing.
  virtual absl::Status WaitReady(absl::Duration timeout) = 0;
  // "HOST:PORT,HOST:PORT": tcp addresses of the hosted nodes, for clients.
  virtual std::string seeds() const = 0;
  // "local:NAME" of the first hosted node: for clients in this process.
  virtual std::string local_seed() const = 0;
  virtual AdminPort& admin() = 0;
  // Ends a hosted node with its memory, as if its process had died: for demonstrations and
  // measurements of fail-over. kNotFound: it is not hosted here, or was killed before.
  virtual absl::Status Kill(NodeId node) = 0;
  // Stops serving and joins the threads. Idempotent.
  virtual void Stop() = 0;
};

// The embedded cluster of `ringd --embedded`: s = 3, d = 2, five nodes and a spare on loopback with
// ports chosen by the system, the paper's seven memgests, REP3 the default, rings of 256 KiB;
// who is silent for a second has failed.
NodeConfig EmbeddedConfig();

}  // namespace ring::node

#endif  // RING_NODE_HOST_H_
