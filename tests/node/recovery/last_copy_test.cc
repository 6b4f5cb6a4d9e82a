// Who has the last copy of a shard's values keeps it (E7, E8), whatever becomes of other shards:
// whole nodes in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ring/node/scrub/scrub_rows.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::StatusIs;

class LastCopyTest : public ::testing::Test {
 protected:
  void Start(const std::function<void(NodeConfig*)>& change = {}, std::size_t spare_count = 0) {
    ASSERT_OK(cluster_.Start(spare_count, change));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }
  // At most so many keys of one memgest in the shard.
  absl::Status LoadUntilRefused(const std::string& memgest, int count, ShardId shard = ShardId(0)) {
    for (int i = 0; count > 0; ++i) {
      const std::string key = absl::StrCat(memgest, "/", i);
      const cluster::Place place = cluster_.PlaceOf(key);
      if (place.group != group_ || place.shard != shard) continue;
      const std::string value(static_cast<std::size_t>(1 + i * 997 % 9000),
                              static_cast<char>('a' + i % 26));
      RING_RETURN_IF_ERROR(client_->Put(key, value, {.memgest = memgest}).status());
      values_[key] = value;
      --count;
    }
    return absl::OkStatus();
  }
  void Load(const std::string& memgest, int count, ShardId shard = ShardId(0)) {
    ASSERT_OK(LoadUntilRefused(memgest, count, shard));
  }
  void ExpectEverything() {
    for (const auto& [key, value] : values_) {
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_EQ(got->value, value) << key;
    }
  }
  // Within Run. Whether another shard of the group counts the member again.
  bool Joined() {
    const cluster::NormalRecord& other = cluster_.view().groups[0].shards[1].normal;
    return (other.Find(cluster_.view().FindMemgest("SRS21")->id)->active >> kMember.value() & 1) !=
           0;
  }
  // Values of another shard of the group, which the member has folded into its parity: it cannot
  // join that one anew without dropping all of it.
  void LoadParity() {
    const ShardId other(1);
    Load("SRS32", 8, other);
    ASSERT_OK(cluster_.WaitUntilNothing([this, other]() -> std::string {
      const MemgestId id = cluster_.view().FindMemgest("SRS32")->id;
      Node* const owner = cluster_.node(cluster_.view().Coordinator(group_, other));
      const memgest::Memgest& memgest =
          *owner->FindShard(group_, other)->coordinator()->FindMemgest(id);
      const memgest::MemberShard& store =
          *cluster_.node(kMember)->members().Find(group_, other)->store;
      return store.applied(id) + 1 >= memgest.next_index() ? "" : "it has not folded it";
    }));
  }
  // In the next epoch these members have to join another shard of the group from nothing.
  void BeginAnew(std::initializer_list<NodeId> members) {
    cluster::NewEpoch command;
    command.group = group_;
    cluster_.Run([&] {
      for (const NodeId member : members)
        cluster_.node(member)->members().Find(group_, ShardId(1))->failed = true;
      command.expected = cluster_.view().groups[0].epoch;
    });
    ASSERT_OK(cluster_.Apply(command));
  }
  // The member has to join another shard anew, and this shard's record, which is the last one for
  // now, counts on it.
  void StartWithAJoinThatWaits() {
    Start();
    Load("REP2", 8);
    LoadParity();
    cluster_.LoseEpochs(true);
    BeginAnew({kMember});
    ASSERT_OK(cluster_.WaitServing());
  }
  // The member has a snapshot of each shard.
  void WaitLearning() {
    ASSERT_OK(cluster_.WaitUntilNothing([this]() -> std::string {
      for (std::uint16_t i = 0; i < cluster_.view().s; ++i) {
        const auto& held = *cluster_.node(kMember)->members().Find(group_, ShardId(i));
        if (held.join != MemberPort::HeldShard::Join::kLearner || held.qp == nullptr)
          return absl::StrCat("it does not learn of shard ", i);
      }
      return "";
    }));
  }
  // Its parity has bytes of each shard.
  void LoadLearnedParities() {
    const int shard_count = cluster_.PresentView()->s;
    for (std::uint16_t i = 0; i < shard_count; ++i) Load("SRS32", 4, ShardId(i));
    ASSERT_OK(cluster_.WaitUntilNothing([this]() -> std::string {
      const MemgestId id = cluster_.view().FindMemgest("SRS32")->id;
      const memgest::ParityStore& parity =
          *cluster_.node(kMember)->members().FindParity(group_, id);
      for (std::uint16_t i = 0; i < cluster_.view().s; ++i) {
        if (!parity.Holds(ShardId(i))) return absl::StrCat("it has nothing of shard ", i);
      }
      return "";
    }));
  }
  // Within Run.
  bool HoldsParityOf(ShardId shard) {
    const MemgestId id = cluster_.view().FindMemgest("SRS32")->id;
    const memgest::ParityStore* const parity =
        cluster_.node(kMember)->members().FindParity(group_, id);
    return parity != nullptr && parity->Holds(shard);
  }
  // The member and the shard's coordinator are gone at once; the member was only silent.
  void LoseBoth() {
    FailBoth();
    ASSERT_OK(cluster_.WaitServing());  // the others of the group, without it
    cluster_.Run([&] { ASSERT_FALSE(Joined()); });
  }

  void FailBoth() {
    cluster_.Kill(kCoordinator);
    ASSERT_OK(cluster_.Fail(kMember));
    ASSERT_OK(cluster_.Fail(kCoordinator));
  }

  absl::Status WaitFor(recovery::EpochPhase phase, NodeId coordinator = kCoordinator) {
    return cluster_.WaitUntilNothing([this, phase, coordinator]() -> std::string {
      Node* const node = cluster_.node(coordinator);
      CoordinatedShard* const shard = node->FindShard(group_, shard_);
      if (shard == nullptr || shard->change() == nullptr) return "it is not begun";
      return shard->change()->phase() == phase ? "" : absl::StrCat("not so: ", shard->Missing());
    });
  }

  static constexpr NodeId kCoordinator{0};
  static constexpr NodeId kMember{3};  // has copies of REP2, and parities of all shards
  const GroupId group_{0};
  const ShardId shard_{0};
  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
};

// A parity that has to begin again for one shard is not dropped as long as another shard's last
// Normal record names it, though nobody coordinates that one, nor asked for anything yet.
TEST_F(LastCopyTest, E7AJoinTakesNothingFromAShardThatHasNoCoordinator) {
  Start();
  Load("REP2", 8);
  LoadParity();
  LoseBoth();
  ASSERT_OK(cluster_.RegisterAgain(kMember));
  const absl::Status joined = cluster_.WaitUntilNothing(
      [this] { return Joined() ? "" : "it did not join"; }, absl::Milliseconds(300));
  EXPECT_THAT(joined, StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ASSERT_OK(cluster_.WaitUntilNothing([this] { return Joined() ? "" : "it did not join"; }));
  ExpectEverything();
}

// ... nor as long as that shard's coordinator, which took it over, has keys and no values.
TEST_F(LastCopyTest, E7AJoinTakesNoValuesThatTheCoordinatorDoesNotHaveYet) {
  Start([](NodeConfig* config) { config->recovery_rate = 256 << 10; });
  Load("REP2", 40);
  LoadParity();
  LoseBoth();
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kStopped));
  ASSERT_OK(cluster_.RegisterAgain(kMember));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ASSERT_OK(cluster_.WaitUntilNothing([this] { return Joined() ? "" : "it did not join"; }));
  ExpectEverything();
}

// A shard that serves counts on the member by its record until it has another one, and that may
// take as long as there is no quorum: it keeps what it has until then, as its coordinator may be
// lost.
TEST_F(LastCopyTest, S6AJoinTakesNothingThatARecordStillCountsOn) {
  StartWithAJoinThatWaits();
  ASSERT_OK(cluster_.WaitUntilNothing([this] {
    const auto* const held = cluster_.node(kMember)->members().Find(group_, shard_);
    return held->qp == nullptr ? "" : "nothing ends its ring";
  }));
  const absl::Status joined = cluster_.WaitUntilNothing(
      [this] { return Joined() ? "" : "it did not join"; }, absl::Milliseconds(300));
  EXPECT_THAT(joined, StatusIs(absl::StatusCode::kDeadlineExceeded));
  cluster_.Kill(kCoordinator);
  ASSERT_OK(cluster_.Fail(kCoordinator));
  cluster_.LoseEpochs(false);
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ASSERT_OK(cluster_.WaitUntilNothing([this] { return Joined() ? "" : "it did not join"; }));
  ExpectEverything();
}

// What such a parity has of a shard that it has not joined again stays as it was: a scrub that held
// its rows against blocks that change would find damage where there is none.
TEST_F(LastCopyTest, S6AScrubLeavesOutWhatTheShardDoesNotCountOn) {
  StartWithAJoinThatWaits();
  LoadUntilRefused("SRS32", 12, ShardId(1)).IgnoreError();  // refused once other logs wait
  cluster_.Run([&] {
    ASSERT_FALSE(Joined());
    ASSERT_TRUE(HoldsParityOf(ShardId(1)));
  });
  ScrubTally tally;
  std::unique_ptr<ScrubRowWalk> walk;
  const absl::Status ended = cluster_.WaitUntilNothing(
      [&]() -> std::string {
        Node* const node = cluster_.node(kMember);
        if (walk == nullptr) walk = std::make_unique<ScrubRowWalk>(node, &tally);
        walk->Step(node->control().now_ns());
        return walk->done() ? "" : "it goes on";
      },
      absl::Minutes(2));
  EXPECT_OK(ended);
  EXPECT_EQ(tally.report.mismatches, 0u) << ::testing::PrintToString(tally.report.details);
  cluster_.Run([&] {
    EXPECT_FALSE(Joined()) << "then it proved nothing";
    walk.reset();
  });
}

// ... and no longer: the coordinator goes on without it, and it joins all shards again.
TEST_F(LastCopyTest, S6WhoJoinsAllShardsAgainHasAllValuesAgain) {
  Start();
  Load("REP2", 8);
  LoadParity();
  BeginAnew({kMember});
  ASSERT_OK(cluster_.WaitUntilNothing([this]() -> std::string {
    if (!Joined()) return "it did not join";
    const cluster::NormalRecord& own = cluster_.view().groups[0].shards[0].normal;
    const RoleMask complete = own.Find(cluster_.view().FindMemgest("REP2")->id)->complete;
    return Has(complete, kMember.value()) ? "" : "it has not all values again";
  }));
  cluster_.Kill(kCoordinator);
  ASSERT_OK(cluster_.Fail(kCoordinator));
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ExpectEverything();
}

// Who learned in an epoch, and was named by no record of it, has nothing that the next one counts
// on: shards of one parity that all learned so do not wait for each other.
TEST_F(LastCopyTest, S6WhoLearnedInAnEpochThatIsOverIsNotCountedOn) {
  Start();
  Load("REP2", 8);
  LoadParity();
  cluster_.LoseFurtherNormals(true);
  BeginAnew({kMember});
  WaitLearning();
  LoadLearnedParities();
  cluster::NewEpoch command;
  command.group = group_;
  cluster_.Run([&] {
    command.expected = cluster_.view().groups[0].epoch;
    for (std::uint16_t i = 0; i < cluster_.view().s; ++i)  // as if it had begun again and again
      cluster_.node(kMember)->members().Find(group_, ShardId(i))->attempt = 60'000;
  });
  ASSERT_OK(cluster_.Apply(command));
  cluster_.LoseFurtherNormals(false);
  ASSERT_OK(cluster_.WaitUntilNothing([this] { return Joined() ? "" : "it did not join"; }));
  ExpectEverything();
}

// Spares have both roles when the member is back. In any other role what it has counts for nothing.
// (In other groups the two were all but one of a REP3's members: there a shard stays stopped.)
TEST_F(LastCopyTest, E8AMemberThatWasTakenForLostGetsItsRoleBack) {
  Start({}, /*spare_count=*/2);
  Load("REP2", 8);
  Load("SRS21", 8);
  FailBoth();
  const NodeId heir = cluster_.PresentView()->Coordinator(group_, shard_);
  ASSERT_NE(heir, kCoordinator);
  ASSERT_OK(WaitFor(recovery::EpochPhase::kStopped, heir));
  ASSERT_OK(cluster_.RegisterAgain(kMember));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing, heir));
  EXPECT_EQ(cluster_.PresentView()->groups[group_.value()].roles[3], kMember);
  ExpectEverything();
}

// ... nor do two members that both have them, each for the sake of the other.
TEST_F(LastCopyTest, E7JoinsOfAllMembersTakeNoValuesThatTheCoordinatorDoesNotHaveYet) {
  Start([](NodeConfig* config) { config->recovery_rate = 128 << 10; });
  Load("REP3", 80);
  LoadParity();
  cluster_.Kill(kCoordinator);
  ASSERT_OK(cluster_.Fail(kCoordinator));
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  BeginAnew({kMember, NodeId(4)});
  ASSERT_OK(cluster_.WaitServing());
  cluster_.Run([&] { ASSERT_FALSE(Joined()); });
  ASSERT_OK(cluster_.WaitUntilNothing([this] { return Joined() ? "" : "it did not join"; }));
  ExpectEverything();
}

// The member's connection breaks, and the epoch lasts: what a memgest does without it stays less
// than what it can be sent when the coordinator is lost, too. So it keeps what it alone has.
TEST_F(LastCopyTest, I2AMemberThatLacksEntriesOfOneLogKeepsTheValuesOfOthers) {
  Start();
  Load("REP2", 8);
  cluster_.LoseEpochs(true);
  cluster_.Run([&] { cluster_.node(kMember)->members().Find(group_, shard_)->qp->Reset(); });
  // A busy machine may take as long as the client waits to refuse one.
  EXPECT_THAT(LoadUntilRefused("REP3", 400),
              ::testing::AnyOf(StatusIs(absl::StatusCode::kUnavailable),
                               StatusIs(absl::StatusCode::kDeadlineExceeded)));
  EXPECT_GT(values_.size(), 20u);
  cluster_.Kill(kCoordinator);
  ASSERT_OK(cluster_.Fail(kCoordinator));
  cluster_.LoseEpochs(false);
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ExpectEverything();
}

// It stops when its members are connected already, since one lacks entries that are nowhere any
// more: who accepts what is lost with that one keeps what the others have.
TEST_F(LastCopyTest, E8WhoAcceptsALossKeepsWhatIsNotLost) {
  Start();
  Load("REP2", 1);
  values_.clear();
  cluster_.Run([&] {
    CoordinatedShard* const shard = cluster_.node(kCoordinator)->FindShard(group_, shard_);
    for (const memgest::ShardLog::Link& link : shard->coordinator()->log().links()) {
      if (link.role == Role(3)) link.writer->Abandon();
    }
  });
  Load("REP3", 200);  // few enough to be sent again, if they were still in a ring
  cluster_.Kill(kCoordinator);
  ASSERT_OK(cluster_.Fail(kCoordinator));
  ASSERT_OK(cluster_.Restart(kCoordinator));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kStopped));
  cluster_.Run([&] {
    const MemgestId rep2 = cluster_.view().FindMemgest("REP2")->id;
    const auto& change = *cluster_.node(kCoordinator)->FindShard(group_, shard_)->change();
    EXPECT_THAT(change.lost(), ::testing::ElementsAre(rep2));
    EXPECT_NE(cluster_.node(kCoordinator)->FindShard(group_, shard_)->coordinator(), nullptr)
        << "it had begun";
  });
  cluster::Overrun command;
  command.group = group_;
  command.shard = shard_;
  const std::shared_ptr<const cluster::View> view = cluster_.PresentView();
  command.epoch = view->groups[group_.value()].epoch;
  for (const protocol::MemgestDescriptor& memgest : view->memgests) {
    if (memgest.name != "REP2") command.memgests.push_back(memgest.id);
  }
  ASSERT_OK(cluster_.Apply(command));
  cluster_.Run([&] {
    const auto& change = *cluster_.node(kCoordinator)->FindShard(group_, shard_)->change();
    EXPECT_EQ(change.phase(), recovery::EpochPhase::kStopped) << "what is lost was not named";
  });
  command.memgests = {view->FindMemgest("REP2")->id};
  ASSERT_OK(cluster_.Apply(command));
  ASSERT_OK(WaitFor(recovery::EpochPhase::kServing));
  ExpectEverything();
}

}  // namespace
}  // namespace ring::node
