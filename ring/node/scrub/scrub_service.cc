#include "ring/node/scrub/scrub_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kAbandonNs = 10'000'000'000;
}  // namespace

ScrubService::ScrubService(Node* node) : node_(node), comparer_(node) {
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
  run_ = std::make_unique<Run>();
  run_->id = *id;
  run_->polled_ns = node_->control().now_ns();
  ScrubTally* const tally = &run_->tally;
  for (const std::unique_ptr<CoordinatedShard>& shard : node_->shards()) {
    run_->values.push_back(
        std::make_unique<ScrubValueWalk>(node_, shard->group(), shard->shard(), tally));
    if (!shard->serving()) continue;
    for (const std::unique_ptr<memgest::Memgest>& memgest : shard->coordinator()->memgests()) {
      if (memgest != nullptr) tally->progress.total += memgest->version_count;
    }
  }
  run_->rows = std::make_unique<ScrubRowWalk>(node_, tally);
  reply(std::string());
}

void ScrubService::OnPoll(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<std::uint64_t> id = DecodeScrubNumber(body);
  if (!id.ok()) return reply(id.status());
  if (run_ == nullptr || run_->id != *id)
    return reply(absl::NotFoundError("the scrub does not run here: it was stopped"));
  run_->polled_ns = node_->control().now_ns();
  ScrubState state;
  state.done = run_->done;
  state.status = run_->tally.failure;
  state.progress = run_->tally.progress;
  state.report = run_->tally.report;
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
  if (run_ == nullptr) return;
  if (now_ns > run_->polled_ns + kAbandonNs) {
    run_ = nullptr;
    return;
  }
  if (!run_->done) StepRun(now_ns);
}

void ScrubService::StepRun(std::uint64_t now_ns) {
  Run& run = *run_;
  bool done = true;
  for (const std::unique_ptr<ScrubValueWalk>& walk : run.values) done &= walk->done();
  if (!done) {
    for (std::size_t i = 0; i < run.values.size(); ++i) {
      ScrubValueWalk& walk = *run.values[run.next++ % run.values.size()];
      if (walk.done() || walk.waiting()) continue;
      walk.Step();
      break;
    }
  }
  run.rows->Step(now_ns);
  done &= run.rows->done();
  if (!run.tally.failure.ok()) done = true;
  if (!done) return;
  run.done = true;
  run.values.clear();
  run.rows.reset();
  run.tally.progress.total = std::max(run.tally.progress.total, run.tally.progress.checked);
}

bool ScrubService::HasWork() const {
  if (run_ == nullptr || run_->done) return false;
  if (run_->rows->runnable()) return true;
  return std::any_of(run_->values.begin(), run_->values.end(),
                     [](const std::unique_ptr<ScrubValueWalk>& walk) {
                       return !walk->done() && !walk->waiting();
                     });
}

}  // namespace ring::node
