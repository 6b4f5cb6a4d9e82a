// ring/node/name_finder.h — names of hosts in a configuration become numbers.
//
// What:      ResolveNames, before anything serves: nodes dial each other by numbers alone, as a
//            look-up may take longer than a node may stand still. NameFinder goes on with names of
//            other nodes that nobody knows yet: hosts that are gone, or are not there yet when a
//            whole cluster starts.
// Ownership: values. found is called until the destructor returns.
// Threads:   NameFinder has one of its own, on which it resolves and calls found. The destructor
//            waits for a look-up that is under way.
// Errors:    ResolveNames: those of the resolver, for a node that runs here; others' are a warning.
// Cost:      a look-up of each name; of one that has no address, another one each period.
#ifndef RING_NODE_NAME_FINDER_H_
#define RING_NODE_NAME_FINDER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ring/base/sync.h"
#include "ring/node/config/config.h"

namespace ring::node {

using Resolve = std::function<absl::StatusOr<std::string>(absl::string_view host_port)>;

// Of a node, data or rdma.
struct HostName {
  NodeId node;
  bool rdma = false;
  std::string text;  // HOST:PORT
};

// Gives those that have no address; they stay in the configuration as they are.
absl::StatusOr<std::vector<HostName>> ResolveNames(absl::Span<const NodeId> hosted,
                                                   const Resolve& resolve, NodeConfig* config);

class NameFinder {
 public:
  using Found = std::function<void(const HostName& name, const std::string& address)>;

  NameFinder(std::vector<HostName> names, Resolve resolve, absl::Duration period, Found found);
  ~NameFinder();
  NameFinder(const NameFinder&) = delete;
  NameFinder& operator=(const NameFinder&) = delete;

 private:
  void Run();
  // Whether it is to stop; waits so long for that.
  bool Stopped(absl::Duration wait);

  std::vector<HostName> names_;
  const Resolve resolve_;
  const absl::Duration period_;
  const Found found_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ring::node

#endif  // RING_NODE_NAME_FINDER_H_
