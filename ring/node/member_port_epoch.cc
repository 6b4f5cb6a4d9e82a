// A member's way from one epoch into the next: seal, enter, adopt, leave.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/node/member_port.h"

namespace ring::node {
namespace {

using HeldShard = MemberPort::HeldShard;

bool SharesParities(const HeldShard& joining, Role role, const HeldShard& other) {
  return other.group == joining.group && other.role == role && &other != &joining;
}

}  // namespace

// Memberships of the roles that this node holds now. One of another role stays as it is until the
// shard joins: the coordinator may seal it as what the last Normal record names (E7).
void MemberPort::JoinGroups() {
  for (std::size_t g = 0; g < view_.groups.size(); ++g) {
    const GroupId group(static_cast<std::uint16_t>(g));
    const std::optional<Role> mine = view_.RoleOf(group, options_.node, options_.incarnation);
    if (!mine.has_value()) continue;
    const Role role = *mine;
    for (int i = 0; i < view_.s; ++i) {
      const ShardId shard(static_cast<std::uint16_t>(i));
      if (i == role.value() || Find(group, shard) != nullptr) continue;
      HeldShard held;
      held.group = group;
      held.shard = shard;
      held.role = role;
      held.store = std::make_unique<memgest::MemberShard>(options_.device, group, shard,
                                                          options_.line_count_max);
      held_shards_.push_back(std::move(held));
    }
  }
}

// Step 7: what a later Normal record does without is of no use to anybody.
void MemberPort::LeaveGroups() {
  const auto left = [this](const HeldShard& held) {
    const std::optional<Role> role = view_.RoleOf(held.group, options_.node, options_.incarnation);
    const bool member = role.has_value() && role->value() != held.shard.value();
    return !member && view_.IsNormal(held.group, held.shard);
  };
  for (HeldShard& held : held_shards_) {
    if (!left(held)) continue;
    held.store.reset();
    EndRing(held);
    retired_.Add(held.ring_qp, std::move(held.ring));
    retired_.Add(held.sealed_ring_qp, std::move(held.sealed_ring));
  }
  std::erase_if(held_shards_, [](const HeldShard& held) { return held.store == nullptr; });
  next_ = 0;
  DropUnusedParities();
}

// A parity of a role that the node left is kept as long as a shard's state here is that role's.
void MemberPort::DropUnusedParities() {
  absl::erase_if(parities_, [this](const auto& parity) {
    return std::none_of(held_shards_.begin(), held_shards_.end(),
                        [&key = parity.first](const HeldShard& held) {
                          return held.group == key.group && held.role == key.role;
                        });
  });
}

// A node that holds none any more counts for what it was.
Role MemberPort::RoleNow(const HeldShard& held) const {
  return view_.RoleOf(held.group, options_.node, options_.incarnation).value_or(held.role);
}

// REQUIRES: the shard's state was reset.
void MemberPort::StartRole(HeldShard& held, Role role) {
  if (held.role == role) return;
  held.role = role;
  DropUnusedParities();
}

// L5: the queue pair is destroyed and the ring's key revoked; whatever was under way fails at its
// initiator. A seal that fails then leaves its reader at work.
void MemberPort::EndRing(HeldShard& held) {
  if (Mutant("L5-reset")) {
    (void)held.qp.release();
    return;
  }
  if (held.qp != nullptr) held.qp->Reset();
  if (held.store != nullptr && held.store->reader() != nullptr)
    held.store->reader()->DropQueuePair();
  held.qp.reset();
  if (held.ring.region != nullptr) held.ring.region->Revoke();
  held.credit_due = false;
}

void MemberPort::RetireSealed(HeldShard& held) {
  retired_.Add(held.sealed_ring_qp, std::exchange(held.sealed_ring, {}));
}

absl::StatusOr<recovery::SealAnswer> MemberPort::Seal(const recovery::SealRequest& request) {
  HeldShard* const held = Find(request.group, request.shard);
  if (held == nullptr || request.incarnation != options_.incarnation) {
    return absl::AbortedError(absl::StrCat("node ", options_.node.value(),
                                           " has nothing of group=", request.group.value(),
                                           " shard=", request.shard.value()));
  }
  memgest::MemberShard& store = *held->store;
  if (request.epoch < store.promised() ||
      (request.epoch == store.promised() && held->qp != nullptr)) {
    return absl::FailedPreconditionError(absl::StrCat("seal for epoch=", request.epoch.value(),
                                                      " promised=", store.promised().value()));
  }
  const bool ring_is_of_l =
      store.reader() != nullptr && store.reader()->epoch() == request.last_normal;
  EndRing(*held);
  if (HasNothing(*held)) {
    return absl::AbortedError(absl::StrCat("node ", options_.node.value(),
                                           " has to join group=", request.group.value(),
                                           " shard=", request.shard.value(), " from nothing"));
  }
  // That L became Normal may be news here.
  if (ring_is_of_l && store.promised() == request.last_normal && !Mutant("step2-local")) {
    RING_RETURN_IF_ERROR(store.Adopt(request.last_normal));
  }
  absl::StatusOr<std::vector<memgest::SealedLog>> logs =
      store.Seal(request.epoch, request.last_normal);
  if (absl::IsDataLoss(logs.status())) {
    // It has nothing that counts: nobody waits for it, nor takes it for one that may answer yet.
    held->failed = true;
    return absl::AbortedError(logs.status().message());
  }
  RING_RETURN_IF_ERROR(logs.status());
  if (ring_is_of_l) {
    RetireSealed(*held);
    held->sealed_ring = std::exchange(held->ring, {});
    held->sealed_ring_qp = held->ring_qp;
  } else {
    retired_.Add(held->ring_qp, std::exchange(held->ring, {}));
  }
  recovery::SealAnswer answer;
  answer.incarnation = options_.incarnation;
  answer.leaves = held->leaves;
  answer.logs = *std::move(logs);
  return answer;
}

// Whether the ring of this hello's epoch may be opened: the member was sealed for it, has nothing
// to lose, or drops what it has because the coordinator goes on without it.
absl::Status MemberPort::EnterEpoch(HeldShard& held, const protocol::LogHello& hello) {
  memgest::MemberShard& store = *held.store;
  const Epoch epoch(hello.epoch);
  if (epoch < store.promised()) {  // a seal may be ahead of the view
    return absl::FailedPreconditionError(
        absl::StrCat("epoch=", epoch.value(), " promised=", store.promised().value()));
  }
  const bool joins = (hello.flags & protocol::kLogJoins) != 0;
  if (store.promised() == epoch && held.qp != nullptr &&
      (!joins || hello.attempt <= held.attempt)) {
    // Only who joins comes again within an epoch, to begin anew; a coordinator that lost its memory
    // has none. What comes late must not reset what has joined since.
    return absl::FailedPreconditionError("the shard has a log connection of this epoch already");
  }
  const cluster::NormalRecord& normal = view_.groups[hello.group].shards[hello.shard].normal;
  const Role role = RoleNow(held);
  if (!joins && (HasNothing(held) || role != held.role) && normal.epoch != Epoch()) {
    // It was sealed for this epoch, and lost since what it said then; or what it has is of a role
    // that it does not hold any more.
    return absl::FailedPreconditionError("this member has to join from nothing");
  }
  if (joins) {
    LearnAnew(held, hello);
    RING_ASSIGN_OR_RETURN(const bool drops, LeaveShardsOfParities(held, role));
    EndRing(held);
    retired_.Add(held.ring_qp, std::exchange(held.ring, {}));
    store.Reset(epoch);
    RetireSealed(held);
    StartRole(held, role);
    held.join = HeldShard::Join::kAwaitsSnapshot;
    held.failed = false;
    if (drops) DropParities(held);
    AddMemgestsOfJoiner(held);
  } else if (store.promised() < epoch && normal.epoch == Epoch()) {
    EndRing(held);
    retired_.Add(held.ring_qp, std::exchange(held.ring, {}));
    RING_RETURN_IF_ERROR(store.Seal(epoch, Epoch()).status());
    if (role != held.role) {
      store.Reset(epoch);
      RetireSealed(held);
      StartRole(held, role);
      for (const protocol::MemgestDescriptor& descriptor : view_.memgests)
        AddMemgest(held, descriptor);
    }
  } else if (store.promised() != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("not sealed for epoch=", hello.epoch, " promised=", store.promised().value()));
  }
  if (!joins) held.join = HeldShard::Join::kNo;
  held.leaves = false;
  held.attempt = hello.attempt;
  return absl::OkStatus();
}

bool MemberPort::AnyParityHolds(const HeldShard& shard, Role role) const {
  return std::any_of(parities_.begin(), parities_.end(), [&](const auto& parity) {
    return parity.first.group == shard.group && parity.first.role == role &&
           parity.second->Holds(shard.shard);
  });
}

// Whether this member has all values of a replicated memgest, and the coordinator, which took the
// shard over, has not: it fetches them from here. Another that has them, too, is no excuse: it may
// be asked to drop them just now, and knows as little of this one.
bool MemberPort::HasValuesToFetch(const HeldShard& held,
                                  const cluster::NormalRecord& normal) const {
  const Role own = held.role;
  const Role coordinator(held.shard.value());
  return std::any_of(
      normal.memgests.begin(), normal.memgests.end(), [&](const cluster::MemgestNormal& set) {
        const protocol::MemgestDescriptor* const memgest = view_.FindMemgest(set.id);
        return memgest != nullptr && memgest->state != protocol::MemgestState::kDeleted &&
               memgest->scheme == protocol::Scheme::kReplicated &&
               memgest->FailuresTolerated() > 0 && (set.complete >> own.value() & 1) != 0 &&
               (set.complete >> coordinator.value() & 1) == 0;
      });
}

// It has all metadata, by a ring of this epoch.
bool MemberPort::LearnsIn(const HeldShard& held, Epoch epoch) {
  const memgest::LogReader* const reader = held.store->reader();
  if (Mutant("S6-learner")) return held.join == HeldShard::Join::kLearner;
  return held.join == HeldShard::Join::kLearner && reader != nullptr && reader->epoch() == epoch;
}

// A coordinator that asks a learner of its epoch to join again named it in no record, nor will it:
// else it would begin another epoch. Two such shards of one parity would wait for each other.
void MemberPort::LearnAnew(HeldShard& held, const protocol::LogHello& hello) {
  if (!LearnsIn(held, Epoch(hello.epoch)) || hello.attempt <= held.attempt || Mutant("S6-anew"))
    return;
  EndRing(held);
  held.join = HeldShard::Join::kAwaitsSnapshot;
}

// Before parities are dropped, with all that their other shards have here. What a shard's Normal
// record counts on stays until a later one does without it: while it says so a further loss must
// cost nothing (I2), and nobody knows of what went. So the member leaves the shard: its ring ends,
// which makes the coordinator begin an epoch, and in the seal it says that it leaves. It stays as
// long as it may be needed: in a shard that changes its epoch, as what was told in a seal may be
// fetched or gone on with; if nobody coordinates it just now, or did not seal it yet (E7); and
// while the coordinator has to fetch values. What is coded is not waited for: its rows may need the
// joining shard, too. A shard that was left joins again only with the parities dropped, or it would
// be counted on before the one that it was left for comes. Gives whether the parities go.
absl::StatusOr<bool> MemberPort::LeaveShardsOfParities(HeldShard& joining, Role role) {
  const bool holds = AnyParityHolds(joining, role);
  if (!holds && !joining.leaves) return false;
  std::vector<HeldShard*> counted;
  for (HeldShard& other : held_shards_) {
    if (!SharesParities(joining, role, other)) continue;
    const cluster::NormalRecord& normal =
        view_.groups[other.group.value()].shards[other.shard.value()].normal;
    const bool sealed = other.store->promised() > normal.epoch;
    // A learner with all metadata may be named by a record that is on its way here.
    const bool counts = !HasNothing(other) && normal.epoch != Epoch() &&
                        (IsNamed(other, normal) || LearnsIn(other, normal.epoch));
    const bool needed =
        counts && (!view_.IsNormal(other.group, other.shard) || HasValuesToFetch(other, normal));
    if (counts) counted.push_back(&other);
    if (!sealed && !needed) continue;
    if (!holds) {  // it left for another one, which has to wait again
      joining.leaves = false;
      return false;
    }
    return absl::UnavailableError(
        absl::StrCat("shard=", other.shard.value(), " of the same parities ",
                     sealed ? "changes its epoch" : "needs what is here", "; retry"));
  }
  if (counted.empty() || Mutant("S6-leave")) return true;
  for (HeldShard* const other : counted) {
    if (!std::exchange(other->leaves, true)) EndRing(*other);
  }
  return absl::UnavailableError(absl::StrCat("shard=", counted.front()->shard.value(),
                                             " of the same parities counts on it; retry"));
}

// S6: a parity is one sum over the shards of its group. What the joining one left in it cannot be
// taken out, so all of it goes, and the others join again as well.
void MemberPort::DropParities(const HeldShard& joining) {
  for (HeldShard& other : held_shards_) {
    if (!SharesParities(joining, joining.role, other) || other.store->promised() == Epoch())
      continue;
    RING_LOG(WARNING) << "joins again with its group=" << other.group.value()
                      << " shard=" << other.shard.value() << ", as shard=" << joining.shard.value()
                      << " does";
    EndRing(other);
    retired_.Add(other.ring_qp, std::exchange(other.ring, {}));
    other.store->Reset(other.store->promised());
    RetireSealed(other);
    other.join = HeldShard::Join::kAwaitsSnapshot;
    other.failed = other.leaves = false;
  }
  absl::erase_if(parities_, [&joining](const auto& parity) {
    return parity.first.group == joining.group && parity.first.role == joining.role;
  });
  for (HeldShard& other : held_shards_) {
    if (!SharesParities(joining, joining.role, other)) continue;
    if (other.store->promised() != Epoch() || Mutant("S6-first")) {
      AddMemgestsOfJoiner(other);
      continue;
    }
    // Nobody was here for it yet. If it was never Normal, no snapshot will say where it begins: its
    // first coordinator goes on with a member that has nothing as with one that has all.
    for (const protocol::MemgestDescriptor& descriptor : view_.memgests)
      AddMemgest(other, descriptor);
  }
}

// Its parities cover nothing of the shard before a snapshot says from where on (S6).
void MemberPort::AddMemgestsOfJoiner(HeldShard& held) {
  for (const protocol::MemgestDescriptor& descriptor : view_.memgests) {
    AddMemgest(held, descriptor);
    const auto parity = parities_.find({held.group, held.role, descriptor.id});
    if (parity != parities_.end()) parity->second->Await(held.shard);
  }
}

// Of a parity that is made anew, shards that others have had redundancy for so far.
void MemberPort::AwaitShards(GroupId group, MemgestId memgest, Role role,
                             memgest::ParityStore* parity) const {
  for (int i = 0; i < view_.s; ++i) {
    const ShardId shard(static_cast<std::uint16_t>(i));
    const cluster::NormalRecord& normal = view_.groups[group.value()].shards[shard.value()].normal;
    const cluster::MemgestNormal* const set = normal.Find(memgest);
    if (set == nullptr) continue;  // never normal, or younger than the record: it begins empty
    const bool mine =
        normal.holders[role.value()] == cluster::Holder{options_.node, options_.incarnation};
    if (!mine || !Has(set->active, role)) parity->Await(shard);
  }
}

// Who counts for one memgest has the logs of all: a parity is named later (S6).
bool MemberPort::IsNamed(const HeldShard& held, const cluster::NormalRecord& normal) const {
  const std::size_t role = held.role.value();
  if (!(normal.holders[role] == cluster::Holder{options_.node, options_.incarnation})) return false;
  bool member_of_any = false;
  for (const protocol::MemgestDescriptor& memgest : view_.memgests) {
    const std::vector<Role> members = memgest.MemberRoles(held.shard, view_.s, view_.d);
    if (std::find(members.begin(), members.end(), held.role) == members.end()) continue;
    const cluster::MemgestNormal* const named = normal.Find(memgest.id);
    if (named == nullptr) continue;
    if (Has(named->active, role)) return true;
    member_of_any = true;
  }
  return !member_of_any;
}

// The record says that what was re-appended, and what the sealed ring holds, is committed.
void MemberPort::AdoptNormals() {
  for (HeldShard& held : held_shards_) AdoptNormal(held);
}

// A learner folds what is committed without it.
void MemberPort::AdoptNormal(HeldShard& held) {
  const cluster::NormalRecord& normal =
      view_.groups[held.group.value()].shards[held.shard.value()].normal;
  if (normal.epoch == Epoch() || normal.epoch != held.store->promised()) return;
  if (held.join == HeldShard::Join::kAwaitsSnapshot) return;
  // Who joined in an earlier epoch is a member like any other by now (step 7).
  const bool learns = Mutant("step7-learner") ? held.join == HeldShard::Join::kLearner
                                              : LearnsIn(held, normal.epoch);
  if (!learns && !IsNamed(held, normal)) return;
  const absl::Status adopted = held.store->Adopt(normal.epoch);
  if (!adopted.ok()) {
    RING_LOG(ERROR) << "cannot go on group=" << held.group.value()
                    << " shard=" << held.shard.value() << ": " << adopted.ToString();
    held.failed = true;
    EndRing(held);
  }
  if (held.store->sealed() == nullptr) RetireSealed(held);
}

absl::Status MemberPort::Install(const recovery::InstallRequest& request) {
  HeldShard* const held = Find(request.group, request.shard);
  if (held == nullptr || held->qp == nullptr || held->failed ||
      held->store->promised() != request.epoch || held->attempt != request.attempt ||
      held->join == HeldShard::Join::kNo) {
    return absl::AbortedError(absl::StrCat(
        "node ", options_.node.value(), " does not join group=", request.group.value(),
        " shard=", request.shard.value(), " in epoch=", request.epoch.value(), " by this"));
  }
  memgest::MemberShard& store = *held->store;
  RING_RETURN_IF_ERROR(store.Install(request.piece));
  if (store.installing() || held->join == HeldShard::Join::kLearner) return absl::OkStatus();
  held->join = HeldShard::Join::kLearner;
  AdoptNormal(*held);
  return absl::OkStatus();
}

}  // namespace ring::node
