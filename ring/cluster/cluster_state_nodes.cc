// Nodes: they are added, register, fail, are drained and removed.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/cluster/cluster_state.h"
#include "ring/cluster/health.h"
#include "ring/cluster/placement.h"

namespace ring::cluster {
namespace {

NodeInfo* FindNode(View* view, NodeId node) {
  return node.value() < view->nodes.size() ? &view->nodes[node.value()] : nullptr;
}

absl::Status NoSuchNode(NodeId node) {
  return absl::NotFoundError(absl::StrCat("node=", node.value(), " is not known"));
}

bool IsPast(const PastIncarnations& past, NodeId node, Incarnation incarnation) {
  const auto found = past.find(node);
  return found != past.end() &&
         std::find(found->second.begin(), found->second.end(), incarnation) != found->second.end();
}

void AddPast(PastIncarnations* past, NodeId node, Incarnation incarnation) {
  std::vector<Incarnation>& list = (*past)[node];
  if (list.size() == kPastMax) list.erase(list.begin());
  list.push_back(incarnation);
}

void TakeAddresses(const NodeInfo& from, NodeInfo* to) {
  to->local_address = from.local_address;
  to->shm_address = from.shm_address;
  to->tcp_address = from.tcp_address;
  to->rdma_address = from.rdma_address;
  to->admin_address = from.admin_address;
  to->host = from.host;
}

bool EqualAddresses(const NodeInfo& a, const NodeInfo& b) {
  return a.shm_address == b.shm_address && a.tcp_address == b.tcp_address &&
         a.rdma_address == b.rdma_address && a.admin_address == b.admin_address;
}

absl::Status CheckAddressesFree(const View& view, const NodeInfo& info) {
  for (const NodeInfo& node : view.nodes) {
    for (const std::string* taken : {&node.local_address, &node.shm_address, &node.tcp_address,
                                     &node.rdma_address, &node.admin_address}) {
      for (const std::string* wanted : {&info.local_address, &info.shm_address, &info.tcp_address,
                                        &info.rdma_address, &info.admin_address}) {
        if (wanted->empty() || *wanted != *taken) continue;
        return absl::AlreadyExistsError(absl::StrCat("address=", *wanted, " is that of node ",
                                                     node.id.value(), " (", node.name,
                                                     "): give another"));
      }
    }
  }
  return absl::OkStatus();
}

// A drain is an operator's wish: it outlives failures and restarts of the node, not its removal.
void GoDown(NodeInfo* node) {
  node->was_draining |= node->status == NodeStatus::kDraining;
  node->status = NodeStatus::kDown;
}

void ComeBack(NodeInfo* node) {
  node->status = node->was_draining ? NodeStatus::kDraining : NodeStatus::kUp;
  node->was_draining = false;
}

// Whether an epoch change may still want what this start of the node holds (step 2). Of one that is
// down only a shard that does not serve may be waiting for it: it comes back with its memory if it
// was only silent, and what was removed does not come back.
absl::Status CheckNotNeeded(const View& view, const NodeInfo& node) {
  const Holder holder{node.id, node.incarnation};
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (std::size_t i = 0; i < view.groups[g].shards.size(); ++i) {
      const NormalRecord& normal = view.groups[g].shards[i].normal;
      const std::vector<Holder>& holders = normal.holders;
      if (std::find(holders.begin(), holders.end(), holder) == holders.end()) continue;
      if (node.status != NodeStatus::kDown) {
        return absl::FailedPreconditionError(absl::StrCat(
            "node ", node.id.value(),
            " is still a source of values that others fetch: wait until they have them"));
      }
      if (normal.epoch == view.groups[g].epoch || Mutant("I2-removed")) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "node ", node.id.value(), " may have the last copy for group=", g, " shard=", i,
          ", which does not serve: wait until it does, or force (what only this node has is "
          "lost)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// It counts as down until it registers. One that was removed comes back with its number; the start
// that it had then is over.
absl::Status ClusterState::Execute(const AddNode& command, Draft* draft) const {
  const NodeInfo& info = command.info;
  const NodeInfo* known = draft->view.FindNode(info.name);
  if (known != nullptr && known->status != NodeStatus::kRemoved) {
    draft->result.node = known->id;
    if (EqualAddresses(*known, info)) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("name=", info.name, " is that of node ", known->id.value(),
                     ", which has other addresses: give another name, or those"));
  }
  RING_RETURN_IF_ERROR(CheckAddressesFree(draft->view, info));
  if (known == nullptr) {
    if (draft->view.nodes.size() >= kNodeCountMax) {
      return absl::ResourceExhaustedError(absl::StrCat("node_count=", draft->view.nodes.size(),
                                                       " is the most there may be, removed ones "
                                                       "among them: add one of these again"));
    }
    NodeInfo fresh;
    fresh.id = NodeId(static_cast<std::uint32_t>(draft->view.nodes.size()));
    fresh.name = info.name;
    draft->view.nodes.push_back(std::move(fresh));
    known = &draft->view.nodes.back();
  }
  NodeInfo* const node = FindNode(&draft->view, known->id);
  if (node->incarnation.value() != 0) AddPast(&draft->past, node->id, node->incarnation);
  node->incarnation = Incarnation();
  node->status = NodeStatus::kDown;
  TakeAddresses(info, node);
  draft->result.node = node->id;
  return absl::OkStatus();
}

// L8, L4: another start of the node registers, so the one that was known is over: as if it had
// failed. The new one has an empty memory.
absl::Status ClusterState::Restart(const NodeInfo& info, NodeInfo* node, Draft* draft) const {
  AddPast(&draft->past, node->id, node->incarnation);
  GoDown(node);
  if (draft->view.fail_over && !Mutant("L8-start")) {
    Vacate(&draft->view, node->id);
    FillVacant(&draft->view);
  }
  node->incarnation = info.incarnation;
  ComeBack(node);
  return absl::OkStatus();
}

absl::Status ClusterState::Execute(const RegisterNode& command, Draft* draft) const {
  const NodeInfo& info = command.info;
  if (info.incarnation.value() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("node name=", info.name, " registers without an incarnation"));
  }
  const NodeInfo* const known = draft->view.FindNode(info.name);
  if (known == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("node name=", info.name, " is not known: add it first (ringctl node add)"));
  }
  NodeInfo* const node = FindNode(&draft->view, known->id);
  draft->result.node = node->id;
  if (IsPast(draft->past, node->id, info.incarnation)) {
    return absl::AbortedError(absl::StrCat("node ", node->id.value(), " (", node->name,
                                           "): incarnation=", info.incarnation.value(),
                                           " is over, a later one registered"));
  }
  if (node->incarnation.value() == 0) {
    node->incarnation = info.incarnation;
    GoDown(node);
    ComeBack(node);
    for (GroupView& group : draft->view.groups) {
      for (std::size_t x = 0; x < group.roles.size(); ++x) {
        if (group.roles[x] == node->id) group.incarnations[x] = info.incarnation;
      }
    }
  } else if (node->incarnation != info.incarnation) {
    RING_RETURN_IF_ERROR(Restart(info, node, draft));
  } else if (node->status == NodeStatus::kRemoved) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node->id.value(), " (", node->name, ") was removed: restart it, or add it again"));
  } else if (node->status == NodeStatus::kDown) {
    // It was only silent. What it holds still counts where the last Normal record names it.
    ComeBack(node);
  }
  TakeAddresses(info, node);
  if (draft->view.fail_over) FillVacant(&draft->view);
  return RaiseEpochs(*view_, &draft->view);
}

absl::Status ClusterState::Execute(const FailNode& command, Draft* draft) const {
  NodeInfo* const node = FindNode(&draft->view, command.node);
  if (node == nullptr) return NoSuchNode(command.node);
  if (IsPast(draft->past, node->id, command.incarnation)) return absl::OkStatus();
  if (node->incarnation != command.incarnation && !Mutant("L8-fail")) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node->id.value(), " has incarnation=", node->incarnation.value(),
                     ", not ", command.incarnation.value()));
  }
  if (node->status == NodeStatus::kDown || node->status == NodeStatus::kRemoved) {
    return absl::OkStatus();
  }
  GoDown(node);
  if (!draft->view.fail_over) return absl::OkStatus();
  Vacate(&draft->view, node->id);
  FillVacant(&draft->view);
  return RaiseEpochs(*view_, &draft->view);
}

absl::Status ClusterState::Execute(const DrainNode& command, Draft* draft) const {
  NodeInfo* const node = FindNode(&draft->view, command.node);
  if (node == nullptr) return NoSuchNode(command.node);
  if (node->status == NodeStatus::kDraining) return absl::OkStatus();
  if (node->status != NodeStatus::kUp) {
    return absl::FailedPreconditionError(absl::StrCat("node ", node->id.value(), " is ",
                                                      StatusName(node->status),
                                                      ": only one that is up can be drained"));
  }
  const int vacant = VacantCount(draft->view);
  node->status = NodeStatus::kDraining;
  if (!draft->view.HoldsRole(node->id)) return absl::OkStatus();
  if (!draft->view.fail_over) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node->id.value(), " holds roles, and fail_over is off: they cannot be moved"));
  }
  Vacate(&draft->view, node->id);
  FillVacant(&draft->view);
  if (VacantCount(draft->view) > vacant) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node->id.value(), " cannot be drained, no spare takes its roles: add a node"));
  }
  return RaiseEpochs(*view_, &draft->view);
}

absl::Status ClusterState::Execute(const RemoveNode& command, Draft* draft) const {
  NodeInfo* const node = FindNode(&draft->view, command.node);
  if (node == nullptr) return NoSuchNode(command.node);
  if (node->status == NodeStatus::kRemoved) return absl::OkStatus();
  // In one step: a living node that was failed first would register again in between.
  if (command.force && draft->view.fail_over) {
    GoDown(node);
    Vacate(&draft->view, node->id);
    FillVacant(&draft->view);
    RING_RETURN_IF_ERROR(RaiseEpochs(*view_, &draft->view));
  }
  if (draft->view.HoldsRole(node->id)) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node->id.value(), " holds roles: drain it first"));
  }
  if (!command.force) RING_RETURN_IF_ERROR(CheckNotNeeded(draft->view, *node));
  node->status = NodeStatus::kRemoved;
  node->was_draining = false;
  TakeAddresses(NodeInfo(), node);  // another node may have them
  return absl::OkStatus();
}

}  // namespace ring::cluster
