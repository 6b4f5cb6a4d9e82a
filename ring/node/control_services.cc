#include "ring/node/control_services.h"

#include "absl/time/clock.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/node/events/event_log.h"
#include "ring/node/health_report.h"
#include "ring/node/node.h"
#include "ring/node/stats.h"
#include "ring/recovery/seal_message.h"

namespace ring::node {

ControlServices::ControlServices(Node* node, std::size_t snapshot_piece_size)
    : node_(node),
      catalogue_(node),
      freezer_(node),
      partials_(node, &freezer_),
      scrub_(node, node->config().scrub_period_ns),
      recovery_(node, snapshot_piece_size),
      decode_(node),
      faults_(node),
      join_(node) {
  node->control().Handle(ControlType::kStats,
                         [this](NodeId, absl::string_view, ControlReply reply) {
                           reply(EncodeReport(CollectStats(*node_)));
                         });
  node->control().Handle(ControlType::kHealth,
                         [this](NodeId, absl::string_view, ControlReply reply) {
                           reply(EncodeHealth(CollectHealth(*node_)));
                         });
  node->control().Handle(ControlType::kEvents, [this](NodeId, absl::string_view body,
                                                      ControlReply reply) { reply(Events(body)); });
  node->control().Handle(ControlType::kSeal, [this](NodeId, absl::string_view body,
                                                    ControlReply reply) { reply(Seal(body)); });
}

absl::StatusOr<std::string> ControlServices::Seal(absl::string_view body) {
  RING_ASSIGN_OR_RETURN(const recovery::SealRequest request, recovery::DecodeSealRequest(body));
  RING_ASSIGN_OR_RETURN(const recovery::SealAnswer answer, node_->members().Seal(request));
  node_->MeetEpoch(request.group, request.epoch);
  return recovery::EncodeSealAnswer(answer);
}

// The caller names the number that it has seen of this start, or another start's: then all.
absl::StatusOr<std::string> ControlServices::Events(absl::string_view body) const {
  ByteReader in(body);
  const Incarnation seen_of(in.Get<std::uint64_t>());
  const auto seen = in.Get<std::uint64_t>();
  if (!in.finished()) {
    return absl::InvalidArgumentError("the question for events is malformed");
  }
  NodeEvents events;
  events.node = node_->id();
  events.incarnation = node_->info().incarnation;
  events.unix_offset_ns =
      absl::GetCurrentTimeNanos() - static_cast<std::int64_t>(node_->events().now_ns());
  events.events = node_->events().Since(seen_of == events.incarnation ? seen : 0);
  return EncodeEvents(events);
}

bool ControlServices::Progress(std::uint64_t now_ns) {
  catalogue_.Progress(now_ns);
  if (freezer_.busy()) freezer_.Progress(now_ns);
  scrub_.Progress(now_ns);
  recovery_.Progress(now_ns);
  if (decode_.busy()) decode_.Progress(now_ns);
  if (faults_.busy()) faults_.Progress(now_ns);
  join_.Progress(now_ns);
  node_->held_memory().Progress(now_ns);
  return HasWork();
}

}  // namespace ring::node
