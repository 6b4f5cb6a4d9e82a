#include "ring/node/scrub/scrub_service.h"

#include <utility>

#include "ring/node/node.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kAbandonNs = 10'000'000'000;
}  // namespace

ScrubService::ScrubService(Node* node, std::uint64_t period_ns)
    : node_(node), comparer_(node), idle_(node, period_ns) {
  ControlPort& control = node->control();
  control.Handle(ControlType::kScrubStart,
                 [this](NodeId, absl::string_view body, ControlReply reply) {
                   OnStart(body, std::move(reply));
                 });
  control.Handle(ControlType::kScrubPoll,
                 [this](NodeId, absl::string_view body, ControlReply reply) {
                   OnPoll(body, std::move(reply));
                 });
  control.Handle(ControlType::kScrubStop,
                 [this](NodeId, absl::string_view body, ControlReply reply) {
                   OnStop(body, std::move(reply));
                 });
}

void ScrubService::OnStart(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<std::uint64_t> id = DecodeScrubNumber(body);
  if (!id.ok()) return reply(id.status());
  if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
  if (run_ != nullptr && run_->id != *id)
    return reply(absl::ResourceExhaustedError("a scrub runs already: wait for its end"));
  idle_.Stop();
  run_ = std::make_unique<Run>(node_);
  run_->id = *id;
  run_->polled_ns = node_->control().now_ns();
  reply(std::string());
}

void ScrubService::OnPoll(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<std::uint64_t> id = DecodeScrubNumber(body);
  if (!id.ok()) return reply(id.status());
  if (run_ == nullptr || run_->id != *id)
    return reply(absl::NotFoundError("the scrub does not run here: it was stopped"));
  run_->polled_ns = node_->control().now_ns();
  ScrubState state;
  const ScrubTally& tally = run_->walks.tally();
  state.done = run_->walks.done();
  state.status = tally.failure;
  state.progress = tally.progress;
  state.report = tally.report;
  reply(EncodeScrub(state));
}

void ScrubService::OnStop(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<std::uint64_t> id = DecodeScrubNumber(body);
  if (!id.ok()) return reply(id.status());
  if (run_ != nullptr && run_->id == *id) run_ = nullptr;
  reply(std::string());
}

void ScrubService::Progress(std::uint64_t now_ns) {
  if (comparer_.busy()) comparer_.Progress(now_ns);
  if (run_ == nullptr) return idle_.Progress(now_ns);
  if (now_ns > run_->polled_ns + kAbandonNs) {
    run_ = nullptr;
    return;
  }
  run_->walks.Step(now_ns);
}

}  // namespace ring::node
