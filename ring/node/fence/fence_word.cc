#include "ring/node/fence/fence_word.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "consensus/message.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/cluster/cluster_command.h"
#include "ring/node/control/cluster_machine.h"

namespace ring::node {
namespace {

std::uint64_t FoundingOf(absl::string_view command) {
  const absl::StatusOr<cluster::ClusterCommand> decoded = cluster::DecodeClusterCommand(command);
  const auto* const found = decoded.ok() ? std::get_if<cluster::Found>(&*decoded) : nullptr;
  return found == nullptr ? 0 : found->view.founding;
}

}  // namespace

std::uint64_t LoadFenceWord(const std::byte* word) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(word), __ATOMIC_ACQUIRE);
}

void FenceWord::OnSnapshot(const consensus::Snapshot& snapshot, bool replaces_log) {
  if (!replaces_log) {
    // Our own: the last of each at or before it stays, for a truncation of all behind it.
    const auto role = std::upper_bound(roles_.begin(), roles_.end(), snapshot.index);
    if (role != roles_.begin()) roles_.erase(roles_.begin(), role - 1);
    const auto voters = std::find_if(voters_.begin(), voters_.end(),
                                     [&](const auto& one) { return one.first > snapshot.index; });
    if (voters != voters_.begin()) voters_.erase(voters_.begin(), voters - 1);
    return;
  }
  // The first configuration of a cluster is a snapshot of nothing.
  const absl::StatusOr<consensus::LogIndex> roles =
      snapshot.data.empty() ? consensus::LogIndex{0} : ClusterMachine::RolesOf(snapshot.data);
  RING_CHECK(roles.ok()) << "snapshot index=" << snapshot.index << ": " << roles.status();
  const absl::StatusOr<std::uint64_t> founding =
      snapshot.data.empty() ? std::uint64_t{0} : ClusterMachine::FoundingOf(snapshot.data);
  RING_CHECK(founding.ok()) << "snapshot index=" << snapshot.index << ": " << founding.status();
  foundings_.clear();
  if (*founding != 0) foundings_.emplace_back(snapshot.index, *founding);
  roles_.assign(1, *roles);
  voters_.assign(1, {snapshot.index, snapshot.configuration.voters});
  Store();
}

void FenceWord::OnTruncate(consensus::LogIndex from) {
  while (roles_.size() > 1 && roles_.back() >= from) roles_.pop_back();
  while (voters_.size() > 1 && voters_.back().first >= from) voters_.pop_back();
  while (!foundings_.empty() && foundings_.back().first >= from) foundings_.pop_back();
  Store();
}

void FenceWord::OnAppend(absl::Span<const consensus::Entry> entries) {
  for (const consensus::Entry& entry : entries) {
    if (entry.kind == consensus::EntryKind::kCommand && MayChangeRoles(entry.data)) {
      roles_.push_back(entry.index);
      if (const std::uint64_t founding = FoundingOf(entry.data); founding != 0)
        foundings_.emplace_back(entry.index, founding);
    } else if (entry.kind == consensus::EntryKind::kConfig) {
      absl::StatusOr<consensus::Configuration> next = consensus::DecodeConfiguration(entry.data);
      RING_CHECK(next.ok()) << next.status();  // it is in the log
      voters_.emplace_back(entry.index, std::move(next->voters));
    }
  }
  Store();
}

void FenceWord::Store() {
  RoleMark mark;
  if (!roles_.empty()) mark.roles = roles_.back();
  if (!voters_.empty()) mark.voters = voters_.back().second;
  if (!foundings_.empty()) mark.founding = foundings_.front().second;
  std::uint64_t value = mark.voters.empty() ? 0 : RoleWord(self_, mark);
  if (Mutant("L1-word")) std::swap(value, late_);
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(word_), value, __ATOMIC_RELEASE);
}

}  // namespace ring::node
