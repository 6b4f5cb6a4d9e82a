// ring/node/control_services.h — what a node answers and does off the hot path.
//
// What:      Owns the services that speak over the control port: statistics, health, events,
//            catalogue, frozen blocks, scrub, recovery.
// Ownership: borrows the node, which owns it.
// Threads:   one, the node's.
// Errors:    none of its own.
#ifndef RING_NODE_CONTROL_SERVICES_H_
#define RING_NODE_CONTROL_SERVICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/control/control_catalogue.h"
#include "ring/node/events/fault_service.h"
#include "ring/node/recovery/block_freezer.h"
#include "ring/node/recovery/decode_service.h"
#include "ring/node/recovery/join_service.h"
#include "ring/node/recovery/partial_service.h"
#include "ring/node/recovery/recovery_source.h"
#include "ring/node/scrub/scrub_service.h"

namespace ring::node {

class ControlServices {
 public:
  // snapshot_piece_size: NodeOptions.
  ControlServices(Node* node, std::size_t snapshot_piece_size);

  // Gives whether anything was done.
  bool Progress(std::uint64_t now_ns);
  // Wants Progress each turn; has something to do without waiting for anybody.
  bool busy() const {
    return catalogue_.busy() || freezer_.busy() || scrub_.busy() || decode_.busy() ||
           faults_.busy() || recovery_.busy();
  }
  bool HasWork() const { return scrub_.HasWork() || decode_.HasWork(); }

  CatalogueService& catalogue() { return catalogue_; }
  const ScrubService& scrub() const { return scrub_; }
  const DecodeService& decode() const { return decode_; }

 private:
  absl::StatusOr<std::string> Seal(absl::string_view body);
  absl::StatusOr<std::string> Events(absl::string_view body) const;

  Node* node_;
  CatalogueService catalogue_;
  BlockFreezer freezer_;
  PartialService partials_;
  ScrubService scrub_;
  RecoverySource recovery_;
  DecodeService decode_;
  FaultService faults_;
  JoinService join_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_SERVICES_H_
