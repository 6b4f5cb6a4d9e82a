// ring/node/control/control_change.h — the body of the control message Catalogue, and what a
// shown view keeps.
//
// What:      CatalogueChange: an operator's change on its way to the leader.
// Shape:     the fields in order, little-endian, strings with a u16 length.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode: kInvalidArgument.
#ifndef RING_NODE_CONTROL_CONTROL_CHANGE_H_
#define RING_NODE_CONTROL_CONTROL_CHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/cluster/view.h"
#include "ring/node/admin_port.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::node {

// Travels: never renumber.
enum class ChangeKind : std::uint8_t { kCreate = 1, kDelete = 2, kSetDefault = 3 };

struct CatalogueChange {
  ChangeKind kind = ChangeKind::kCreate;
  AdminRequestId id;
  std::string name;                        // delete, set default
  bool force = false;                      // delete
  protocol::MemgestDescriptor descriptor;  // create
};
std::string EncodeChange(const CatalogueChange& change);
absl::StatusOr<CatalogueChange> DecodeChange(absl::string_view bytes);

// Whether a node that has `known` may take shown's catalogue: memgests stay what they were made as,
// ids are not used again, and who is DELETED was DRAINING at every node first (G10, V2).
absl::Status CheckCatalogueFollows(const cluster::View& known, const cluster::View& shown);

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CONTROL_CHANGE_H_
