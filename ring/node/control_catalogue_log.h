// ring/node/control_catalogue_log.h — who orders catalogue commands: the port behind which
// consensus stands.
//
// What:      CatalogueLog: leadership, Propose, and the catalogue as of the last applied command.
//            StaticCatalogueLog is the one of a cluster with static membership: the lowest-numbered
//            node with a role leads, and applies at once.
// Ownership: owns the catalogue.
// Threads:   one, the node's.
// Errors:    in the CommandResult.
// Source:    architecture section 3 (membership); protocol rule X6.
#ifndef RING_NODE_CONTROL_CATALOGUE_LOG_H_
#define RING_NODE_CONTROL_CATALOGUE_LOG_H_

#include <algorithm>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/view.h"

namespace ring::node {

class CatalogueLog {
 public:
  using Applied = absl::AnyInvocable<void(const cluster::CommandResult&)>;
  virtual ~CatalogueLog() = default;
  virtual NodeId leader() const = 0;
  // applied is called once, now or later, after the command took its place in the order.
  virtual void Propose(const cluster::CatalogueCommand& command, Applied applied) = 0;
  virtual const cluster::Catalogue& catalogue() const = 0;
};

class StaticCatalogueLog final : public CatalogueLog {
 public:
  explicit StaticCatalogueLog(const cluster::View& view)
      : leader_(LeaderOf(view)), catalogue_(view) {}
  static NodeId LeaderOf(const cluster::View& view) {
    NodeId lowest = cluster::kNoNode;  // above every node
    for (const cluster::GroupView& group : view.groups)
      lowest = std::min(lowest, *std::min_element(group.roles.begin(), group.roles.end()));
    return lowest;
  }
  NodeId leader() const override { return leader_; }
  void Propose(const cluster::CatalogueCommand& command, Applied applied) override {
    applied(catalogue_.Apply(command));
  }
  const cluster::Catalogue& catalogue() const override { return catalogue_; }

 private:
  NodeId leader_;
  cluster::Catalogue catalogue_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CATALOGUE_LOG_H_
