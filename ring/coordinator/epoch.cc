// The epoch change at a coordinator that keeps its role: the state stays, the members change.
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

void ShardCoordinator::BeginEpoch(Epoch epoch) {
  options_.epoch = epoch;
  tenure_counter_ = 0;  // V1: the epoch makes its versions new
  log_.BeginEpoch(epoch);
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest != nullptr) memgest->allocator().ThawAll();  // S2
  }
}

void ShardCoordinator::ApplyNormal(absl::Span<const NamedSet> sets) {
  for (const NamedSet& set : sets) {
    memgest::Memgest* const memgest = FindMemgest(set.memgest);
    if (memgest == nullptr) continue;
    memgest->members().SetActive(set.roles);
    memgest->rebuild().OnNormal(set.roles, set.incomplete, log_.held());
    rebuilding_ |= memgest->rebuild().active();
  }
  if (log_.held()) log_.Normal();
  log_.ForgetNews();
}

void ShardCoordinator::Propose(absl::Span<const NamedSet> sets) {
  for (const NamedSet& set : sets) {
    memgest::Memgest* const memgest = FindMemgest(set.memgest);
    if (memgest != nullptr) memgest->members().Propose(set.roles);
  }
  log_.MarkProposal();
}

void ShardCoordinator::EndProposal() {
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest != nullptr) memgest->members().EndProposal();
  }
  log_.ForgetNews();
}

}  // namespace ring::coordinator
