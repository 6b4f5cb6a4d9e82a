// ring/cluster/cluster_command.h — what the consensus log orders: every change of the cluster's
// facts.
//
// What:      ClusterCommand: one of eleven kinds, and its bytes. ClusterState says what each does.
// Shape:     each is idempotent by what it names (incarnation, epoch), or has a request id (X6).
// Ownership: values.
// Threads:   pure.
// Errors:    DecodeClusterCommand: kInvalidArgument naming the field. What a view cannot hold, or
//            what does not fit the present one, is ClusterState's to refuse.
// Source:    the steps of an epoch change; rules L7, L8, E5, E8, X6.
#ifndef RING_CLUSTER_CLUSTER_COMMAND_H_
#define RING_CLUSTER_CLUSTER_COMMAND_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/normal_record.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

inline constexpr std::size_t kReasonSizeMax = 255;  // longer ones are cut

// A node says that it is there. Its name tells which it is; id and status are not looked at.
struct RegisterNode {
  NodeInfo info;
  friend bool operator==(const RegisterNode&, const RegisterNode&) = default;
};

// This start of the node is lost to the cluster. Incarnation 0: it was never heard of.
struct FailNode {
  NodeId node;
  Incarnation incarnation;
  std::string reason;  // for people
  friend bool operator==(const FailNode&, const FailNode&) = default;
};

// Its roles go to a spare; it stays up as a source.
struct DrainNode {
  NodeId node;
  friend bool operator==(const DrainNode&, const DrainNode&) = default;
};

// force: whatever it holds; else its roles and its values must be with others.
struct RemoveNode {
  NodeId node;
  bool force = false;
  friend bool operator==(const RemoveNode&, const RemoveNode&) = default;
};

// The same roles in another epoch: the counter of versions ran out (V1), a log connection broke, or
// a member lags and becomes a learner (E5; CheckDemotion says when that may be).
struct NewEpoch {
  GroupId group;
  Epoch expected;  // the present one
  RoleMask demoted = 0;
  std::string reason;
  friend bool operator==(const NewEpoch&, const NewEpoch&) = default;
};

// Step 6 of an epoch change, and L7: a further one of the same epoch names more.
struct SetNormal {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  std::vector<MemgestNormal> memgests;  // ids ascend
  friend bool operator==(const SetNormal&, const SetNormal&) = default;
};

// An operator accepts that these memgests lost more than they survive (E8), in this epoch.
struct Overrun {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  std::vector<MemgestId> memgests;
  friend bool operator==(const Overrun&, const Overrun&) = default;
};

// An operator names a node that the first view does not know, and how it is reached; it registers
// when it starts. Name and addresses are all that is looked at. The same again changes nothing.
struct AddNode {
  NodeInfo info;
  friend bool operator==(const AddNode&, const AddNode&) = default;
};

// A shard that stopped lacks the values of who held the role when it last served, and was taken for
// lost since: it gets the role back (E8; CheckReturn says when that may be).
struct ReturnRole {
  GroupId group;
  ShardId shard;
  Epoch expected;  // the present one
  Role role;
  friend bool operator==(const ReturnRole&, const ReturnRole&) = default;
};

// The first that counts: what the cluster begins with is what its first leader began with, and what
// the file of another node says, now or later, is nothing to it.
struct Found {
  View view;
  friend bool operator==(const Found&, const Found&) = default;
};

// The order is that of the kinds' codes, from 1 on: they travel, never renumber.
using ClusterCommand =
    std::variant<RegisterNode, FailNode, DrainNode, RemoveNode, NewEpoch, SetNormal, Overrun,
                 CatalogueCommand, AddNode, ReturnRole, Found>;

// REQUIRES: strings of at most ByteWriter::kStringSizeMax, at most 255 active_from of a memgest.
std::string EncodeClusterCommand(const ClusterCommand& command);
// The whole of `bytes`.
absl::StatusOr<ClusterCommand> DecodeClusterCommand(absl::string_view bytes);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_CLUSTER_COMMAND_H_
