// ring/node/recovery/join_service.h — what a node does where it joins a shard.
//
// What:      Takes snapshots that coordinators send, fetches the values, and tells how many are
//            still to come.
// Ownership: borrows the node's ports.
// Threads:   one, the node's.
// Errors:    answered to who asked.
// Source:    rules L7, E6.
#ifndef RING_NODE_RECOVERY_JOIN_SERVICE_H_
#define RING_NODE_RECOVERY_JOIN_SERVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/recovery/member_values.h"

namespace ring::node {

class Node;

class JoinService {
 public:
  explicit JoinService(Node* node);
  void Progress(std::uint64_t now_ns) { values_.Progress(now_ns); }

 private:
  absl::StatusOr<std::string> Install(absl::string_view body);
  absl::StatusOr<std::string> Tell(absl::string_view body);

  Node* node_;
  MemberValues values_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_JOIN_SERVICE_H_
