// Rules about time, with a clock that the test owns.
#include "api/client_core.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "api/client_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/status.h"
#include "tests/api/jumping_clock.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

using ::ring::testing::JumpingClock;
using ::ring::testing::StatusIs;
using ::ring::testing::TwinCluster;

class ClientCoreTest : public ::testing::Test {
 protected:
  ClientCoreTest() {
    ClientOptions options;
    options.seeds = {cluster_.node().address()};
    options.deadline = absl::Minutes(10);
    auto core = ClientCore::Open(options, &clock_);
    RING_CHECK(core.ok()) << core.status();
    core_ = *std::move(core);
  }
  Request Put(absl::string_view key) { return *PutRequest(core_.get(), key, "value", {}); }
  // Under way until the client has seen that its connection is silent.
  absl::StatusOr<Operation*> PutToASilentNode() {
    cluster_.node().faults().silent = true;
    RING_ASSIGN_OR_RETURN(Operation * op, core_->Submit(Put("a")));
    core_->Step();
    testing::Await("the silence to be noted", [&] {
      core_->WaitStep(clock_.NowNs() + 1'000'000);
      // Not while it connects: the node's thread takes the time it takes.
      if (op->on_wire) clock_.Jump(absl::Milliseconds(50));
      return op->unanswered;
    });
    return op;
  }
  // Until the client has heard a refusal, and waits to ask again; then its deadline comes.
  void LetItsDeadlineComeAfterARefusal(const Operation* op) {
    testing::Await("a refusal", [&] {
      core_->WaitStep(clock_.NowNs() + 1'000'000);
      return op->last_refusal == OpOutcome::kUnavailable && op->deadline_ns != 0 &&
             op->state == OpState::kQueued;
    });
    clock_.Jump(absl::Minutes(11));
    Await(core_.get(), op);
  }
  std::set<std::uint64_t> Clients() {
    MutexLock lock(cluster_.store().mutex);
    std::set<std::uint64_t> clients;
    for (const auto& [id, record] : cluster_.store().records) clients.insert(id.second.first);
    return clients;
  }

  TwinCluster cluster_;
  JumpingClock clock_;
  std::unique_ptr<ClientCore> core_;
};

TEST_F(ClientCoreTest, X4AClientThatWasSilentForAMinuteIsAnotherOne) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  clock_.Jump(absl::Seconds(30));  // real time passes, too
  ASSERT_OK(CallWrite(core_.get(), Put("b")));
  EXPECT_EQ(Clients().size(), 1u);
  clock_.Jump(absl::Seconds(61));
  ASSERT_OK(CallWrite(core_.get(), Put("c")));
  EXPECT_EQ(Clients().size(), 2u);
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().executed_count, 3);
  EXPECT_EQ(cluster_.store().duplicate_count, 0);  // numbers begin again, under the new name
}

TEST_F(ClientCoreTest, X5ARefusedWriteIsCertainlyNotApplied) {
  cluster_.node().faults().refuse_with = protocol::Outcome::kUnavailable;
  cluster_.node().faults().refuse_count = 1000000;
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("k")));
  LetItsDeadlineComeAfterARefusal(op);
  const absl::Status put = TakeWrite(*core_, *op).status();
  core_->Free(op);
  EXPECT_THAT(put, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(IsUnknownOutcome(put));
  cluster_.node().faults().refuse_count = 3;
  EXPECT_OK(CallWrite(core_.get(), Put("k")));  // a passing refusal is waited out
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().executed_count, 1);
}

TEST_F(ClientCoreTest, X5AnEarlierLostAttemptMakesALaterRefusalUnknown) {
  cluster_.node().faults().refuse_with = protocol::Outcome::kUnavailable;
  // The first attempt is executed and lost; the others are refused before the record is looked at.
  cluster_.node().faults().refuse_after_drop = 1000000;
  cluster_.node().faults().drop_after_execute = 1;
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("k")));
  LetItsDeadlineComeAfterARefusal(op);
  const absl::Status put = TakeWrite(*core_, *op).status();
  core_->Free(op);
  EXPECT_TRUE(IsUnknownOutcome(put)) << put;
  EXPECT_LT(cluster_.node().faults().refuse_count, 1000000) << "nothing was refused";
}

TEST_F(ClientCoreTest, X4AClientThatHasOnlyAGetUnderWayForAMinuteIsAnotherOne) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  cluster_.node().faults().silent = true;
  const Request get = GetRequest("a", {});
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(get));
  core_->Step();
  ASSERT_TRUE(op->on_wire);
  clock_.Jump(absl::Seconds(61));
  cluster_.node().faults().silent = false;
  ASSERT_OK(CallWrite(core_.get(), Put("b")));
  EXPECT_EQ(Clients().size(), 2u);
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
  core_->Free(op);
}

TEST_F(ClientCoreTest, X4NothingIsSentAgainAMinuteAfterTheFirstAttempt) {
  cluster_.node().faults().silent = true;
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("a")));
  core_->Step();
  ASSERT_TRUE(op->on_wire);
  core_->WaitStep(clock_.NowNs() + 5'000'000);  // long enough for the silence to be noted
  const int before = cluster_.node().client_count();
  clock_.Jump(absl::Seconds(61));  // the connection is silent, too, and will be made anew
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kUnknown);
  core_->Free(op);
  cluster_.node().faults().silent = false;
  ASSERT_OK(CallWrite(core_.get(), Put("b")));
  EXPECT_GT(cluster_.node().client_count(), before);
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().duplicate_count, 0);
}

// The clock went on while the program stood still, and was looked at once in many steps.
TEST_F(ClientCoreTest, X4NothingIsSentAgainByATimeThatStoodStill) {
  cluster_.node().faults().silent = true;
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("a")));
  core_->Step();
  ASSERT_TRUE(op->on_wire);
  const std::string address = cluster_.node().address();
  cluster_.Stop(0);
  clock_.Jump(absl::Minutes(11));
  cluster_.Restart(0, address);
  for (int i = 0; i < 31; ++i) core_->Step();
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kUnknown);
  core_->Free(op);
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().executed_count, 0);
}

// Epochs and memgests of another founding have the numbers of this one's, and mean others.
TEST_F(ClientCoreTest, AClusterThatWasFoundedAnewIsAnotherOne) {
  cluster_.ChangeView([](cluster::View* view) { view->epoch = 40; });
  ASSERT_TRUE(core_->RefreshView(clock_.NowNs() + 60'000'000'000));
  ASSERT_OK(CallWrite(core_.get(), *PutRequest(core_.get(), "a", "value", {.memgest = "two"})));
  const std::string address = cluster_.node().address();
  cluster_.Stop(0);
  {
    MutexLock lock(cluster_.store().mutex);
    cluster_.store().view.founding = 5;
    cluster_.store().view.epoch = 1;
    std::swap(cluster_.store().view.memgests[0].name, cluster_.store().view.memgests[1].name);
  }
  cluster_.Restart(0, address);
  ring::testing::Await("the new view", [&] {
    core_->WaitStep(clock_.NowNs() + 1'000'000);
    return core_->view().founding == 5;
  });
  EXPECT_EQ(core_->view().epoch, 1u);
  EXPECT_EQ(core_->view().FindMemgest("two")->id, core_->view().memgests[0].id);
  ASSERT_OK(CallWrite(core_.get(), *PutRequest(core_.get(), "a", "value", {.memgest = "two"})));
}

TEST_F(ClientCoreTest, ANodeOfAnotherClusterGetsNoRequests) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  const std::string address = cluster_.node().address();
  cluster_.Stop(0);
  {
    MutexLock lock(cluster_.store().mutex);
    ++cluster_.store().view.cluster;
  }
  cluster_.Restart(0, address);
  Request put = Put("b");
  put.deadline = absl::Milliseconds(300);
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(put));
  Await(core_.get(), op);
  EXPECT_NE(op->result.outcome, OpOutcome::kOk);
  core_->Free(op);
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().executed_count, 1);
}

TEST_F(ClientCoreTest, ASilentConnectionIsMadeAnewAndItsWritesAreSentAgain) {
  ASSERT_OK_AND_ASSIGN(Operation * op, PutToASilentNode());
  cluster_.node().faults().silent = false;
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
  core_->Free(op);
  MutexLock lock(cluster_.store().mutex);
  EXPECT_EQ(cluster_.store().executed_count, 1);  // I3
}

// X7: the owner may be another one by then. What this client knew before the first attempt says
// whether it can be.
TEST_F(ClientCoreTest, X7ARequestThatIsSentAgainSaysSoAndWhatWasKnownBefore) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  const std::uint64_t known = [this] {
    MutexLock lock(cluster_.store().mutex);
    return cluster_.store().last_version;
  }();
  ASSERT_OK_AND_ASSIGN(Operation * op, PutToASilentNode());
  EXPECT_NE(op->header()->word.flags & protocol::kRetried, 0);
  EXPECT_EQ(op->header()->if_version, known);
  core_->Step();
  Request conditional = Put("a");
  conditional.if_version = Version(7);
  ASSERT_OK_AND_ASSIGN(Operation * other, core_->Submit(conditional));
  EXPECT_EQ(other->header()->word.flags & protocol::kRetried, 0);
  cluster_.node().faults().silent = false;
  Await(core_.get(), op);
  Await(core_.get(), other);
  EXPECT_EQ(other->header()->if_version, 7u);
  core_->Free(op);
  core_->Free(other);
}

// That the later attempts were damaged on their way says nothing of the first, which may still run.
// What the owner decided from the key's state is remembered with the request: it holds for the
// first, too.
TEST_F(ClientCoreTest, X5OnlyADecisionIsCertainAfterALostAttempt) {
  const std::pair<protocol::Outcome, OpOutcome> cases[] = {
      {protocol::Outcome::kBadChecksum, OpOutcome::kUnknown},
      {protocol::Outcome::kResourceExhausted, OpOutcome::kUnknown},
      {protocol::Outcome::kNotFound, OpOutcome::kNotFound},
      {protocol::Outcome::kVersionMismatch, OpOutcome::kVersionMismatch},
      {protocol::Outcome::kDataLost, OpOutcome::kDataLost},
  };
  for (const auto& [answered, expected] : cases) {
    ASSERT_OK_AND_ASSIGN(Operation * op, PutToASilentNode());
    cluster_.node().faults().refuse_with = answered;
    cluster_.node().faults().refuse_count = 1'000'000;
    cluster_.node().faults().silent = false;
    Await(core_.get(), op);
    EXPECT_EQ(op->result.outcome, expected) << static_cast<int>(answered);
    core_->Free(op);
    cluster_.node().faults().refuse_count = 0;
  }
}

TEST_F(ClientCoreTest, X5ADamagedRequestIsCertainlyNotApplied) {
  cluster_.node().faults().refuse_with = protocol::Outcome::kBadChecksum;
  cluster_.node().faults().refuse_count = 3;
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("a")));
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kBadChecksum);
  core_->Free(op);
  EXPECT_EQ(cluster_.node().faults().refuse_count, 0);
}

// Short deadlines: all that was asked of a silent node is given up, and holds places until its
// answer comes. Other nodes may be asked long before that connection counts as dead.
TEST_F(ClientCoreTest, X3WhatWasGivenUpAtASilentNodeLeavesPlacesForOthers) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));  // it is connected
  cluster_.node().faults().silent = true;
  std::vector<Operation*> asked;
  const auto submit = [&] {
    Request get = GetRequest("a", {});
    get.deadline = absl::Milliseconds(1);
    absl::StatusOr<Operation*> op = core_->Submit(get);
    if (op.ok()) asked.push_back(*op);
    return op.status();
  };
  const auto give_up_all = [&] {
    const auto waits = [](const Operation* op) { return op->state != OpState::kDone; };
    while (std::any_of(asked.begin(), asked.end(), waits)) {
      core_->WaitStep(clock_.NowNs() + 100'000);
      clock_.Jump(absl::Milliseconds(1));
    }
    for (Operation* op : asked) core_->Free(op);
    asked.clear();
  };
  absl::Status status;
  for (int round = 0; round < 10 && status.ok(); ++round) {
    while (core_->in_use() < 250 && status.ok()) status = submit();
    give_up_all();
  }
  ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
  ASSERT_EQ(core_->in_use(), 0u);
  absl::Duration waited;
  for (; !status.ok() && waited < absl::Seconds(1); waited += absl::Milliseconds(5)) {
    clock_.Jump(absl::Milliseconds(5));
    core_->WaitStep(clock_.NowNs() + 100'000);
    status = submit();
  }
  ASSERT_OK(status);
  EXPECT_LT(waited, absl::Milliseconds(500));
  give_up_all();
  cluster_.node().faults().silent = false;
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
}

TEST_F(ClientCoreTest, APauseOfTheProgramIsNotTheNodesSilence) {
  const int answered = cluster_.node().answer_count();
  ASSERT_OK_AND_ASSIGN(Operation * op, core_->Submit(Put("a")));
  core_->Step();
  const int before = cluster_.node().client_count();
  clock_.Jump(absl::Seconds(30));  // nobody polled meanwhile; the answer is there
  testing::Await("an answer", [&] { return cluster_.node().answer_count() != answered; });
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
  core_->Free(op);
  EXPECT_EQ(cluster_.node().client_count(), before);
}

// Views of completions hold until the program polls again, whatever became of the connection that
// brought them.
TEST_F(ClientCoreTest, I4AValueKeepsItsBytesWhenItsConnectionIsMadeAnewBeforeItIsTaken) {
  const auto submit_get = [this] {
    Request get = GetRequest("a", {});
    get.sink = Sink::kPipeline;
    ASSERT_OK(core_->Submit(get));
    testing::Await("a get", [&] {
      core_->WaitStep(clock_.NowNs() + 1'000'000);
      return core_->unfinished() == 0;
    });
  };
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  submit_get();
  submit_get();
  const Operation* const taken = core_->TakeFinished();
  ASSERT_NE(taken, nullptr);
  const absl::string_view view = ResultValue(*taken);
  ASSERT_EQ(view, "value");
  const int before = cluster_.node().client_count();
  // Each minute's silence makes a new client of it: its connections are made anew. The second one
  // finds the memory of the first one's answers free, but for who reads them.
  for (int i = 0; i < 3; ++i) {
    clock_.Jump(absl::Seconds(61));
    ASSERT_OK(CallWrite(core_.get(), Put("b")));
    EXPECT_EQ(view, "value") << i;
  }
  ASSERT_GE(cluster_.node().client_count(), before + 3);
  const Operation* const finished = core_->TakeFinished();
  ASSERT_NE(finished, nullptr);
  EXPECT_EQ(finished->result.outcome, OpOutcome::kOk);
  EXPECT_EQ(ResultValue(*finished), "value");
  core_->FreeTaken();
}

// Wait waits for what the user asked.
TEST_F(ClientCoreTest, TheClientsOwnQuestionIsNothingOfTheUsers) {
  cluster_.node().faults().silent = true;
  EXPECT_FALSE(core_->RefreshView(clock_.NowNs() + 50'000'000)) << "it is still under way";
  EXPECT_EQ(core_->unfinished(), 0u);
  EXPECT_EQ(core_->in_use(), 0u);
  cluster_.node().faults().silent = false;
}

TEST_F(ClientCoreTest, X4AtMost1023OperationsAreUnderWayAndFirstIncompleteFollows) {
  // The twin checks that no request names a first incomplete number 1,024 back.
  ClientOptions options;
  options.seeds = {cluster_.node().address()};
  options.window = 1023;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ClientCore> core, ClientCore::Open(options));
  for (int round = 0; round < 3; ++round) {
    std::vector<Operation*> ops;
    for (;;) {
      absl::StatusOr<Operation*> op = core->Submit(*PutRequest(core.get(), "k", "v", {}));
      if (!op.ok()) break;
      ops.push_back(*op);
    }
    EXPECT_GE(ops.size(), 1000u);
    for (Operation* op : ops) {
      Await(core.get(), op);
      EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
      core->Free(op);
    }
  }
}

// Each look costs a microsecond of real time more: in a time there are no more looks than that.
class LookedAtClock final : public JumpingClock {
 public:
  static constexpr std::uint64_t kStepNs = 1000;
  std::uint64_t NowNs() const override { return JumpingClock::NowNs() + ++looks_ * kStepNs; }
  std::uint64_t looks() const { return looks_; }

 private:
  mutable std::uint64_t looks_ = 0;
};

// How often a connected client looked at the clock in a wait of 1 ms that nothing ended: the most
// of many waits. An answer that comes while it polls doubles the time for which it does; one that
// comes late halves it.
std::uint64_t MostLooksOfAWaitInVain(const std::string& seed, int processor_count) {
  LookedAtClock clock;
  ClientOptions options;
  options.seeds = {seed};
  options.spin_max = absl::Microseconds(200);
  ClientEnvironment environment;
  environment.clock = &clock;
  environment.processor_count = processor_count;
  const auto core = ClientCore::Start(options, std::move(environment));
  RING_CHECK(core.ok()) << core.status();
  testing::Await("a connection", [&] {
    (*core)->WaitStep(clock.NowNs() + 1'000'000);
    return (*core)->connected();
  });
  std::uint64_t most = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 10; ++i)
      RING_CHECK(CallWrite(core->get(), *PutRequest(core->get(), "a", "value", {})).ok());
    const std::uint64_t before = clock.looks();
    (*core)->WaitStep(clock.NowNs() + 1'000'000);
    most = std::max(most, clock.looks() - before);
  }
  return most;
}

// Never an unbounded spin: a client polls for spin_max at most, and not at all on one processor,
// which the node needs that it waits for.
TEST_F(ClientCoreTest, AWaitPollsForItsTimeAndNotAtAllOnOneProcessor) {
  constexpr std::uint64_t kLooksOfASleep = 16;
  const std::uint64_t of_two = MostLooksOfAWaitInVain(cluster_.node().address(), 2);
  EXPECT_LE(of_two, 200 + kLooksOfASleep);
  const std::uint64_t of_one = MostLooksOfAWaitInVain(cluster_.node().address(), 1);
  EXPECT_LE(of_one, kLooksOfASleep);
  EXPECT_LT(of_one, of_two);
}

}  // namespace
}  // namespace ring::api
