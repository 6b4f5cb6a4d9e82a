// ring/cluster/view.h — the replicated facts that routing needs: nodes, groups, roles, epochs,
// memgests.
//
// What:      View: one immutable snapshot with a number (view epoch); a newer view replaces it
//            whole. ClusterState makes them, one for each agreed command that changes anything.
// Shape:     s+d groups; role x of group g starts on node (g+x) mod (s+d) (L10); nodes without a
//            role are spares. A node's id is its place in the list. A role without a holder is
//            vacant: kNoNode, incarnation 0.
// Units:     epochs are dense counters; masks have bit x for role x.
// Ownership: value; nodes and clients share it by std::shared_ptr<const View> off the hot path.
// Threads:   immutable once built.
// Errors:    Validate and Decode: kInvalidArgument naming the field.
// Source:    docs/ARCHITECTURE.md "The picture" (groups, shards, roles); docs/GLOSSARY.md.
#ifndef RING_CLUSTER_VIEW_H_
#define RING_CLUSTER_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/cluster/normal_record.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::cluster {

inline constexpr int kShardCountMax = 16;  // s
inline constexpr int kRedundancyMax = 4;   // d
inline constexpr std::size_t kNodeCountMax = 1024;
inline constexpr std::size_t kAddressSizeMax = 255;         // also of a node's name
inline constexpr std::uint32_t kEpochMax = (1u << 24) - 1;  // of a group (u24)
inline constexpr int kVoterCountMax = 7;
inline constexpr NodeId kNoNode{0xffffffff};  // holds a vacant role

// Travels: never renumber.
enum class NodeStatus : std::uint8_t {
  kUp = 1,        // also before it was heard of for the first time
  kDown = 2,      // failed; comes back when it registers
  kDraining = 3,  // gave its roles away and gets none; still a source of what it holds
  kRemoved = 4,   // by an operator; its id and its name stay taken
};

// What happens when more was lost than a memgest survives (E8). Travels: never renumber.
enum class OverrunPolicy : std::uint8_t { kStop = 1, kContinue = 2 };

struct NodeInfo {
  NodeId id;
  std::string name;
  Incarnation incarnation;  // 0 until the node was heard of
  NodeStatus status = NodeStatus::kUp;
  bool was_draining = false;  // of one that is down: it comes back as one that drains
  std::string local_address;  // "local:NAME" inside one process, or empty
  std::string shm_address;    // "shm:PATH", or empty
  std::string tcp_address;    // "tcp:HOST:PORT"
  std::string rdma_address;   // "rdma:HOST:PORT"; empty also where its device did not open
  std::string admin_address;  // "HOST:PORT" of the gRPC admin service, or empty
  // Of the machine: equal means that shm works. The label in the founders' file until the node was
  // heard of, then rdma::HostIdentity.
  std::string host;
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

struct ShardView {
  NormalRecord normal;  // the last one
  // An operator's force of E8: in this epoch of the group, losses of these memgests are accepted.
  Epoch overrun_epoch;  // 0: none
  std::vector<MemgestId> overrun;
  friend bool operator==(const ShardView&, const ShardView&) = default;
};

struct GroupView {
  Epoch epoch;
  std::vector<NodeId> roles;              // s+d holders
  std::vector<Incarnation> incarnations;  // of the holders, when they got their roles (L8)
  RoleMask demoted = 0;                   // roles that begin this epoch as learners (E5)
  std::vector<ShardView> shards;          // s
  friend bool operator==(const GroupView&, const GroupView&) = default;
};

struct View {
  std::uint32_t epoch = 0;    // of the view
  std::uint64_t cluster = 0;  // hash of the cluster's name and shape
  // Drawn when it was founded: epochs, ids and starts of another founding mean nothing in this one.
  // 0: it was not yet.
  std::uint64_t founding = 0;
  int s = 0;
  int d = 0;
  std::uint64_t value_size_max = 0;
  std::uint32_t voter_count = 1;  // of the consensus group
  OverrunPolicy overrun = OverrunPolicy::kStop;
  bool fail_over = false;  // whether a failed node's roles go to others
  MemgestId default_memgest;
  protocol::WeakPast weak_past;
  std::vector<NodeInfo> nodes;
  std::vector<GroupView> groups;
  std::vector<protocol::MemgestDescriptor>
      memgests;  // the catalogue, by id; DELETED ones stay (V2)

  int group_count() const { return s + d; }
  // Nodes that are up and hold no role.
  int spare_count() const;
  // kNoNode: the shard is unavailable until a node joins.
  NodeId Coordinator(GroupId group, ShardId shard) const {
    return groups[group.value()].roles[shard.value()];
  }
  bool HoldsRole(NodeId node) const;
  // A node that failed has no part until it comes back, if others do its work; nor has one that was
  // removed, or was added and never started. False as well: there is no such node.
  bool IsAwaited(NodeId node) const;
  // The role of the group that this start of the node holds (L8). Without fail-over roles stay with
  // the node, whichever start it is; and a role is no other start's before the node was heard of.
  std::optional<Role> RoleOf(GroupId group, NodeId node, Incarnation start) const;
  // Whether the shard's coordinator may acknowledge: the present epoch has a Normal record.
  bool IsNormal(GroupId group, ShardId shard) const {
    return groups[group.value()].shards[shard.value()].normal.epoch == groups[group.value()].epoch;
  }
  const NodeInfo* FindNode(absl::string_view name) const;  // null: unknown
  // As operators write it: by name, else by number ("01" is 1, too). null: unknown.
  const NodeInfo* FindNodeByText(absl::string_view text) const;
  const protocol::MemgestDescriptor* FindMemgest(MemgestId id) const;            // null: unknown
  const protocol::MemgestDescriptor* FindMemgest(absl::string_view name) const;  // not DELETED
  // Refuses what no cluster can be: also two roles of a group on one node (L10).
  absl::Status Validate() const;
  friend bool operator==(const View&, const View&) = default;
};

// Names the cluster in handshakes, so that strangers are refused.
std::uint64_t ClusterHash(absl::string_view name, int s, int d);

// Voters of a cluster that does not say how many: 5 from 5 nodes on (L11), else 3 or 1.
int DefaultVoterCount(std::size_t node_count);

// The view of a new cluster: view epoch 1, roles rotated as L10 says, group epochs 1. The first
// memgest is the default one; memgests that all have id 0 are numbered from 1 on.
// REQUIRES: nodes.size() >= s + d.
View InitialView(int s, int d, std::vector<NodeInfo> nodes,
                 std::vector<protocol::MemgestDescriptor> memgests);

// REQUIRES: a valid view.
std::string EncodeView(const View& view);
// The whole of `bytes`, checked by Validate().
absl::StatusOr<View> DecodeView(absl::string_view bytes);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_VIEW_H_
