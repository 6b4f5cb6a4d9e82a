#include "ring/node/recovery/join_service.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/node/node.h"
#include "ring/recovery/join_message.h"

namespace ring::node {

JoinService::JoinService(Node* node)
    : node_(node), values_(&node->members(), &node->control(), &node->pace()) {
  node->control().Handle(
      ControlType::kInstall,
      [this](NodeId, absl::string_view body, ControlReply reply) { reply(Install(body)); });
  node->control().Handle(ControlType::kProgress, [this](NodeId, absl::string_view body,
                                                        ControlReply reply) { reply(Tell(body)); });
}

absl::StatusOr<std::string> JoinService::Install(absl::string_view body) {
  RING_ASSIGN_OR_RETURN(const recovery::InstallRequest request,
                        recovery::DecodeInstallRequest(body));
  RING_RETURN_IF_ERROR(node_->members().Install(request));
  return std::string();
}

absl::StatusOr<std::string> JoinService::Tell(absl::string_view body) {
  RING_ASSIGN_OR_RETURN(const recovery::ProgressRequest request,
                        recovery::DecodeProgressRequest(body));
  const MemberPort::HeldShard* const held = node_->members().Find(request.group, request.shard);
  if (held == nullptr || held->failed || held->leaves || held->store->promised() != request.epoch ||
      held->join == MemberPort::HeldShard::Join::kAwaitsSnapshot) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node_->id().value(), " is no member of group=", request.group.value(),
                     " shard=", request.shard.value(), " in epoch=", request.epoch.value()));
  }
  std::vector<recovery::ValuesToCome> memgests;
  held->store->ForEachMemgest([&](MemgestId id) {
    memgests.push_back({id, held->store->applied(id), held->store->absent_count(id),
                        held->store->absent_total(id)});
  });
  return recovery::EncodeProgressAnswer(memgests);
}

}  // namespace ring::node
