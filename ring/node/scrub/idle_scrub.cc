#include "ring/node/scrub/idle_scrub.h"

#include "ring/base/log.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kBurstNs = 5'000'000;
constexpr int kBurstSteps = 16;
constexpr std::uint64_t kIdleNs = 50'000'000;

std::uint64_t ExecutedAt(Node& node) {
  std::uint64_t executed = 0;
  for (const std::unique_ptr<CoordinatedShard>& shard : node.shards()) {
    if (!shard->serving()) continue;
    const coordinator::ShardCounters& counters = shard->coordinator()->counters();
    executed += counters.gets + counters.puts + counters.deletes + counters.moves;
  }
  return executed;
}
}  // namespace

IdleScrub::IdleScrub(Node* node, std::uint64_t period_ns) : node_(node), period_ns_(period_ns) {}

void IdleScrub::Progress(std::uint64_t now_ns) {
  if (period_ns_ == 0 || node_->view() == nullptr) return;
  if (run_ != nullptr) run_->StepRow(now_ns);
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kBurstNs;
  if (due_ns_ == 0) {
    due_ns_ = now_ns + period_ns_ + period_ns_ * node_->id().value() / node_->view()->nodes.size();
  }
  if (!IsIdle(now_ns)) return;
  if (run_ == nullptr) {
    if (now_ns < due_ns_) return;
    due_ns_ = now_ns + period_ns_;
    run_ = std::make_unique<ScrubRun>(node_);
  }
  for (int i = 0; i < kBurstSteps && run_->runnable(); ++i) run_->Step(now_ns);
  run_->Step(now_ns);  // an answer may be all that it waited for
  if (run_->done()) Tell();
}

bool IdleScrub::IsIdle(std::uint64_t now_ns) {
  const std::uint64_t executed = ExecutedAt(*node_);
  if (executed != executed_) idle_since_ns_ = now_ns;
  executed_ = executed;
  return now_ns >= idle_since_ns_ + kIdleNs;
}

void IdleScrub::Tell() {
  const ScrubTally& tally = run_->tally();
  totals_.checked += tally.progress.checked;
  totals_.mismatches += tally.report.mismatches;
  for (const std::string& detail : tally.report.details) RING_LOG(ERROR) << "scrub: " << detail;
  if (tally.report.mismatches > 0) node_->events().Add(EventKind::kMismatch);
  if (!tally.failure.ok()) {
    RING_LOG(WARNING) << "the scrub in idle time could not compare everything, and comes again: "
                      << tally.failure.ToString();
  }
  run_.reset();
}

}  // namespace ring::node
