// Members that join a shard that is served: snapshots go to them, further Normals of the epoch name
// them (L7), and tell who has all values.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/cluster/active_roles.h"
#include "ring/node/coordinated_shard.h"
#include "ring/recovery/join_message.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kProgressPeriodNs = 20'000'000;
constexpr std::uint64_t kProgressTimeoutNs = 200'000'000;
// A learner whose ring is full keeps the whole shard from appending. It may for so long, and longer
// each time it begins again: else it would never come to its end under load.
constexpr std::uint64_t kHoldUpNs = 100'000'000;
constexpr int kHoldUpDoublingsMax = 4;

}  // namespace

void CoordinatedShard::Disconnect(Role role) {
  joiners_[role.value()] = Joiner();
  if (coordinator_ != nullptr) coordinator_->RemoveMember(role);
  links_.Drop(role);
}

void CoordinatedShard::Join(Role role, const cluster::Holder& holder) {
  const absl::Status started = StartJoin(role, holder);
  if (started.ok()) return;
  last_error_ = std::string(started.message());
  change_->OnJoined(role, started);
}

// One step: what the snapshot has not comes through the ring.
absl::Status CoordinatedShard::StartJoin(Role role, const cluster::Holder& holder) {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<memgest::LogWriter> writer,
                        links_.MakeWriter(role, change_->plan().epoch));
  RING_ASSIGN_OR_RETURN(
      coordinator::ShardCoordinator::Learner learner,
      coordinator_->AddLearner(role, std::move(writer), ++context_->last_snapshot_id,
                               context_->snapshot_piece_size));
  links_.set_writer(role, learner.writer);
  joined_behind_[role.value()] = coordinator_->last_large_write();
  progress_[role.value()] = recovery::JoinProgress();
  const recovery::InstallRequest place{
      group_, shard_, change_->plan().epoch, links_.attempt(role), {}};
  Joiner& joiner = joiners_[role.value()];
  joiner = Joiner();
  joiner.parities = std::move(learner.parities);
  joiner.shipment = std::make_unique<SnapshotShipment>(
      [control = context_->control, to = holder.node](std::string body, std::uint64_t timeout_ns,
                                                      ControlReply done) {
        control->Call(to, ControlType::kInstall, std::move(body), timeout_ns, std::move(done),
                      CallWait::kForTheSlow);
      },
      [control = context_->control] { return control->now_ns(); }, context_->pace, place,
      [snapshot = std::move(learner.snapshot)] { return snapshot->Next(); },
      [this, role](const absl::Status& status) {
        if (status.ok()) {
          joiners_[role.value()].installed = true;
          return;
        }
        last_error_ = absl::StrCat("role ", role.value(), " joins: ", status.message());
        change_->OnJoined(role, status);
      });
  active = true;  // what is not committed yet goes to it
  return absl::OkStatus();
}

void CoordinatedShard::ProgressJoins(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < joiners_.size(); ++i) {
    if (joiners_[i].shipment != nullptr) ProgressJoin(Role(static_cast<std::uint16_t>(i)), now_ns);
  }
  if (!further_.empty() && !further_sent_) SendProposal();
  for (const coordinator::ShardCoordinator::Rebuilt& done : coordinator_->rebuilt())
    change_->OnComplete(done.role, done.memgest);
  if (!incomplete_ || now_ns - asked_ns_ < kProgressPeriodNs) return;
  asked_ns_ = now_ns;
  CheckOwnValues();
  AskHowComplete();
}

// L7: with the snapshot installed it has all metadata, and its ring brings every entry since.
void CoordinatedShard::ProgressJoin(Role role, std::uint64_t now_ns) {
  Joiner& joiner = joiners_[role.value()];
  if (HoldsUp(role, now_ns)) {
    ++joins_given_up_;
    change_->OnJoined(role, absl::ResourceExhaustedError("it could not keep up"));
    return;
  }
  if (!joiner.installed && !Mutant("L7-empty")) {
    joiner.shipment->Progress(now_ns, coordinator_->log().IsBehind(role));
    return;
  }
  if (coordinator_->log().IsBehind(role) || links_.writer(role)->broken()) return;
  // Who is not named at once may fall behind once more: until then it is a joiner, who is given up
  // if it holds the others up (E5).
  if (change_->proposes()) return;
  joins_given_up_ = 0;
  recovery::EpochChange::ParityExtents parities = std::move(joiner.parities);
  joiner = Joiner();
  change_->OnJoined(role, absl::OkStatus(), std::move(parities));
}

bool CoordinatedShard::HoldsUp(Role role, std::uint64_t now_ns) {
  Joiner& joiner = joiners_[role.value()];
  if (!coordinator_->log().IsHeldUpBy(role)) {
    joiner.held_up_since_ns = 0;
    return false;
  }
  if (joiner.held_up_since_ns == 0) joiner.held_up_since_ns = now_ns;
  return now_ns - joiner.held_up_since_ns >= kHoldUpNs
                                                 << std::min(joins_given_up_, kHoldUpDoublingsMax);
}

// Memgests that are younger than the sets count whom the sets name at all.
std::vector<coordinator::NamedSet> CoordinatedShard::NamedBy(
    const std::vector<cluster::MemgestNormal>& sets) const {
  std::vector<coordinator::NamedSet> named;
  if (sets.empty()) return named;
  cluster::NormalRecord record;
  record.memgests = sets;
  for (const protocol::MemgestDescriptor& memgest : change_->plan().memgests) {
    coordinator::NamedSet set;
    set.memgest = memgest.id;
    set.roles = cluster::ActiveFor(record, memgest, shard_, view_->s, view_->d);
    const cluster::MemgestNormal* const one = record.Find(memgest.id);
    if (one != nullptr) set.complete = one->complete;
    for (std::size_t i = 0; one != nullptr && i < one->active_from.size(); ++i)
      set.incomplete.push_back({one->active_from[i].role, one->active_from[i].extent});
    named.push_back(std::move(set));
  }
  return named;
}

void CoordinatedShard::ProposeFurther(const std::vector<cluster::MemgestNormal>& sets) {
  if (further_.empty()) {
    further_ = sets;
    coordinator_->Propose(NamedBy(sets));
    active = true;
  }
  further_sent_ = false;
  SendProposal();
}

// When everyone it names has what was appended before; entries since need both sets.
void CoordinatedShard::SendProposal() {
  for (const cluster::MemgestNormal& set : further_) {
    const memgest::Memgest* const memgest = coordinator_->FindMemgest(set.id);
    if (memgest == nullptr) continue;
    for (const memgest::Member& member : memgest->members()) {
      const bool named = (set.active >> member.role.value() & 1) != 0;
      if (named && !coordinator_->log().CaughtUp(member.role)) return;
    }
  }
  further_sent_ = true;
  if (context_->propose) {
    context_->propose(cluster::SetNormal{group_, shard_, change_->plan().epoch, further_});
    return;
  }
  applied_.memgests = further_;  // static membership
  change_->OnNormal(applied_.memgests);
}

bool CoordinatedShard::HasAllValues(const memgest::Memgest& memgest) const {
  // E8: what a shard goes on without in one memgest, another one does not lack.
  const bool decoded = !memgest.coded() || memgest.allocator().lost_count() == 0;
  return decoded && memgest.absent_count == 0;
}

void CoordinatedShard::CheckOwnValues() {
  const Role own(shard_.value());
  for (const protocol::MemgestDescriptor& descriptor : change_->plan().memgests) {
    const memgest::Memgest* const memgest = coordinator_->FindMemgest(descriptor.id);
    if (!Has(change_->Incomplete(descriptor), own) || memgest == nullptr) continue;
    if (HasAllValues(*memgest)) change_->OnComplete(own, descriptor.id);
  }
}

void CoordinatedShard::AskHowComplete() {
  RoleMask incomplete = 0;
  RoleMask replicas = 0;
  for (const protocol::MemgestDescriptor& memgest : change_->plan().memgests) {
    const RoleMask lacking = change_->Incomplete(memgest);
    incomplete |= lacking;
    if (memgest.scheme == protocol::Scheme::kReplicated) replicas |= lacking;
  }
  incomplete_ = incomplete != 0;
  for (std::size_t i = 0; i < joiners_.size(); ++i) {
    const Role role(static_cast<std::uint16_t>(i));
    if (!Has(replicas, role) || i == shard_.value()) continue;
    if (coordinator_->HasLargeWriteUpTo(joined_behind_[i])) continue;
    if (!progress_[i].has_ends()) progress_[i].SetEnds(LogEnds());
    const recovery::ProgressRequest request{group_, shard_, change_->plan().epoch};
    context_->control->Call(
        change_->plan().holders[i].node, ControlType::kProgress,
        recovery::EncodeProgressRequest(request), kProgressTimeoutNs,
        [this, role, attempt = links_.attempt(role),
         alive = std::weak_ptr<bool>(epoch_alive_)](const absl::StatusOr<std::string>& bytes) {
          // It may have begun again since.
          if (alive.expired() || links_.attempt(role) != attempt) return;
          OnProgress(role, bytes);
        });
  }
}

recovery::JoinProgress::Ends CoordinatedShard::LogEnds() const {
  recovery::JoinProgress::Ends ends;
  for (const std::unique_ptr<memgest::Memgest>& memgest : coordinator_->memgests()) {
    if (memgest != nullptr) ends[memgest->descriptor().id] = memgest->next_index() - 1;
  }
  return ends;
}

void CoordinatedShard::OnProgress(Role role, const absl::StatusOr<std::string>& bytes) {
  if (!bytes.ok() || !serving()) return;
  const absl::StatusOr<std::vector<recovery::ValuesToCome>> memgests =
      recovery::DecodeProgressAnswer(*bytes);
  if (!memgests.ok()) return;
  for (const protocol::MemgestDescriptor& descriptor : change_->plan().memgests) {
    if (descriptor.scheme != protocol::Scheme::kReplicated) continue;
    if (!Has(change_->Incomplete(descriptor), role)) continue;
    for (const recovery::ValuesToCome& values : *memgests) {
      if (values.memgest != descriptor.id || !progress_[role.value()].IsComplete(values)) continue;
      change_->OnComplete(role, descriptor.id);
      break;
    }
  }
}

}  // namespace ring::node
