// ring/node/recovery/partial_service.h — sums over a parity row: recv-ec-send at a coordinator.
//
// What:      PartialService answers what a decode (decode_job.h) asks for along a repair graph: a
//            slice of a block that is frozen here, times a coefficient, plus the partial sums of
//            the nodes below in the graph, which it asks for first.
// Shape:     kSumsMax sums at a time. A block's bytes are read while it is frozen (S2); what comes
//            from others was, too.
// Ownership: borrows the node and its freezer.
// Threads:   one, the node's.
// Errors:    answered: kAborted (a block is not frozen any more, or the epoch is another one),
//            kUnavailable (a node below did not answer), kInvalidArgument, kResourceExhausted.
// Cost:      a multiplication of the slice, and an addition for each node right below.
// Source:    rule S2; INEC (SC'20), inec_recv_ec_send.
#ifndef RING_NODE_RECOVERY_PARTIAL_SERVICE_H_
#define RING_NODE_RECOVERY_PARTIAL_SERVICE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "ring/node/control/control_port.h"
#include "ring/node/recovery/block_freezer.h"
#include "ring/recovery/partial_message.h"

namespace ring::node {

class Node;

class PartialService {
 public:
  static constexpr std::size_t kSumsMax = 64;

  PartialService(Node* node, BlockFreezer* freezer);

 private:
  struct Sum {          // shared with callbacks
    std::string bytes;  // empty: zeros
    std::size_t length = 0;
    std::size_t left = 0;  // nodes below that have not answered
    absl::Status status;
    ControlReply reply;
  };

  void OnPartial(absl::string_view body, ControlReply reply);
  absl::StatusOr<std::string> OwnTerm(const recovery::PartialRequest& request);
  void Add(Sum& sum, absl::StatusOr<std::string> below);
  void Answer(Sum& sum);

  Node* node_;
  BlockFreezer* freezer_;
  std::size_t sums_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_PARTIAL_SERVICE_H_
