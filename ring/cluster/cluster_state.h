// ring/cluster/cluster_state.h — the replicated state machine of a cluster.
//
// What:      ClusterState: nodes and their starts, who holds which role in which epoch, the last
//            Normal record of every shard, the memgest catalogue; changed by ClusterCommands in one
//            agreed order. Equal commands in equal order give equal states on every node, byte for
//            byte (Snapshot). Its facts are the View; besides, it remembers admin requests (X6) and
//            the starts of nodes that are over (L8).
// Shape:     view().epoch counts the commands that changed the view.
// Units:     as View's.
// Ownership: value; views are shared and immutable.
// Threads:   thread-compatible; no clock, no I/O.
// Errors:    in ClusterResult::status. A refused command changes nothing but the record of an admin
//            request, so that its retry is refused the same way.
// Cost:      copies the view; off the hot path.
// Source:    steps 1 and 6 of an epoch change; rules L4, L7, L8, L10, L11, E5, E8, G10,
//            G11, X6.
#ifndef RING_CLUSTER_CLUSTER_STATE_H_
#define RING_CLUSTER_CLUSTER_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/cluster_command.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

struct ClusterResult {
  absl::Status status;
  bool changed = false;    // there is a new view
  bool duplicate = false;  // an admin request answered from memory
  MemgestId memgest;       // created or changed
  NodeId node = kNoNode;   // registered or added
};

// Starts of a node that are over, the last kPastMax of them.
inline constexpr std::size_t kPastMax = 16;
using PastIncarnations = std::map<NodeId, std::vector<Incarnation>>;

class ClusterState {
 public:
  // A cluster that begins with this. REQUIRES: a valid view.
  explicit ClusterState(View initial);
  // One of which nothing is agreed upon: the view is what this node's file says, and every command
  // is refused but Found. REQUIRES: a valid view.
  static ClusterState Unfounded(View own);

  // Errors: kNotFound (node), kInvalidArgument (no such thing in any view), kFailedPrecondition (it
  // does not fit the present view, which the message names), kAborted (a start of the node that is
  // over), kAlreadyExists (name, address), kResourceExhausted (nodes, epochs), kUnavailable (not
  // founded yet), and Catalogue::Apply's.
  ClusterResult Apply(const ClusterCommand& command);
  // What is not a command is refused, on every node alike.
  ClusterResult Apply(absl::string_view bytes);

  bool founded() const { return founded_; }
  const std::shared_ptr<const View>& view() const { return view_; }
  const Catalogue& catalogue() const { return catalogue_; }

  std::string Snapshot() const;
  static absl::StatusOr<ClusterState> FromSnapshot(absl::string_view bytes);
  friend bool operator==(const ClusterState& a, const ClusterState& b) {
    return *a.view_ == *b.view_ && a.catalogue_ == b.catalogue_ && a.past_ == b.past_ &&
           a.founded_ == b.founded_;
  }

 private:
  // What a command works on; taken over when it succeeded.
  struct Draft {
    View view;
    PastIncarnations past;
    ClusterResult result;
  };

  ClusterState(View view, Catalogue catalogue, PastIncarnations past, bool founded);

  // cluster_state_nodes.cc
  absl::Status Execute(const RegisterNode& command, Draft* draft) const;
  absl::Status Execute(const FailNode& command, Draft* draft) const;
  absl::Status Execute(const DrainNode& command, Draft* draft) const;
  absl::Status Execute(const RemoveNode& command, Draft* draft) const;
  absl::Status Execute(const AddNode& command, Draft* draft) const;
  absl::Status Restart(const NodeInfo& info, NodeInfo* node, Draft* draft) const;
  // cluster_state_normal.cc
  absl::Status Execute(const NewEpoch& command, Draft* draft) const;
  absl::Status Execute(const SetNormal& command, Draft* draft) const;
  absl::Status Execute(const Overrun& command, Draft* draft) const;
  absl::Status Execute(const ReturnRole& command, Draft* draft) const;
  // cluster_state.cc
  static absl::Status CheckCalm(const View& view);
  absl::Status Execute(const CatalogueCommand& command, Draft* draft);
  absl::Status Execute(const Found& command, Draft* draft);

  std::shared_ptr<const View> view_;
  Catalogue catalogue_;
  PastIncarnations past_;
  bool founded_ = true;
};

}  // namespace ring::cluster

#endif  // RING_CLUSTER_CLUSTER_STATE_H_
