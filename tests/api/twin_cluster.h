// tests/api/twin_cluster.h — a cluster of twins with one store and one view.
//
// What:      TwinCluster starts n nodes of a view with s = 1, d = n - 1 and two memgests, "one"
//            (the default) and "two".
// Ownership: its nodes; the store outlives them.
// Threads:   the test's.
// Errors:    none.
#ifndef RING_TESTS_API_TWIN_CLUSTER_H_
#define RING_TESTS_API_TWIN_CLUSTER_H_

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "api/client_core.h"
#include "rdma/host_identity.h"
#include "ring/base/check.h"
#include "tests/api/twin_node.h"

namespace ring::testing {

class TwinCluster {
 public:
  explicit TwinCluster(int count = 1, absl::string_view link = "local") {
    for (int i = 0; i < count; ++i) {
      nodes_.push_back(TwinNode::Start(i, NewAddress(link), &store_));
    }
    std::vector<cluster::NodeInfo> infos;
    for (int i = 0; i < count; ++i) {
      cluster::NodeInfo info;
      info.id = NodeId(static_cast<std::uint32_t>(i));
      info.name = absl::StrCat("twin-", i);
      info.host = rdma::HostIdentity();
      const std::string& address = nodes_[static_cast<std::size_t>(i)]->address();
      (link == "local" ? info.local_address
       : link == "shm" ? info.shm_address
                       : info.tcp_address) = address;
      infos.push_back(std::move(info));
    }
    protocol::MemgestDescriptor one, two;
    one.name = "one";
    two.name = "two";
    MutexLock lock(store_.mutex);
    store_.view = cluster::InitialView(1, count - 1, std::move(infos), {one, two});
    store_.view.cluster = cluster::ClusterHash("twins", 1, count - 1);
  }

  TwinNode& node(int i = 0) { return *nodes_[static_cast<std::size_t>(i)]; }
  TwinStore& store() { return store_; }
  void Stop(int i) { nodes_[static_cast<std::size_t>(i)].reset(); }
  void Restart(int i, const std::string& address) {
    nodes_[static_cast<std::size_t>(i)] = TwinNode::Start(i, address, &store_);
  }
  // A newer view; the caller changed it under the store's mutex.
  template <class F>
  void ChangeView(F change) {
    MutexLock lock(store_.mutex);
    change(&store_.view);
    ++store_.view.epoch;
  }
  std::unique_ptr<Client> Connect(ClientOptions options = {}, const Clock* clock = nullptr) {
    for (const std::unique_ptr<TwinNode>& node : nodes_) {
      if (node != nullptr) options.seeds.push_back(node->address());
    }
    absl::StatusOr<std::unique_ptr<api::ClientCore>> core = api::ClientCore::Open(options, clock);
    RING_CHECK(core.ok()) << core.status();
    return api::ClientOf(*std::move(core));
  }

 private:
  static std::string NewAddress(absl::string_view link) {
    static std::atomic<int> next{0};
    const std::string name = absl::StrCat("ring-twin-", ::getpid(), "-", next++);
    if (link == "local") return "local:" + name;
    if (link == "shm") return "shm:/tmp/" + name;
    return "tcp:127.0.0.1:0";
  }

  TwinStore store_;
  std::vector<std::unique_ptr<TwinNode>> nodes_;
};

}  // namespace ring::testing

#endif  // RING_TESTS_API_TWIN_CLUSTER_H_
