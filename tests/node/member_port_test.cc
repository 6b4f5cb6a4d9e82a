// Rings that cannot be folded just now, or ever, of a cluster in this process.
#include "ring/node/member_port.h"

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/control/control_change.h"
#include "ring/recovery/seal_message.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using protocol::MemgestState;
using ::ring::testing::StatusIs;

class MemberPortTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(cluster_.Start()); }

  // Each runs on the nodes' thread.
  CoordinatedShard& Shard() { return *cluster_.node(0).shards()[0]; }
  NodeId MemberOf(MemgestId memgest) {
    const cluster::View& view = *cluster_.node(0).view();
    const std::vector<Role> members =
        view.FindMemgest(memgest)->MemberRoles(Shard().shard(), view.s, view.d);
    return view.groups[Shard().group().value()].roles[members.front().value()];
  }
  MemberPort& Port(NodeId node) { return cluster_.node(node.value()).members(); }
  MemberPort::HeldShard& HeldAt(NodeId node) {
    return *Port(node).Find(Shard().group(), Shard().shard());
  }
  // A put by nobody: its answer goes nowhere.
  void Put(MemgestId memgest) {
    coordinator::ShardCoordinator& shard = *Shard().coordinator();
    coordinator::Request request;
    request.operation = protocol::Operation::kPut;
    request.memgest = memgest;
    request.key = "key";
    request.client_id = {1, 2};
    request.client = shard.completions().FindOrAdd(request.client_id);
    request.seq = ++seq_;
    request.reply.connection = ~std::uint32_t{0};
    request.request_crc = coordinator::RequestCrc(request);
    shard.Submit(request);
    Shard().active = true;
  }
  // Waits until it is so on the nodes' thread.
  template <class Condition>
  void Await(Condition condition) {
    ::ring::testing::Await("what the nodes come to", [&] {
      bool is = false;
      cluster_.Run([&] { is = condition(); });
      return is;
    });
  }

  testing::NodeCluster cluster_;
  std::uint64_t seq_ = 0;
};

TEST_F(MemberPortTest, E5AFailedRingIsNeverToldAsFolded) {
  std::uint64_t position = 0;
  NodeId member;
  cluster_.Run([&] {
    const cluster::View& view = *cluster_.node(0).view();
    const protocol::MemgestDescriptor& memgest = *view.FindMemgest("REP2");
    member = MemberOf(memgest.id);
    MemberPort::HeldShard& held = HeldAt(member);
    held.failed = true;
    held.credit_due = true;
    position = held.store->reader()->folded_position();
    Put(memgest.id);
  });
  Await([&] { return HeldAt(member).store->reader()->HasCommitted(); });
  cluster_.Run([&] {
    Port(member).ShareCredits();
    EXPECT_TRUE(HeldAt(member).credit_due) << "was told";
    EXPECT_FALSE(Port(member).HasCommitted());
    EXPECT_EQ(Port(member).Fold(100), 0);
    EXPECT_EQ(HeldAt(member).store->reader()->folded_position(), position);
  });
}

TEST_F(MemberPortTest, E5ARingThatMustWaitIsNotTriedEveryTurn) {
  NodeId member;
  cluster::View next;
  cluster_.Run([&] {
    next = *cluster_.node(0).view();
    protocol::MemgestDescriptor memgest = *next.FindMemgest("REP2");
    memgest.name = "later";
    memgest.id = MemgestId(static_cast<std::uint16_t>(next.memgests.back().id.value() + 1));
    next.memgests.push_back(memgest);
    ++next.epoch;
    cluster_.node(0).ApplyView(std::make_shared<cluster::View>(next));  // and nobody else
    member = MemberOf(memgest.id);
    Put(memgest.id);
  });
  Await([&] { return Port(member).wait_count() > 0; });
  cluster_.Run([&] {
    MemberPort& port = Port(member);
    MemberPort::HeldShard& held = HeldAt(member);
    held.retry_ns = ~std::uint64_t{0};
    const std::uint64_t waits = port.wait_count();
    EXPECT_FALSE(port.HasCommitted());
    EXPECT_EQ(port.Fold(100), 0);
    EXPECT_EQ(port.wait_count(), waits);
    held.retry_ns = 1;  // its time came
    EXPECT_TRUE(port.HasCommitted());
    EXPECT_EQ(port.Fold(100), 0);
    EXPECT_EQ(port.wait_count(), waits + 1);
    cluster_.node(member.value()).ApplyView(std::make_shared<cluster::View>(next));
    EXPECT_TRUE(port.HasCommitted());  // what it waited for may be there
    EXPECT_EQ(port.Fold(100), 1);
    EXPECT_FALSE(held.failed);
  });
}

// L5, E7: a seal that finds no ring of the epoch that it asks for has ended this one's queue pair
// all the same. What is here is folded on, and its credit goes nowhere.
TEST_F(MemberPortTest, L5ARingWhoseSealFailedIsFoldedWithoutItsQueuePair) {
  NodeId member;
  cluster_.Run([&] {
    const protocol::MemgestDescriptor& memgest = *cluster_.node(0).view()->FindMemgest("REP2");
    member = MemberOf(memgest.id);
    HeldAt(member).retry_ns = ~std::uint64_t{0};  // waits, as for memory
    Put(memgest.id);
  });
  Await([&] { return HeldAt(member).store->reader()->HasCommitted(); });
  cluster_.Run([&] {
    MemberPort::HeldShard& held = HeldAt(member);
    recovery::SealRequest request;
    request.group = Shard().group();
    request.shard = Shard().shard();
    request.epoch = Epoch(7);
    request.last_normal = Epoch(6);  // nobody's here
    request.incarnation = cluster_.node(member.value()).info().incarnation;
    EXPECT_THAT(Port(member).Seal(request).status(), StatusIs(absl::StatusCode::kAborted));
    ASSERT_NE(held.store->reader(), nullptr);
    EXPECT_EQ(held.qp, nullptr);
    EXPECT_FALSE(held.failed);
    held.retry_ns = 1;  // its time came
    EXPECT_EQ(Port(member).Fold(100), 1);
    EXPECT_TRUE(held.credit_due);
    EXPECT_FALSE(Port(member).ShareCredits());
    EXPECT_THAT(held.store->reader()->ShareCredit(true),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  });
}

// The view tells of a memgest, and at once that others count for it: what is not in the snapshot
// that a learner's ring goes on behind came through that ring.
TEST_F(MemberPortTest, S6ALearnersParityHasAllOfWhatItsSnapshotDidNotKnow) {
  cluster_.Run([&] {
    cluster::View next = *cluster_.node(0).view();
    protocol::MemgestDescriptor memgest = *next.FindMemgest("SRS21");
    memgest.name = "later";
    memgest.id = MemgestId(static_cast<std::uint16_t>(next.memgests.back().id.value() + 1));
    next.memgests.push_back(memgest);
    ++next.epoch;
    const GroupId group = Shard().group();
    for (cluster::ShardView& shard : next.groups[group.value()].shards) {
      shard.normal.holders.resize(static_cast<std::size_t>(next.s + next.d));
      shard.normal.memgests.emplace_back().id = memgest.id;  // it does not name the learner
    }
    const NodeId member = MemberOf(next.FindMemgest("SRS21")->id);
    HeldAt(member).join = MemberPort::HeldShard::Join::kLearner;
    Port(member).ApplyView(next);
    const memgest::ParityStore& parity = *Port(member).FindParity(group, memgest.id);
    for (std::uint16_t i = 0; i < next.s; ++i) {
      const bool is_learner = ShardId(i) == Shard().shard();
      EXPECT_EQ(parity.awaits(ShardId(i)), !is_learner) << i;
      EXPECT_EQ(parity.Covers(ShardId(i)), is_learner) << i;
    }
  });
}

// The old coordinator lives, and knows nothing of the next epoch: what it appends reaches nobody,
// and is acknowledged by nobody.
TEST_F(MemberPortTest, L5AMemberThatSealedTakesNothingMoreOfItsOldCoordinator) {
  NodeId member;
  memgest::LogWriter* writer = nullptr;
  MemgestId memgest;
  std::uint64_t before = 0;
  std::string sealed;
  // Of the ring, where the next entry would stand.
  const auto bytes = [&] {
    constexpr std::size_t kSize = std::size_t{64} << 10;
    const auto* const at = HeldAt(member).sealed_ring.address;
    return std::string(reinterpret_cast<const char*>(at), kSize);
  };
  cluster_.Run([&] {
    const cluster::View& view = *cluster_.node(0).view();
    memgest = view.FindMemgest("REP2")->id;
    member = MemberOf(memgest);
    const Role role = HeldAt(member).role;
    writer = Shard().coordinator()->FindMemgest(memgest)->members().Find(role)->writer;
    Put(memgest);
  });
  Await([&] {
    memgest::ShardLog& log = Shard().coordinator()->log();
    return log.commit_front() == log.next_order() && !HeldAt(member).store->HasWork();
  });
  cluster_.Run([&] {
    const Epoch epoch = HeldAt(member).store->promised();
    recovery::SealRequest request;
    request.group = Shard().group();
    request.shard = Shard().shard();
    request.epoch = Epoch(epoch.value() + 1);
    request.last_normal = epoch;
    request.incarnation = cluster_.node(member.value()).info().incarnation;
    before = writer->acked_order();
    EXPECT_OK(Port(member).Seal(request).status());
    sealed = bytes();
    Put(memgest);
  });
  Await([&] { return writer->broken() || writer->acked_order() > before; });
  cluster_.Run([&] {
    EXPECT_TRUE(writer->broken());
    EXPECT_EQ(writer->acked_order(), before);
    EXPECT_TRUE(bytes() == sealed) << "something landed in the sealed ring";
  });
}

class FollowingViewTest : public MemberPortTest {
 protected:
  absl::StatusOr<std::string> Show(const cluster::View& view) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    cluster_.Run([&] {
      cluster_.node(0).control().Call(
          NodeId(1), ControlType::kView, cluster::EncodeView(view), 20'000'000'000,
          [answer](absl::StatusOr<std::string> result) { answer->set_value(std::move(result)); });
    });
    return answer->get_future().get();
  }
  cluster::View Next() {
    cluster::View view;
    cluster_.Run([&] { view = *cluster_.node(1).view(); });
    ++view.epoch;
    return view;
  }
};

TEST_F(FollowingViewTest, G10AViewThatDeletesWhatIsNotDrainedIsRefused) {
  cluster::View view = Next();
  view.memgests.back().state = MemgestState::kDeleted;
  EXPECT_THAT(Show(view).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(FollowingViewTest, G10AViewThatDeletesAMemgestWithVersionsIsRefused) {
  const MemgestId memgest = Next().FindMemgest("REP2")->id;
  cluster_.Run([&] {
    coordinator::ShardCoordinator& shard = *cluster_.node(1).shards()[0]->coordinator();
    coordinator::Request request;
    request.operation = protocol::Operation::kPut;
    request.memgest = memgest;
    request.key = "key";
    request.client_id = {1, 2};
    request.client = shard.completions().FindOrAdd(request.client_id);
    request.seq = 1;
    request.reply.connection = ~std::uint32_t{0};
    request.request_crc = coordinator::RequestCrc(request);
    shard.Submit(request);
    cluster_.node(1).shards()[0]->active = true;
  });
  Await([&] {
    return cluster_.node(1).shards()[0]->coordinator()->FindMemgest(memgest)->version_count > 0;
  });
  cluster::View view = Next();
  for (const MemgestState state : {MemgestState::kDraining, MemgestState::kDeleted}) {
    view.memgests[memgest.value() - 1u].state = state;
    const absl::Status status = Show(view).status();
    ++view.epoch;
    if (state == MemgestState::kDraining) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
    }
  }
}

TEST_F(FollowingViewTest, ClientsGetTheViewOfTheDayHoweverOftenItChanged) {
  for (int i = 0; i < 6; ++i) {
    cluster::View view = Next();
    view.default_memgest = view.memgests[static_cast<std::size_t>(i) % 2].id;
    cluster_.Run([&] {
      for (std::uint32_t node = 0; node < view.nodes.size(); ++node)
        cluster_.node(node).ApplyView(std::make_shared<cluster::View>(view));
    });
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster_.Connect());
    EXPECT_OK(client->Put("key", "value", {}).status());
  }
}

TEST_F(FollowingViewTest, V2AViewThatChangesLosesOrRevivesAMemgestIsRefused) {
  const cluster::View known = Next();
  cluster::View changed = known;
  changed.memgests.back().m = 1;
  changed.memgests.back().k = 2;
  EXPECT_THAT(Show(changed).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  cluster::View lost = known;
  lost.memgests.pop_back();
  EXPECT_THAT(Show(lost).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  cluster::View was_deleted = known;
  was_deleted.memgests.back().state = MemgestState::kDeleted;
  EXPECT_THAT(CheckCatalogueFollows(was_deleted, known),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(Show(known).status());
}

}  // namespace
}  // namespace ring::node
