// ring/node/control/server_keeper.h — which consensus servers there are: the leader's housekeeping.
//
// What:      ServerKeeper: a node that starts without a memory is another server (10.6); the leader
//            adds it as a learner, in the place of the node's former server, and makes it a voter
//            when it has caught up and its node is to be one.
// Shape:     the first voter_count nodes are to be voters. One change at a time (10.4); what is
//            refused is tried again.
// Ownership: borrows the replica.
// Threads:   one, the node's.
// Errors:    none: who asks asks again until its server is in the configuration.
// Source:    rules 10.4, 10.6.
#ifndef RING_NODE_CONTROL_SERVER_KEEPER_H_
#define RING_NODE_CONTROL_SERVER_KEEPER_H_

#include <cstdint>
#include <map>
#include <memory>

#include "consensus/replica.h"
#include "ring/base/id.h"

namespace ring::node {

class ServerKeeper {
 public:
  ServerKeeper(consensus::Replica* replica, std::uint32_t voter_count)
      : replica_(replica), voter_count_(voter_count) {}
  // As was agreed upon.
  void set_voter_count(std::uint32_t count) { voter_count_ = count; }

  // A node says which server it is now.
  void Want(NodeId node, consensus::ServerId server) { wanted_[node] = server; }
  // Gives whether something was proposed.
  bool Progress(std::uint64_t now_ns);

 private:
  void Change(const consensus::Configuration& next, std::uint64_t now_ns);
  bool AddWanted(std::uint64_t now_ns);
  bool PromoteOne(std::uint64_t now_ns);

  consensus::Replica* replica_;
  std::uint32_t voter_count_;
  std::map<NodeId, consensus::ServerId> wanted_;
  // A change that is under way; shared with its callback, which may outlive the keeper.
  std::shared_ptr<bool> pending_ = std::make_shared<bool>(false);
  std::uint64_t next_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_SERVER_KEEPER_H_
