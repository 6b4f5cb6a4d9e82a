#include "consensus/replica.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/consensus/replica_net.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Takes an outcome and counts how often it came.
template <class T>
struct Outcome {
  std::optional<T> value;
  int count = 0;
  auto Take() {
    return [this](T result) {
      value = std::move(result);
      ++count;
    };
  }
};
using Proposed = Outcome<absl::StatusOr<std::string>>;
using Done = Outcome<absl::Status>;

TEST(Replica, AProposalIsAnsweredWithItsResultOnceItIsApplied) {
  ReplicaNet net(3);
  net.Elect(1);
  Proposed a;
  Proposed b;
  net.replica(1).Propose("a", a.Take());
  net.replica(1).Propose("refuse", b.Take());
  EXPECT_EQ(a.count, 0);
  net.Settle();
  EXPECT_THAT(*a.value, IsOkAndHolds("1"));
  EXPECT_THAT(*b.value, StatusIs(absl::StatusCode::kInvalidArgument, "refused"));
  EXPECT_EQ(a.count + b.count, 2);
  net.TickAll(2);
  for (const std::uint64_t id : {1, 2, 3}) {
    EXPECT_THAT(net.server(id).machine.items, ElementsAre("a"));
  }
}

TEST(Replica, ProposalsOfOneTurnArePersistedTogether) {
  ReplicaNet net(3);
  net.Elect(1);
  const std::uint64_t before = net.replica(1).persist_calls();
  for (int i = 0; i < 100; ++i) net.replica(1).Propose("x", [](auto) {});
  net.Settle();
  EXPECT_EQ(net.server(1).machine.items.size(), 100u);
  EXPECT_EQ(net.replica(1).persist_calls(), before + 1);
}

TEST(Replica, AFollowerSaysWhoLeads) {
  ReplicaNet net(3);
  Proposed early;
  net.replica(2).Propose("a", early.Take());
  net.Settle();
  EXPECT_THAT(*early.value, StatusIs(absl::StatusCode::kUnavailable));
  net.Elect(1);
  Proposed a;
  net.replica(2).Propose("a", a.Take());
  net.Settle();
  EXPECT_THAT(*a.value, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("leader=1")));
  EXPECT_EQ(net.replica(2).leader(), S(1));
  EXPECT_TRUE(net.server(2).machine.items.empty());
}

TEST(Replica, P108AProposalThatLeadershipLeftBehindIsUnknown) {
  ReplicaNet net(3);
  net.Elect(1);
  net.Isolate(1);
  Proposed a;
  net.replica(1).Propose("a", a.Take());
  net.Settle();
  EXPECT_EQ(a.count, 0);
  net.TickAll(40);
  EXPECT_THAT(*a.value, StatusIs(absl::StatusCode::kUnknown));
  net.Heal();
  net.TickAll(40);
  EXPECT_EQ(a.count, 1);
  // It was replaced: nobody has it.
  for (const std::uint64_t id : {1, 2, 3}) EXPECT_TRUE(net.server(id).machine.items.empty());
  EXPECT_EQ(net.server(1).truncations_observed, 1);
}

TEST(Replica, AReadIsDoneOnceEverythingBeforeItIsApplied) {
  ReplicaNet net(3);
  net.Elect(1);
  net.replica(1).Propose("a", [](auto) {});
  for (const std::uint64_t id : {1, 2, 3}) {
    net.Settle();
    Done read;
    std::size_t items = 0;
    net.replica(id).Read([&](absl::Status status) {
      items = net.server(id).machine.items.size();
      read.Take()(std::move(status));
    });
    net.Settle();
    net.TickAll(3);
    EXPECT_OK(*read.value);
    EXPECT_EQ(items, 1u) << "server " << id;
  }
}

TEST(Replica, AReadWithoutALeaderOrAQuorumFails) {
  ReplicaNet net(3);
  Done none;
  net.replica(1).Read(none.Take());
  net.Settle();
  EXPECT_THAT(*none.value, StatusIs(absl::StatusCode::kUnavailable));
  net.Elect(1);
  net.Isolate(1);
  Done alone;
  net.replica(1).Read(alone.Take());
  net.Settle();
  EXPECT_EQ(alone.count, 0);
  net.TickAll(20);
  EXPECT_THAT(*alone.value, StatusIs(absl::StatusCode::kUnavailable));
}

TEST(Replica, CallbacksMayProposeAndRead) {
  ReplicaNet net(1);
  net.Elect(1);
  Proposed second;
  Done read;
  net.replica(1).Propose("a", [&](auto) {
    net.replica(1).Propose("b", second.Take());
    net.replica(1).Read(read.Take());
  });
  net.replica(1).Turn();
  EXPECT_THAT(*second.value, IsOkAndHolds("2"));
  EXPECT_OK(*read.value);
}

TEST(Replica, ARestartAppliesTheSameAgain) {
  ReplicaNet net(3, {.raft = {}, .snapshot_entries = 10});
  net.Elect(1);
  for (int i = 0; i < 25; ++i) net.replica(1).Propose(std::to_string(i), [](auto) {});
  net.Settle();
  const std::vector<std::string> items = net.server(1).machine.items;
  for (const std::uint64_t id : {1, 2, 3}) {
    net.Stop(id);
    net.Start(id);
    // The snapshot is there at once; what is behind it, once it is known to be committed.
    EXPECT_EQ(net.server(id).machine.restores, 1);
  }
  net.Elect(2);
  net.TickAll(3);
  for (const std::uint64_t id : {1, 2, 3}) EXPECT_EQ(net.server(id).machine.items, items);
}

TEST(Replica, AServerThatLagsFarGetsTheSnapshotInChunks) {
  ReplicaOptions options;
  options.snapshot_entries = 20;
  options.raft.trailing_entries = 5;
  options.raft.message_size_max = 1024;
  ReplicaNet net(3, options);
  net.Elect(1);
  net.Isolate(3);
  for (int i = 0; i < 100; ++i) net.replica(1).Propose(std::string(90, 'x'), [](auto) {});
  net.Settle();
  net.Heal();
  net.TickAll(10);
  EXPECT_EQ(net.server(3).machine.restores, 1);
  EXPECT_EQ(net.server(3).machine.items, net.server(1).machine.items);
  EXPECT_EQ(net.server(3).snapshots_observed, 2);
  EXPECT_EQ(net.replica(3).applied_index(), net.replica(1).applied_index());
}

TEST(Replica, MembersComeAsLearnersAndGo) {
  ReplicaNet net(1);
  net.Elect(1);
  net.Start(2);
  for (const Configuration& next :
       {Voters({1}, {2}), Voters({1, 2}), Voters({1}, {2}), Voters({1})}) {
    Done changed;
    net.replica(1).ChangeConfiguration(next, changed.Take());
    net.Settle();
    EXPECT_OK(*changed.value);
    EXPECT_EQ(net.server(1).configuration, next);
    EXPECT_TRUE(!next.Contains(S(2)) || net.server(2).configuration == next);
  }
}

TEST(Replica, LeadershipIsAnnounced) {
  ReplicaNet net(3);
  net.Elect(1);
  EXPECT_EQ(net.server(1).roles.back(), Role::kLeader);
  EXPECT_EQ(net.server(2).roles.back(), Role::kFollower);
  net.Isolate(1);
  net.TickAll(40);
  EXPECT_NE(net.server(1).roles.back(), Role::kLeader);
}

TEST(Replica, L1TheObserverIsToldBeforeTheAcknowledgementLeaves) {
  ReplicaNet net(3);
  net.Elect(1);
  net.server(2).said_after_durable.clear();
  net.replica(1).Propose("a", [](auto) {});
  net.Settle();
  ASSERT_FALSE(net.server(2).said_after_durable.empty());
  EXPECT_EQ(net.server(2).said_after_durable[0], 2u);  // its first word is the acknowledgement
}

TEST(Replica, P107AFailedPersistIsToldAndTheObserverIsNot) {
  ReplicaNet net(3);
  net.Elect(1);
  net.server(1).storage.FailNext(1);
  Proposed a;
  net.replica(1).Propose("a", a.Take());
  net.Settle();
  EXPECT_FALSE(net.replica(1).persist_status().ok());
  EXPECT_FALSE(net.replica(1).is_leader());
  EXPECT_THAT(*a.value, StatusIs(absl::StatusCode::kUnknown));
  EXPECT_EQ(net.server(1).observed_last, 1u);
  net.TickAll(1);
  EXPECT_OK(net.replica(1).persist_status());
  EXPECT_EQ(net.server(1).observed_last, 2u);
}

TEST(Replica, BytesThatAreNoMessageAreCounted) {
  ReplicaNet net(1);
  net.replica(1).Receive(0, "nonsense");
  net.replica(1).Receive(0, "");
  EXPECT_EQ(net.replica(1).bad_messages(), 2u);
}

TEST(Replica, AMessageThatClaimsToBeOfAnotherNodesServerIsCountedAndDropped) {
  ReplicaNet net(3);
  Message heartbeat;
  heartbeat.type = MessageType::kHeartbeat;
  heartbeat.from = S(2);
  heartbeat.to = S(1);
  heartbeat.term = 9;
  const std::string bytes = EncodeMessage(heartbeat);
  net.replica(1).Receive(NodeOf(S(2)) + 1, bytes);
  net.Settle();
  EXPECT_EQ(net.replica(1).bad_messages(), 1u);
  EXPECT_EQ(net.replica(1).term(), 0u);
  net.replica(1).Receive(NodeOf(S(2)), bytes);
  net.Settle();
  EXPECT_EQ(net.replica(1).bad_messages(), 1u);
  EXPECT_EQ(net.replica(1).term(), 9u);
}

TEST(Replica, ALeaderKnowsHowLongEachServerIsSilent) {
  ReplicaNet net(3);
  net.Elect(1);
  net.Isolate(3);
  net.TickAll(7);
  const std::vector<PeerStatus> peers = net.replica(1).Peers();
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_LE(peers[0].silent_ticks, 2u);
  EXPECT_EQ(peers[1].id, S(3));
  EXPECT_EQ(peers[1].silent_ticks, 7u);
  EXPECT_EQ(peers[0].match, 1u);
  EXPECT_TRUE(net.replica(2).Peers().empty());
}

// A storage that goes on with a write after Begin, until it is told to end it.
class HeldStorage final : public Storage {
 public:
  absl::StatusOr<InitialState> Load() override { return content_.Load(); }
  absl::Status Persist(const PersistRequest& request) override { return content_.Persist(request); }
  void Begin(std::shared_ptr<const PersistRequest> request) override {
    request_ = std::move(request);
  }
  bool HasOutcome() const override { return outcome_.has_value(); }
  std::optional<absl::Status> TakeOutcome() override {
    return std::exchange(outcome_, std::nullopt);
  }
  bool under_way() const { return request_ != nullptr; }
  void End() { outcome_ = Persist(*std::exchange(request_, nullptr)); }

 private:
  MemoryStorage content_;
  std::shared_ptr<const PersistRequest> request_;
  std::optional<absl::Status> outcome_;
};

// A storage without room for snapshots, but for the first one.
class SmallStorage final : public Storage {
 public:
  absl::StatusOr<InitialState> Load() override { return content_.Load(); }
  absl::Status Persist(const PersistRequest& request) override {
    if (request.snapshot == nullptr || request.snapshot->index == 0 || has_room)
      return content_.Persist(request);
    ++refused;
    return absl::ResourceExhaustedError("no room for a snapshot");
  }
  LogIndex snapshot_index() const { return content_.state().snapshot->index; }

  bool has_room = false;
  LogIndex refused = 0;

 private:
  MemoryStorage content_;
};

class NullListener final : public ReplicaListener {
 public:
  void Send(ServerId, std::string) override {}
  void OnLeadership(Role, ServerId, Term) override {}
  void OnConfiguration(const Configuration&) override {}
};

// The only voter, on such a storage.
class ReplicaAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    Configuration alone;
    alone.AddVoter(S(1));
    ASSERT_OK(Bootstrap(alone, storage));
    options.raft.id = S(1);
    ASSERT_OK_AND_ASSIGN(replica, Replica::Start(options, storage, machine, listener, nullptr));
  }

  HeldStorage storage;
  ReplicaOptions options;
  ListMachine machine;
  NullListener listener;
  std::unique_ptr<Replica> replica;
};

TEST_F(ReplicaAlone, P101WhileAWriteIsUnderWayTurnsGoOnAndNothingCountsOnIt) {
  ASSERT_OK(replica->Campaign());
  replica->Turn();
  EXPECT_TRUE(storage.under_way());
  EXPECT_FALSE(replica->is_leader()) << "its own vote is not durable yet";
  storage.End();
  EXPECT_TRUE(replica->HasPersisted());
  replica->Turn();
  EXPECT_TRUE(replica->is_leader());
  EXPECT_FALSE(replica->is_ready_leader());
  Proposed done;
  replica->Propose("a", done.Take());
  replica->Turn();
  storage.End();  // the no-op of its term
  replica->Turn();
  EXPECT_TRUE(replica->is_ready_leader());
  EXPECT_EQ(done.count, 0);
  EXPECT_TRUE(storage.under_way());
  replica->Turn();
  storage.End();
  replica->Turn();
  EXPECT_THAT(*done.value, IsOkAndHolds("1"));
}

TEST_F(ReplicaAlone, P107ALeaderWhoseWriteHangsLeadsNoMoreUntilItEnds) {
  ASSERT_OK(replica->Campaign());
  replica->Turn();
  storage.End();
  replica->Turn();
  ASSERT_TRUE(replica->is_leader());
  ASSERT_TRUE(storage.under_way());
  std::uint64_t ticks = 0;
  for (; replica->is_leader() && ticks < 1000; ++ticks) replica->Tick(0);
  EXPECT_LT(ticks, 1000u);
  EXPECT_GT(ticks, 2 * options.raft.election_ticks) << "disks that hesitate cost nobody the lead";
  EXPECT_THAT(replica->persist_status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(replica->Campaign(), StatusIs(absl::StatusCode::kFailedPrecondition));
  storage.End();
  replica->Turn();
  EXPECT_OK(replica->persist_status());
  EXPECT_OK(replica->Campaign());
}

TEST(Replica, P107ASnapshotWithoutRoomIsTriedAgainWhenTheNextIsDueAndStopsNothing) {
  SmallStorage storage;
  ASSERT_OK(Bootstrap(Voters({1}), storage));
  ReplicaOptions options;
  options.raft.id = S(1);
  options.snapshot_entries = 10;
  ListMachine machine;
  NullListener listener;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Replica> replica,
                       Replica::Start(options, storage, machine, listener, nullptr));
  const auto append_until = [&](std::size_t count) {
    for (int turn = 0; machine.items.size() < count && turn < 1000; ++turn) {
      replica->Tick(0);
      replica->Campaign().IgnoreError();  // refused in the turn of a failure
      replica->Turn();
      replica->Propose("x", [](auto) {});
      replica->Turn();
    }
    EXPECT_GE(machine.items.size(), count);
  };
  append_until(100);
  EXPECT_GE(storage.refused, 5u);
  EXPECT_LE(storage.refused, replica->applied_index() / options.snapshot_entries);
  EXPECT_EQ(storage.snapshot_index(), 0u);
  storage.has_room = true;
  append_until(120);
  EXPECT_GT(storage.snapshot_index(), 100u);
}

}  // namespace
}  // namespace ring::consensus
