// ring/node/fence/lease_message.h — the body of the control message Renew.
//
// What:      LeaseRenewal: a start of a node asks the leader for a lease. The answer is empty: it
//            is the grant, or it is an error.
// Shape:     u64 incarnation, u32 view epoch, little-endian.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode: kInvalidArgument.
// Source:    rule L1 (lease).
#ifndef RING_NODE_FENCE_LEASE_MESSAGE_H_
#define RING_NODE_FENCE_LEASE_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::node {

struct LeaseRenewal {
  Incarnation incarnation;
  std::uint32_t view_epoch = 0;  // of the view that was agreed upon, as far as the node knows (L9)
};
std::string EncodeRenewal(const LeaseRenewal& renewal);
absl::StatusOr<LeaseRenewal> DecodeRenewal(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_FENCE_LEASE_MESSAGE_H_
