#include "tests/sim/workload.h"

namespace ring::sim {

Workload::Workload(Random* random, std::uint64_t key_count) : random_(random) {
  constexpr std::uint64_t kKeyCounts[] = {1, 2, 4, 8, 16};
  const std::uint64_t drawn = kKeyCounts[random_->Below(5)];
  key_count_ = key_count != 0 ? key_count : drawn;
  hot_percent_ = random_->Below(60);
  constexpr std::uint64_t kThinks[] = {0, 2'000, 20'000, 200'000, 2'000'000};
  think_max_ns_ = kThinks[random_->Below(5)];
  constexpr std::uint64_t kWeights[] = {40, 35, 8, 8, 6, 3};
  for (std::size_t i = 0; i < 6; ++i) weights_[i] = kWeights[i] * (1 + random_->Below(4)) / 2;
  large_percent_ = random_->Below(2) == 0 ? 0 : random_->Below(10);
  huge_percent_ = random_->Below(4) == 0 ? 1 + random_->Below(3) : 0;
  stale_percent_ = random_->Below(40);
}

std::uint64_t Workload::ThinkNs() { return think_max_ns_ == 0 ? 0 : random_->Below(think_max_ns_); }

std::uint32_t Workload::Size() {
  const std::uint64_t percent = random_->Below(100);
  std::uint64_t size = kValueSizeMin + random_->Below(1200);
  if (percent < huge_percent_) {
    size = 64 * 1024 + random_->Below(90 * 1024);  // PARTs (S10)
  } else if (percent < huge_percent_ + large_percent_) {
    size = 8 * 1024 + random_->Below(40 * 1024);
  }
  return static_cast<std::uint32_t>(size);
}

int Workload::AnyKey() {
  return random_->Below(100) < hot_percent_ ? 0 : static_cast<int>(random_->Below(key_count_));
}

Operation Workload::NextGet() {
  Operation op;
  op.key = AnyKey();
  op.kind = OpKind::kGet;
  return op;
}

Operation Workload::Next(const cluster::View& view) {
  Operation op;
  op.key = AnyKey();
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights_) total += weight;
  std::uint64_t draw = random_->Below(total);
  std::size_t kind = 0;
  while (draw >= weights_[kind]) draw -= weights_[kind++];
  constexpr OpKind kKinds[] = {OpKind::kGet,  OpKind::kPut, OpKind::kDelete,
                               OpKind::kMove, OpKind::kPut, OpKind::kDelete};
  op.kind = kKinds[kind];
  if (kind == 5 && random_->Below(2) == 0) op.kind = OpKind::kMove;
  if (op.kind == OpKind::kPut) {
    op.value = NextValue();
    op.size = Size();
  }
  if (op.kind == OpKind::kPut || op.kind == OpKind::kMove) {
    std::vector<const protocol::MemgestDescriptor*> usable;
    for (const protocol::MemgestDescriptor& memgest : view.memgests) {
      if (memgest.state != protocol::MemgestState::kActive) continue;
      if (!strong_ || memgest.FailuresTolerated() > 0) usable.push_back(&memgest);
    }
    // Sometimes the default one.
    if (!usable.empty() && random_->Below(10) != 0) {
      const protocol::MemgestDescriptor& chosen = *usable[random_->Below(usable.size())];
      op.memgest = chosen.id;
      op.memgest_name = chosen.name;
    } else if (const auto* chosen = view.FindMemgest(view.default_memgest); chosen != nullptr) {
      op.memgest_name = chosen->name;
    }
  }
  if (kind >= 4) {
    const auto known = known_.find(op.key);
    op.if_version = known == known_.end() || random_->Below(8) == 0 ? Version() : known->second;
    if (op.if_version->bits() != 0 && random_->Below(100) < stale_percent_)
      op.if_version = Version(op.if_version->bits() - random_->Below(3));
  }
  return op;
}

}  // namespace ring::sim
