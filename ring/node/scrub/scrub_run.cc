#include "ring/node/scrub/scrub_run.h"

#include <algorithm>

#include "ring/node/node.h"

namespace ring::node {

ScrubRun::ScrubRun(Node* node) {
  for (const std::unique_ptr<CoordinatedShard>& shard : node->shards()) {
    values_.push_back(
        std::make_unique<ScrubValueWalk>(node, shard->group(), shard->shard(), &tally_));
    if (!shard->serving()) continue;
    for (const std::unique_ptr<memgest::Memgest>& memgest : shard->coordinator()->memgests()) {
      if (memgest != nullptr) tally_.progress.total += memgest->version_count;
    }
  }
  rows_ = std::make_unique<ScrubRowWalk>(node, &tally_);
}

void ScrubRun::Step(std::uint64_t now_ns) {
  if (done()) return;
  StepValues();
  rows_->Step(now_ns);
  const bool walked = rows_->done() && std::all_of(values_.begin(), values_.end(),
                                                   [](const auto& walk) { return walk->done(); });
  if (!walked && tally_.failure.ok()) return;
  values_.clear();
  rows_.reset();
  tally_.progress.total = std::max(tally_.progress.total, tally_.progress.checked);
}

void ScrubRun::StepRow(std::uint64_t now_ns) {
  if (in_row()) rows_->Step(now_ns);
}

void ScrubRun::StepValues() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    ScrubValueWalk& walk = *values_[next_++ % values_.size()];
    if (walk.done() || walk.waiting()) continue;
    return walk.Step();
  }
}

bool ScrubRun::runnable() const {
  if (done()) return false;
  if (rows_->runnable()) return true;
  return std::any_of(values_.begin(), values_.end(),
                     [](const auto& walk) { return !walk->done() && !walk->waiting(); });
}

}  // namespace ring::node
