// Catalogue changes that a node's loss stops in the middle: a spare that vanishes when it is shown
// a state, and comes back; and the leader, for good.
#include "ring/node/control/control_catalogue.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/host.h"
#include "tests/node/reactor_fixture.h"
#include "tests/node/twin_spare.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/free_ports.h"

namespace ring::node {
namespace {

using protocol::MemgestState;
using ::ring::testing::Await;
using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPause = absl::Milliseconds(5);

class ControlCatalogueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HostOptions options;
    options.config = EmbeddedConfig();
    NodeEntry& spare = options.config.nodes.back();
    spare.data = absl::StrCat("127.0.0.1:", *tools::FreePort());
    spare.shm.clear();
    for (std::uint32_t i = 0; i + 1 < options.config.nodes.size(); ++i)
      options.hosted.push_back(NodeId(i));
    spare_ = std::make_unique<testing::TwinSpare>(options.config, NodeId(5));
    ASSERT_OK_AND_ASSIGN(host_, Host::Start(options));
    ASSERT_OK(host_->WaitReady(ring::testing::kPatience));
  }

  AdminPort& admin() { return host_->admin(); }
  AdminRequestId NextId() { return {"test", ++seq_}; }
  absl::StatusOr<protocol::MemgestDescriptor> Create(const AdminRequestId& id) {
    protocol::MemgestDescriptor memgest;
    memgest.name = "new";
    memgest.r = 2;
    return admin().CreateMemgest(id, memgest);
  }
  MemgestState StateOf(const std::string& name) {
    const std::shared_ptr<const cluster::View> view = *admin().GetView();
    for (const protocol::MemgestDescriptor& one : view->memgests) {
      if (one.name == name) return one.state;
    }
    ADD_FAILURE() << "no memgest " << name;
    return MemgestState::kDeleted;
  }
  // What the leader does by itself.
  void AwaitState(const std::string& name, MemgestState state) {
    Await(absl::StrCat("another state of memgest ", name), kPause,
          [&] { return StateOf(name) == state; });
  }
  // Until the spare is connected again.
  template <class Change>
  absl::Status Retry(Change change) {
    absl::Status status;
    const auto decided = [&] {
      status = change();
      return status.code() != absl::StatusCode::kUnavailable;
    };
    Await("the spare's connection", kPause, decided);
    return status;
  }

  std::unique_ptr<testing::TwinSpare> spare_;
  std::unique_ptr<Host> host_;
  std::uint64_t seq_ = 0;
};

TEST_F(ControlCatalogueTest, X6CreateThatANodeDidNotAcknowledgeIsCompletedByItsRetry) {
  const AdminRequestId id = NextId();
  spare_->VanishAt("new", MemgestState::kCreating);
  EXPECT_THAT(Create(id).status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("node 5")));
  EXPECT_EQ(StateOf("new"), MemgestState::kCreating);  // G11: not usable, anywhere
  EXPECT_THAT(Create(id).status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("node 5")));
  spare_->ComeBack();
  EXPECT_OK(Retry([&] { return Create(id).status(); }));
  EXPECT_EQ(StateOf("new"), MemgestState::kActive);
  EXPECT_EQ((*admin().GetView())->memgests.size(), 8u);
  EXPECT_THAT(spare_->Seen("new"), ElementsAre(MemgestState::kCreating, MemgestState::kActive));
}

TEST_F(ControlCatalogueTest, G11LeaderFinishesACreateThatNobodyRetries) {
  spare_->VanishAt("new", MemgestState::kCreating);
  EXPECT_THAT(Create(NextId()).status(), StatusIs(absl::StatusCode::kUnavailable));
  spare_->ComeBack();
  AwaitState("new", MemgestState::kActive);
  // Others hear of it later than who is asked above.
  Await("the spare's second view of it", kPause, [&] { return spare_->Seen("new").size() >= 2; });
  // Whoever missed it is shown CREATING first: its members have memory before anything is written.
  EXPECT_THAT(spare_->Seen("new"), ElementsAre(MemgestState::kCreating, MemgestState::kActive));
}

TEST_F(ControlCatalogueTest, G11AnotherChangeInBetweenLeavesNothingHalfDone) {
  spare_->VanishAt("new", MemgestState::kCreating);
  EXPECT_THAT(Create(NextId()).status(), StatusIs(absl::StatusCode::kUnavailable));
  spare_->ComeBack();
  const AdminRequestId id = NextId();
  EXPECT_OK(Retry([&] { return admin().SetDefaultMemgest(id, "SRS32"); }));
  AwaitState("new", MemgestState::kActive);
  EXPECT_OK(admin().SetDefaultMemgest(NextId(), "new"));
}

TEST_F(ControlCatalogueTest, G10DeleteThatANodeDidNotAcknowledgeIsUndoneAndCanBeRetried) {
  const AdminRequestId id = NextId();
  spare_->VanishAt("SRS21", MemgestState::kDraining);
  EXPECT_THAT(admin().DeleteMemgest(id, "SRS21", false),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("node 5")));
  EXPECT_EQ(StateOf("SRS21"), MemgestState::kDraining);
  spare_->ComeBack();
  AwaitState("SRS21", MemgestState::kActive);
  EXPECT_OK(Retry([&] { return admin().DeleteMemgest(id, "SRS21", false); }));
  EXPECT_EQ(StateOf("SRS21"), MemgestState::kDeleted);
  EXPECT_OK(admin().DeleteMemgest(id, "SRS21", false));
}

// It is over soon, and what was drained so far stays so.
TEST_F(ControlCatalogueTest, G10AShardBetweenTwoEpochsIsCountedWhenItIsServed) {
  spare_->RefuseDrains(5);
  EXPECT_OK(admin().DeleteMemgest(NextId(), "SRS21", false));
  EXPECT_THAT(spare_->Seen("SRS21"), ElementsAre(MemgestState::kDraining, MemgestState::kDeleted));
}

TEST_F(ControlCatalogueTest, G10DeleteThatANodeDidNotHearOfStaysDeleted) {
  const AdminRequestId id = NextId();
  spare_->VanishAt("SRS21", MemgestState::kDeleted);
  EXPECT_THAT(admin().DeleteMemgest(id, "SRS21", false),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("node 5")));
  EXPECT_EQ(StateOf("SRS21"), MemgestState::kDeleted);
  spare_->ComeBack();
  EXPECT_OK(Retry([&] { return admin().DeleteMemgest(id, "SRS21", false); }));
  EXPECT_THAT(spare_->Seen("SRS21"), ElementsAre(MemgestState::kDraining, MemgestState::kDeleted));
}

// A deletion is asked for at the spare, which never leads, and the leader is lost.
class LostLeaderTest : public ReactorFixture {
 protected:
  static constexpr std::uint64_t kTurnNs = 1'000'000;
  static constexpr int kKeyCount = 7;

  void PutAllInto(const std::string& memgest) {
    for (int i = 0; i < kKeyCount; ++i) Await(Submit(absl::StrCat("k", i), "value", memgest));
    Settle();
  }
  static CatalogueChange Change(ChangeKind kind, std::uint64_t seq) {
    CatalogueChange change;
    change.kind = kind;
    change.id = {"test", seq};
    change.name = "SRS21";
    return change;
  }
  static CatalogueChange Deletion(std::uint64_t seq, bool force) {
    CatalogueChange change = Change(ChangeKind::kDelete, seq);
    change.force = force;
    return change;
  }
  MemgestState State() { return spare().view()->FindMemgest("SRS21")->state; }
  Node& spare() { return *reactor_->nodes().back(); }
  // The answer is null until it is there.
  std::shared_ptr<std::optional<absl::Status>> Send(const CatalogueChange& change) {
    auto answer = std::make_shared<std::optional<absl::Status>>();
    spare().control().Call(
        spare().membership().leader(), ControlType::kCatalogue, EncodeChange(change),
        60'000'000'000,
        [answer](const absl::StatusOr<std::string>& said) { *answer = said.status(); });
    return answer;
  }
  // Again and again, under the same id, until it is decided.
  absl::Status Ask(const CatalogueChange& change) {
    for (int attempt = 0; attempt < 1'000; ++attempt) {
      const auto answer = Send(change);
      TurnUntil([&] { return answer->has_value(); });
      if (answer->has_value() && !absl::IsUnavailable(**answer)) return **answer;
      for (int i = 0; i < 20; ++i) Turn(kTurnNs);
    }
    return absl::DeadlineExceededError("it was never decided");
  }
  void LoseLeader() {
    const NodeId leader = spare().membership().leader();
    ASSERT_NE(leader, spare().id());
    reactor_->DropNode(leader);
    TurnUntil([&] {
      const NodeId next = spare().membership().leader();
      return next != leader && next != cluster::kNoNode;
    });
  }
  // Within a minute of its clock.
  template <class Condition>
  void TurnUntil(const Condition& condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i) Turn(kTurnNs);
  }
};

TEST_F(LostLeaderTest, X6WhatWasRefusedIsRefusedByTheNextLeaderToo) {
  PutAllInto("SRS21");
  const absl::Status first = Ask(Deletion(1, false));
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("NOT_EMPTY memgest=SRS21 keys=7")));
  PutAllInto("REP3");  // nothing is left in it
  LoseLeader();
  EXPECT_EQ(Ask(Deletion(1, false)), first);
  ASSERT_NE(spare().view()->FindMemgest("SRS21"), nullptr);
  EXPECT_OK(Ask(Deletion(2, false)));
  EXPECT_EQ(spare().view()->FindMemgest("SRS21"), nullptr);
}

TEST_F(LostLeaderTest, X6AForceThatComesWithALaterAttemptIsAnotherChange) {
  PutAllInto("SRS21");
  const auto lost = Send(Deletion(1, false));
  TurnUntil([&] { return State() == MemgestState::kDraining; });
  ASSERT_EQ(State(), MemgestState::kDraining);
  LoseLeader();
  ASSERT_THAT(Ask(Deletion(1, true)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("was used for another")));
  ASSERT_THAT(Ask(Deletion(1, false)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("NOT_EMPTY")));
  EXPECT_EQ(State(), MemgestState::kActive);
  EXPECT_TRUE(!lost->has_value() || absl::IsUnavailable(**lost));
}

// Else whoever sends it again, as it was told to, would do so for ever.
TEST_F(LostLeaderTest, G10ADeletionThatWasUndoneIsRefusedOnceItsMemgestIsTheDefaultOne) {
  PutAllInto("SRS21");
  Send(Deletion(1, false));
  TurnUntil([&] { return State() == MemgestState::kDraining; });
  ASSERT_EQ(State(), MemgestState::kDraining);
  LoseLeader();
  TurnUntil([&] { return State() == MemgestState::kActive; });  // the next leader's repair
  ASSERT_EQ(State(), MemgestState::kActive);
  ASSERT_OK(Ask(Change(ChangeKind::kSetDefault, 2)));
  EXPECT_THAT(Ask(Deletion(1, false)), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("SRS21 is the default one")));
  EXPECT_EQ(State(), MemgestState::kActive);
}

}  // namespace
}  // namespace ring::node
