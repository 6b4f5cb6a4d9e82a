#include "ring/node/control_services.h"

#include <utility>

#include "ring/node/node.h"
#include "ring/node/stats.h"

namespace ring::node {

ControlServices::ControlServices(Node* node) : node_(node), catalogue_(node), scrub_(node) {
  node->control().Handle(ControlType::kStats,
                         [this](NodeId, absl::string_view, ControlReply reply) {
                           reply(EncodeReport(CollectStats(*node_)));
                         });
}

bool ControlServices::Progress(std::uint64_t now_ns) {
  catalogue_.Progress(now_ns);
  if (scrub_.busy()) scrub_.Progress(now_ns);
  return scrub_.HasWork();
}

}  // namespace ring::node
