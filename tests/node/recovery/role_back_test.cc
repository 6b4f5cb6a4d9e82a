// A role goes away and comes back before a client hears of either: no view tells it to send again
// what waited there.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::HoldsWithin;
using ring::testing::kPatience;

class RoleBackTest : public ::testing::Test {
 protected:
  static constexpr NodeId kOwner{1};
  static constexpr NodeId kSpare{5};

  void SetUp() override {
    ASSERT_OK(cluster_.Start(/*spare_count=*/1));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
    for (int i = 0; cluster_.OwnerOf(key_) != kOwner; ++i) key_ = absl::StrCat("k", i);
    ASSERT_OK(client_->Put(key_, "old", {.memgest = "REP3"}).status());
  }

  // A put of which the owner has begun when the roles change, all between two turns: neither can
  // it be committed, nor can anybody be told of a view but the last one.
  absl::StatusOr<WriteResult> PutDuring(const std::function<void()>& change) {
    std::promise<void> begun;
    std::atomic<bool> over{false};
    std::thread nodes([&] {
      cluster_.Run([&] {
        begun.set_value();
        TakePut();
        change();
      });
      over.store(true);
    });
    begun.get_future().wait();
    absl::StatusOr<WriteResult> put;
    const PutOptions options = {.memgest = "REP3", .deadline = absl::Seconds(50)};
    client_->PutAsync(key_, "new", options,
                      [&put](absl::StatusOr<WriteResult> done) { put = std::move(done); });
    EXPECT_TRUE(HoldsWithin(
        kPatience, [&] { return over.load(); }, [&] { client_->Poll(); }));
    nodes.join();
    EXPECT_OK(client_->Wait(kPatience));
    return put;
  }

  // Within Run, like those that follow.
  void TakePut() {
    Node& owner = *cluster_.node(kOwner);
    BatchItem item;
    const auto takes = [&] {
      if (owner.Gather(absl::MakeSpan(&item, 1)) == 0) return false;
      owner.Route(&item);
      owner.Execute(item);
      return item.request.operation == protocol::Operation::kPut;
    };
    ASSERT_TRUE(HoldsWithin(kPatience, takes));
    coordinator::ShardCoordinator& shard = *item.shard->coordinator();
    const MemgestId memgest = cluster_.view().FindMemgest("REP3")->id;
    ASSERT_EQ(shard.log().UncommittedCount(*shard.FindMemgest(memgest)), 1u) << "it was answered";
  }
  void Fail(NodeId id) {
    const Incarnation incarnation = cluster_.view().nodes[id.value()].incarnation;
    EXPECT_OK(cluster_.ApplyHere(cluster::FailNode{id, incarnation, "it was only silent"}));
  }
  void ComeBack(NodeId id) {
    EXPECT_OK(cluster_.ApplyHere(cluster::RegisterNode{cluster_.node(id)->info()}));
  }
  NodeId Owner() {
    const cluster::Place place = cluster_.PlaceOf(key_);
    return cluster_.view().Coordinator(place.group, place.shard);
  }

  void ExpectOnce(const absl::StatusOr<WriteResult>& put) {
    ASSERT_OK(put.status());
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key_));
    EXPECT_EQ(got.value, "new");
    EXPECT_EQ(got.version, put->version);
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::string key_ = "k";
};

TEST_F(RoleBackTest, X1WhatWaitedIsSentAgainThoughItsOwnerIsTheSameAgain) {
  ExpectOnce(PutDuring([this] {
    Fail(kOwner);
    EXPECT_EQ(Owner(), kSpare);
    ComeBack(kOwner);
    Fail(kSpare);
    EXPECT_EQ(Owner(), kOwner);
  }));
}

// It waits on in a shard that rests, and no longer than that.
TEST_F(RoleBackTest, X1WhatWaitedInAShardThatRestedIsSentAgainWhenThatIsRetired) {
  ExpectOnce(PutDuring([this] {
    Fail(kSpare);
    Fail(kOwner);
    EXPECT_EQ(Owner(), cluster::kNoNode);
    EXPECT_GT(cluster_.node(kOwner)->resting_shard_count(), 0u);
    ComeBack(kSpare);
    EXPECT_EQ(Owner(), kSpare);
    EXPECT_EQ(cluster_.node(kOwner)->resting_shard_count(), 0u);
    ComeBack(kOwner);
    Fail(kSpare);
    EXPECT_EQ(Owner(), kOwner);
  }));
}

}  // namespace
}  // namespace ring::node
