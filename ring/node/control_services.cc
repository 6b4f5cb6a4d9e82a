#include "ring/node/control_services.h"

#include <utility>

#include "ring/base/status.h"
#include "ring/node/node.h"
#include "ring/node/stats.h"
#include "ring/recovery/seal_message.h"

namespace ring::node {

ControlServices::ControlServices(Node* node)
    : node_(node), catalogue_(node), freezer_(node), scrub_(node), recovery_(node), decode_(node) {
  node->control().Handle(ControlType::kStats,
                         [this](NodeId, absl::string_view, ControlReply reply) {
                           reply(EncodeReport(CollectStats(*node_)));
                         });
  node->control().Handle(ControlType::kSeal, [this](NodeId, absl::string_view body,
                                                    ControlReply reply) { reply(Seal(body)); });
}

absl::StatusOr<std::string> ControlServices::Seal(absl::string_view body) {
  RING_ASSIGN_OR_RETURN(const recovery::SealRequest request, recovery::DecodeSealRequest(body));
  RING_ASSIGN_OR_RETURN(const recovery::SealAnswer answer, node_->members().Seal(request));
  return recovery::EncodeSealAnswer(answer);
}

bool ControlServices::Progress(std::uint64_t now_ns) {
  catalogue_.Progress(now_ns);
  if (freezer_.busy()) freezer_.Progress(now_ns);
  if (scrub_.busy()) scrub_.Progress(now_ns);
  recovery_.Progress(now_ns);
  if (decode_.busy()) decode_.Progress(now_ns);
  return HasWork();
}

}  // namespace ring::node
