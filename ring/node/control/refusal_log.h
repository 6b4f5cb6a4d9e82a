// ring/node/control/refusal_log.h — tells of connections that were refused, and not over and over.
//
// What:      RefusalLog logs, with the reason, that this node refuses a peer, or is refused by one.
//            Who is refused tries again at once and for ever: a reason is told once for each peer,
//            until a connection of that peer is accepted, and another one after kQuietNs.
// Shape:     one peer, kNoNode, stands for all that do not say who they are.
// Ownership: values; a place for each node, no more.
// Threads:   one, the node's.
// Errors:    none.
#ifndef RING_NODE_CONTROL_REFUSAL_LOG_H_
#define RING_NODE_CONTROL_REFUSAL_LOG_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::node {

class RefusalLog {
 public:
  static constexpr std::uint64_t kQuietNs = 10'000'000'000;
  // A refusal that lasts so long passes by itself no more: one of a start that follows another does
  // (L8).
  static constexpr std::uint64_t kLastsNs = 3'000'000'000;

  explicit RefusalLog(NodeId node) : node_(node) {}

  // This node refuses the peer.
  void Refuses(NodeId peer, absl::string_view reason, std::uint64_t now_ns);
  // The peer refuses this node; told when it lasts.
  void IsRefused(NodeId peer, absl::string_view reason, std::uint64_t now_ns);
  void Accepted(NodeId peer) { told_.erase(peer); }

 private:
  struct Told {
    std::string reason;          // the present one
    std::uint64_t since_ns = 0;  // it is that
    std::uint64_t quiet_ns = 0;  // until then nothing is told
    bool told = false;           // the present one is
  };
  bool Due(NodeId peer, absl::string_view reason, std::uint64_t now_ns, std::uint64_t lasts_ns);

  NodeId node_;
  absl::flat_hash_map<NodeId, Told> told_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_REFUSAL_LOG_H_
