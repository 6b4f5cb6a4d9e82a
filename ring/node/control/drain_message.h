// ring/node/control/drain_message.h — bodies of the control message Drain: what is left, shard
// by shard, of a memgest that is to be DELETED.
//
// What:      DrainRequest asks a node; DrainAnswer has a count for each shard that it serves;
//            SumOfShards adds them up and refuses when a shard's coordinator has not counted it.
// Shape:     the fields in order, little-endian, a u16 before the list.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode: kInvalidArgument. SumOfShards: kUnavailable with the shard, for whose
//            coordinator, of that very start, no count is there.
// Source:    rule G10.
#ifndef RING_NODE_CONTROL_DRAIN_MESSAGE_H_
#define RING_NODE_CONTROL_DRAIN_MESSAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/base/id.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/shard.h"

namespace ring::node {

struct DrainRequest {
  MemgestId memgest;
  bool drop = false;
};

struct ShardDrain {
  GroupId group;
  ShardId shard;
  coordinator::DrainCounts counts;
};

struct DrainAnswer {
  Incarnation incarnation;  // who counted: another start of the node has other shards
  std::vector<ShardDrain> shards;
};

std::string EncodeDrainRequest(const DrainRequest& request);
absl::StatusOr<DrainRequest> DecodeDrainRequest(absl::string_view bytes);
std::string EncodeDrainAnswer(const DrainAnswer& answer);
absl::StatusOr<DrainAnswer> DecodeDrainAnswer(absl::string_view bytes);

// A node that started again answers before the view knows: of what it held it counts nothing.
absl::StatusOr<coordinator::DrainCounts> SumOfShards(
    const cluster::View& view, absl::Span<const std::pair<NodeId, DrainAnswer>> answers);

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_DRAIN_MESSAGE_H_
