// tests/recovery/epoch_change_fixture.h — one shard's way into a new epoch, step by step.
//
// What:      EpochChangeTest: an EpochChange whose actions are recorded; the test answers them.
//            TakeOver() and LivingOn(): plans.
// Threads:   one.
// Errors:    none of its own: actions answer as the test told them.
#ifndef RING_TESTS_RECOVERY_EPOCH_CHANGE_FIXTURE_H_
#define RING_TESTS_RECOVERY_EPOCH_CHANGE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ring/recovery/epoch_change.h"
#include "tests/recovery/shard_fixture.h"

namespace ring::recovery {

// Records what was asked for; the test answers.
class RecordedActions final : public EpochActions {
 public:
  void Seal(Role role, const cluster::Holder&) override { sealed.push_back(role.value()); }
  void Fetch(const std::vector<AdoptedLog>& logs) override {
    ++fetches;
    fetched = logs;
  }
  void Connect(Role role, const cluster::Holder&, bool empty) override {
    connected.push_back(role.value());
    if (empty) joining.insert(role.value());
  }
  void Disconnect(Role role) override { disconnected.push_back(role.value()); }
  void Begin(const std::vector<AdoptedLog>&) override { ++begins; }
  absl::Status Reappend(Role role, const std::vector<LogEnd>&) override {
    if (out_of_range.contains(role.value())) return absl::OutOfRangeError("gone");
    if (!reappend.ok()) return reappend;
    reappended.push_back(role.value());
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Reappended(Role role) override {
    if (broken.contains(role.value())) return absl::UnavailableError("link is in error");
    return !unacked.contains(role.value());
  }
  void Renew(Role role) override { renewed.insert(role.value()); }
  void GiveBack(Role role) override { given_back.insert(role.value()); }
  void Propose(const std::vector<cluster::MemgestNormal>& sets) override {
    proposals.push_back(sets);
  }
  void Serve(const std::vector<cluster::MemgestNormal>& sets) override { served.push_back(sets); }
  void Join(Role role, const cluster::Holder&) override { joins.push_back(role.value()); }

  std::vector<int> sealed, connected, disconnected, reappended, joins;
  std::set<int> out_of_range, unacked, broken, joining, renewed, given_back;
  absl::Status reappend;
  std::vector<AdoptedLog> fetched;
  int fetches = 0, begins = 0;
  std::vector<std::vector<cluster::MemgestNormal>> proposals, served;
};

// Shard 0 of a group whose roles 0..4 were on nodes 0..4, all ACTIVE; node 0 gave way to node 5.
inline EpochPlan TakeOver() {
  EpochPlan plan;
  plan.epoch = Epoch(2);
  plan.s = kS;
  plan.d = kD;
  plan.memgests = {Rep(kRep3, 3), Srs(kSrs32, 3, 2)};
  cluster::NormalRecord last;
  last.epoch = Epoch(1);
  last.holders = {At(0), At(1), At(2), At(3), At(4)};
  last.memgests = {Set(kRep3, 0b11001, 0b11001), Set(kSrs32, 0b11001, 0b11001)};
  plan.holders = last.holders;
  plan.holders[0] = At(5);
  plan.last = last;
  plan.reachable = 0b11110;
  return plan;
}

// The same, of a cluster that has one replicated memgest.
inline EpochPlan TakeOverRep3(bool accepts_all = false) {
  EpochPlan plan = TakeOver();
  plan.accepts_all = accepts_all;
  plan.memgests = {Rep(kRep3, 3)};
  return plan;
}

inline std::vector<LogEnd> Ends(std::uint64_t rep3, std::uint64_t srs32) {
  return {{kRep3, 0, rep3}, {kSrs32, 0, srs32}};
}

// The coordinator of L goes on, with nine entries of each log.
inline EpochPlan LivingOn() {
  EpochPlan plan = TakeOver();
  plan.living = true;
  plan.own_logs = Ends(9, 9);
  plan.holders = plan.last->holders;
  return plan;
}

class EpochChangeTest : public ::testing::Test {
 protected:
  void Start(EpochPlan plan) {
    change = std::make_unique<EpochChange>(std::move(plan), &actions, EpochChange::Timeouts{});
    change->Step(now);
  }
  void Pass(std::uint64_t ns) { change->Step(now += ns); }
  void SealAll(std::uint64_t last) {
    for (const int role : std::vector<int>(actions.sealed))
      change->OnSealed(Role(static_cast<std::uint16_t>(role)), Ends(last, last));
  }
  void ConnectAll() {
    for (const int role : std::vector<int>(actions.connected))
      change->OnConnected(Role(static_cast<std::uint16_t>(role)));
  }

  RecordedActions actions;
  std::unique_ptr<EpochChange> change;
  std::uint64_t now = 1'000'000;
};

}  // namespace ring::recovery

#endif  // RING_TESTS_RECOVERY_EPOCH_CHANGE_FIXTURE_H_
