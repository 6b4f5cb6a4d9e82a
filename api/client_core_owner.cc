// The owner of a shard: who is asked when it falls silent, and what follows when it is another.
#include <algorithm>
#include <bit>
#include <utility>

#include "api/client_core.h"
#include "ring/base/mutant.h"

namespace ring::api {

void ClientCore::SeekOwner(const Operation& op) {
  if (op.internal()) return;
  owners_.Seek(op.window, op.slot);
}

void ClientCore::StepOwnerSearch() {
  if (!owners_.active()) {
    seed_wanted_ = false;
    return;
  }
  if (owners_.asking()) {
    const bool answers_to_come =
        std::any_of(waiting_.begin(), waiting_.end(), [this](std::uint16_t index) {
          return ops_[index].sink == Sink::kOwner && ops_[index].state == OpState::kWaiting;
        });
    if (answers_to_come && !owners_.Over(now_ns_)) return;
    // X3: of two silent rounds the second says that this view knows nobody who serves the shard.
    if (owners_.EndSilent()) seed_wanted_ = true;
  }
  if (!owners_.Due(now_ns_)) return;
  const OwnerSearch::Round round = owners_.Begin(now_ns_);
  const auto waits = [&](std::uint16_t index) {
    const Operation& op = ops_[index];
    return (op.state == OpState::kWaiting || op.state == OpState::kQueued) && !op.internal() &&
           op.window == round.shard;
  };
  if (std::any_of(waiting_.begin(), waiting_.end(), waits) ||
      std::any_of(queue_.begin(), queue_.end(), waits)) {
    AskWhoOwns(round);
  } else {
    owners_.Found(round.shard);
  }
}

// All nodes of the view, spares too: each that can be reached, and owes no answer to such a
// question.
void ClientCore::AskWhoOwns(const OwnerSearch::Round& round) {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection == nullptr) continue;
    connection->Connect(now_ns_);
    if (!connection->serves()) continue;
    const bool owes = std::any_of(waiting_.begin(), waiting_.end(), [&](std::uint16_t index) {
      return ops_[index].sink == Sink::kOwner && ops_[index].connection == connection.get();
    });
    if (owes) continue;
    if (free_.size() < 2) return;  // one is the view's
    Operation* op = TakeInternal(protocol::Operation::kWhoOwns, Sink::kOwner);
    op->timeout_ns = OwnerSearch::kRoundNs;
    op->slot = round.slot;
    op->window = static_cast<std::uint16_t>(round.shard);
    protocol::OwnerQuestion question;
    question.view_epoch = view_.epoch;
    question.slot = static_cast<std::uint16_t>(round.slot);
    op->header()->if_version = std::bit_cast<std::uint64_t>(question);
    if (!Place(op, connection.get())) Finish(op, OpOutcome::kResourceExhausted);
  }
}

void ClientCore::OnOwnerAnswer(Operation* op, OpOutcome outcome) {
  if (outcome == OpOutcome::kOk && !Mutant("X3-owner"))
    TakeOwner(op->window, op->result.owner, op->result.view_epoch);
  GiveBack(op);
}

// The node says that it owns the shard, or another one says so of it. Gives whether its requests
// go there now: not if that is older than what is known, or the node is not in this view.
bool ClientCore::TakeOwner(std::size_t shard, NodeId node, std::uint32_t epoch) {
  Connection* const connection = ConnectionOf(node);
  if (connection == nullptr || epoch < owner_epochs_[shard]) return false;
  owners_.Found(shard);
  owner_epochs_[shard] = epoch;
  if (std::exchange(coordinators_[shard], connection) != connection) owners_moved_ = true;
  pump_needed_ = true;
  return true;
}

// A shard has another owner: what was asked of the former one will not be answered there. Its
// connection ends, so that nothing of it lands here any more, and its requests go to the owner.
void ClientCore::LeaveFormerOwners() {
  for (std::size_t i = 0; i < waiting_.size();) {
    const Operation& op = ops_[waiting_[i]];
    const bool moved =
        op.state == OpState::kWaiting && !op.internal() && Route(op.slot) != op.connection;
    if (moved) {
      ResetConnection(op.connection, /*graceful=*/true);
      i = 0;
    } else {
      ++i;
    }
  }
}

}  // namespace ring::api
