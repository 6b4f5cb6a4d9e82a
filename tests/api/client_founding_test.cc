// A cluster that forgot everything is founded anew while operations of a client are under way.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/client.h"
#include "api/client_core.h"
#include "api/client_requests.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/api/jumping_clock.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

using ::ring::testing::JumpingClock;
using ::ring::testing::StatusIs;
using ::ring::testing::TwinCluster;
using ::ring::testing::TwinStore;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kWhy[] = "another cluster was founded";

class ClientFoundingTest : public ::testing::Test {
 protected:
  ClientFoundingTest() {
    {
      MutexLock lock(cluster_.store().mutex);
      cluster_.store().view.founding = 3;
    }
    ClientOptions options;
    options.seeds = {cluster_.node().address()};
    options.deadline = absl::Minutes(10);
    auto core = ClientCore::Open(options, &clock_);
    RING_CHECK(core.ok()) << core.status();
    core_ = *std::move(core);
  }
  Request Put(absl::string_view key, const PutOptions& options = {}) {
    return *PutRequest(core_.get(), key, "value", options);
  }
  Operation* Submit(const Request& request) {
    absl::StatusOr<Operation*> op = core_->Submit(request);
    RING_CHECK(op.ok()) << op.status();
    return *op;
  }
  // The node ends, and the client has not noticed.
  void Lose() {
    address_ = cluster_.node().address();
    cluster_.Stop(0);
  }
  // ... and has noticed: what it is asked for from now on waits.
  void LoseAndNotice() {
    Lose();
    testing::Await("the loss of the connection", [this] {
      core_->WaitStep(clock_.NowNs() + 1'000'000);
      return core_->Connections()[0].transport.empty();
    });
  }
  // Nothing is there any more; memgests have each other's numbers.
  void Found() {
    {
      TwinStore& store = cluster_.store();
      MutexLock lock(store.mutex);
      store.items.clear();
      store.records.clear();
      store.last_version = 0;
      store.executed_count = 0;
      store.view.founding = 4;
      store.view.epoch = 1;
      std::swap(store.view.memgests[0].name, store.view.memgests[1].name);
    }
    cluster_.Restart(0, address_);
  }
  void AwaitTheNewView() {
    testing::Await("the new view", [this] {
      core_->WaitStep(clock_.NowNs() + 1'000'000);
      return core_->view().founding == 4;
    });
  }
  absl::Status Ended(Operation* op) {
    Await(core_.get(), op);
    absl::Status status = ResultStatus(*core_, *op);
    core_->Free(op);
    return status;
  }
  int ExecutedCount() {
    MutexLock lock(cluster_.store().mutex);
    return cluster_.store().executed_count;
  }

  TwinCluster cluster_;
  JumpingClock clock_;
  std::unique_ptr<ClientCore> core_;
  std::string address_;
};

// Others may have read it, and done away with it, before all was lost.
TEST_F(ClientFoundingTest, X5AWriteThatTheFormerClusterMayHaveExecutedIsUnknownAndNotRunAgain) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  cluster_.node().faults().drop_after_execute = 1;
  Operation* const op = Submit(Put("b"));
  core_->Step();
  testing::Await("the write", [&] { return cluster_.node().faults().drop_after_execute == 0; });
  ASSERT_EQ(ExecutedCount(), 2);
  Lose();
  Found();
  const absl::Status status = Ended(op);
  EXPECT_TRUE(IsUnknownOutcome(status)) << status;
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(kWhy)));
  EXPECT_OK(CallWrite(core_.get(), Put("a")));
  EXPECT_EQ(ExecutedCount(), 1);
}

TEST_F(ClientFoundingTest, WhatNamesAMemgestOrAVersionIsNotAskedOfTheNextCluster) {
  LoseAndNotice();
  Operation* const put = Submit(Put("a", {.memgest = "two"}));
  Operation* const move = Submit(*MoveRequest(core_.get(), "b", "two", {}));
  Operation* const put_if = Submit(Put("c", {.if_version = Version(7)}));
  Operation* const delete_if = Submit(DeleteRequest(*core_, "c", {.if_version = Version(7)}));
  Found();
  {
    // By their numbers, all of them could be executed.
    MutexLock lock(cluster_.store().mutex);
    cluster_.store().items["b"] = {"b", 6, 1};
    cluster_.store().items["c"] = {"c", 7, 1};
  }
  for (Operation* const op : {put, move}) {
    const absl::Status status = Ended(op);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("memgest=2"), HasSubstr(kWhy))));
    EXPECT_FALSE(IsUnknownOutcome(status));
  }
  for (Operation* const op : {put_if, delete_if}) {
    const absl::Status status = Ended(op);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                                 AllOf(HasSubstr("if_version=0.7"), HasSubstr(kWhy))));
    EXPECT_FALSE(IsUnknownOutcome(status));
  }
  EXPECT_EQ(core_->in_use(), 0u);
  EXPECT_EQ(ExecutedCount(), 0);
}

TEST_F(ClientFoundingTest, WhatNamesNothingIsAskedOfTheNextCluster) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  LoseAndNotice();
  Operation* const get = Submit(GetRequest("a", {}));
  Operation* const put = Submit(Put("b"));
  Operation* const put_if_absent = Submit(Put("c", {.if_version = Version()}));
  Operation* const erase = Submit(DeleteRequest(*core_, "d", {}));
  Found();
  EXPECT_THAT(Ended(get), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(Ended(put));
  EXPECT_OK(Ended(put_if_absent));
  EXPECT_THAT(Ended(erase), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(ExecutedCount(), 2);
}

// The former cluster refused it, so it may be sent on; a coordinator of the new one would take a
// version from there for one of its own.
TEST_F(ClientFoundingTest, X7WhatIsAskedAgainKnowsNoVersionOfTheFormerCluster) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  cluster_.node().faults().refuse_with = protocol::Outcome::kUnavailable;
  cluster_.node().faults().refuse_count = 1'000'000;
  Operation* const op = Submit(Put("b"));
  testing::Await("a refusal", [&] {
    core_->WaitStep(clock_.NowNs() + 1'000'000);
    return op->last_refusal == OpOutcome::kUnavailable && op->state == OpState::kQueued;
  });
  ASSERT_NE(op->known_version, Version());
  Lose();
  Found();
  cluster_.node().faults().drop_after_execute = 1;
  Await(core_.get(), op);
  EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
  EXPECT_NE(op->header()->word.flags & protocol::kRetried, 0);
  EXPECT_EQ(op->header()->if_version, 0u);
  core_->Free(op);
  EXPECT_EQ(ExecutedCount(), 1);
}

// It is there when the view is, behind it.
TEST_F(ClientFoundingTest, X7AnAnswerOfTheFormerClusterTellsNothingOfTheNext) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  const int answered = cluster_.node().answer_count();
  cluster_.node().faults().silent = true;
  core_->RefreshView(clock_.NowNs() + 1'000'000);
  Operation* const get = Submit(GetRequest("a", {}));
  core_->Step();
  {
    MutexLock lock(cluster_.store().mutex);
    cluster_.store().view.founding = 4;
  }
  cluster_.node().faults().silent = false;
  testing::Await("both answers", [&] { return cluster_.node().answer_count() >= answered + 2; });
  {
    MutexLock lock(cluster_.store().mutex);
    cluster_.store().items.clear();
  }
  AwaitTheNewView();
  EXPECT_THAT(Ended(get), StatusIs(absl::StatusCode::kNotFound));
  Operation* const put = Submit(Put("b"));
  Await(core_.get(), put);
  EXPECT_EQ(put->known_version, Version());
  core_->Free(put);
}

// A request whose turn comes late.
TEST_F(ClientFoundingTest, AVersionThatWasGivenBeforeIsNotAskedForOfTheNextCluster) {
  ASSERT_OK(CallWrite(core_.get(), Put("a")));
  const Request conditional = DeleteRequest(*core_, "a", {.if_version = Version(1)});
  const Request other = DeleteRequest(*core_, "a", {});
  Lose();
  Found();
  AwaitTheNewView();
  ASSERT_OK(CallWrite(core_.get(), Put("a")));  // its version is 1, too
  EXPECT_THAT(CallWrite(core_.get(), conditional),
              StatusIs(absl::StatusCode::kAborted, HasSubstr(kWhy)));
  EXPECT_OK(CallWrite(core_.get(), other));
  EXPECT_EQ(core_->unfinished(), 0u);
}

TEST_F(ClientFoundingTest, ACallThatWaitedForRoomIsNotAskedOfTheNextClusterAndCalledOnce) {
  ClientOptions options;
  options.window = 1;
  options.deadline = absl::Minutes(10);
  const auto client = cluster_.Connect(options, &clock_);
  Lose();
  testing::Await("the loss of the connection", [&] {
    client->WaitForProgress(absl::Milliseconds(5));
    return client->Connections()[0].transport.empty();
  });
  std::vector<absl::Status> ended;
  const auto note = [&](absl::StatusOr<WriteResult> put) { ended.push_back(put.status()); };
  client->PutAsync("a", "value", {}, note);
  Found();
  client->PutAsync("b", "value", {.memgest = "two"}, note);
  ASSERT_OK(client->Wait(testing::kPatience));
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_OK(ended[0]);
  EXPECT_THAT(ended[1], StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(kWhy)));
  EXPECT_EQ(client->outstanding(), 0u);
  EXPECT_OK(client->Put("b", "value", {.memgest = "two"}));
  EXPECT_EQ(ExecutedCount(), 2);
}

}  // namespace
}  // namespace ring::api
