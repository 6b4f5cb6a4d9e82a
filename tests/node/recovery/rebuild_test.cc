// Parities that are replaced under load (S6), whole nodes in one process: what the new ones hold is
// right, and enough to decode with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/node/scrub/scrub_message.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::HoldsWithin;
using ::ring::testing::kPatience;

void SmallBlocks(NodeConfig* config) {
  for (protocol::MemgestDescriptor& memgest : config->memgests) memgest.block_size = 16 * 1024;
}

// What can do without one of its parities (E5).
void KeepSrs32AndRep3(NodeConfig* config) {
  SmallBlocks(config);
  std::erase_if(config->memgests, [](const protocol::MemgestDescriptor& memgest) {
    return memgest.name != "SRS32" && memgest.name != "REP3";
  });
  config->default_memgest = "REP3";
}

std::string ValueOf(const std::string& key, std::size_t size) {
  std::string value;
  while (value.size() < size) absl::StrAppend(&value, key, "=", value.size(), ";");
  value.resize(size);
  return value;
}

class RebuildTest : public ::testing::Test {
 protected:
  ~RebuildTest() override { StopWriter(); }

  void Start(std::size_t spare_count,
             const std::function<void(NodeConfig*)>& change = SmallBlocks) {
    ASSERT_OK(cluster_.Start(spare_count, change));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }
  // Of each coded memgest so many keys, some of more than a block.
  void Load(int count) {
    for (const std::string& memgest : coded_) {
      for (int i = 0; i < count; ++i) {
        const std::string key = absl::StrCat(memgest, "/", i);
        const std::string value = ValueOf(key, static_cast<std::size_t>(1 + i * 1997 % 40'000));
        const absl::StatusOr<WriteResult> put = client_->Put(key, value, {.memgest = memgest});
        ASSERT_TRUE(put.ok()) << key << ": " << put.status();
        values_[key] = {value};
      }
    }
  }
  // Puts until it is stopped. Of a put that failed it is not known whether it is applied.
  void StartWriter() {
    stop_ = false;
    absl::StatusOr<std::unique_ptr<Client>> client = cluster_.Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    writer_ = std::thread([this, client = *std::move(client)] {
      for (int n = 0; !stop_; ++n) {
        const std::string& memgest = coded_[static_cast<std::size_t>(n) % coded_.size()];
        const std::string key = absl::StrCat("load/", memgest, "/", n % 40);
        const std::string value = ValueOf(absl::StrCat(n), static_cast<std::size_t>(1 + n % 3000));
        const absl::StatusOr<WriteResult> put = client->Put(key, value, {.memgest = memgest});
        std::vector<std::string>& maybe = loaded_[key];
        if (put.ok()) maybe.clear();
        maybe.push_back(value);
        acknowledged_ += put.ok() ? 1 : 0;
      }
    });
  }
  void StopWriter() {
    stop_ = true;
    if (writer_.joinable()) writer_.join();
    for (auto& [key, maybe] : loaded_) values_[key] = maybe;
    loaded_.clear();
  }
  void Lose(NodeId lost) {
    cluster_.Kill(lost);
    ASSERT_OK(cluster_.Fail(lost));
  }

  // Where a shard lacks blocks, of whose rows a scrub compares nothing.
  std::string NotDecoded() {
    const cluster::View& view = cluster_.view();
    for (std::uint16_t g = 0; g < view.group_count(); ++g) {
      for (std::uint16_t i = 0; i < view.s; ++i) {
        const NodeId owner = view.Coordinator(GroupId(g), ShardId(i));
        if (owner == cluster::kNoNode) continue;
        Node* const node = cluster_.node(owner);
        CoordinatedShard* const shard =
            node == nullptr ? nullptr : node->FindShard(GroupId(g), ShardId(i));
        if (shard == nullptr || shard->coordinator() == nullptr)
          return absl::StrCat("g", g, "/s", i, " is not there");
        for (const std::unique_ptr<memgest::Memgest>& memgest : shard->coordinator()->memgests()) {
          if (memgest != nullptr && memgest->coded() && memgest->allocator().lost_count() != 0)
            return absl::StrCat("g", g, "/s", i, " ", memgest->descriptor().name, " lacks blocks");
        }
      }
    }
    return "";
  }
  // What a parity that somebody holds is not complete in; empty: nothing.
  std::string NotRebuilt() {
    const cluster::View& view = cluster_.view();
    for (int g = 0; g < view.group_count(); ++g) {
      const cluster::GroupView& group = view.groups[static_cast<std::size_t>(g)];
      for (int i = 0; i < view.s; ++i) {
        const cluster::NormalRecord& normal = group.shards[static_cast<std::size_t>(i)].normal;
        for (const protocol::MemgestDescriptor& memgest : view.memgests) {
          if (memgest.scheme != protocol::Scheme::kStretchedReedSolomon) continue;
          for (int role = view.s; role < view.s + memgest.m; ++role) {
            if (group.roles[static_cast<std::size_t>(role)] == cluster::kNoNode) continue;
            const cluster::MemgestNormal* const set = normal.Find(memgest.id);
            if (normal.epoch == group.epoch && set != nullptr && set->active_from.empty() &&
                (set->complete >> role & 1) != 0) {
              continue;
            }
            return absl::StrCat("g", g, "/s", i, " ", memgest.name, " role ", role);
          }
        }
      }
    }
    return "";
  }
  void WaitRebuilt() {
    ASSERT_OK(cluster_.WaitUntilNothing([this] {
      const std::string missing = NotRebuilt();
      return missing.empty() ? NotDecoded() : missing;
    }));
  }

  // Asks every node that is there.
  std::vector<absl::StatusOr<std::string>> Ask(ControlType type, const std::string& body) {
    struct Round {
      std::vector<absl::StatusOr<std::string>> answers;
      std::size_t left = 0;
      std::promise<void> done;
    };
    auto round = std::make_shared<Round>();
    cluster_.Run([&] {
      std::vector<NodeId> there;
      for (std::uint32_t id = 0; id < cluster_.view().nodes.size(); ++id) {
        if (cluster_.node(NodeId(id)) != nullptr) there.push_back(NodeId(id));
      }
      round->left = there.size();
      for (const NodeId id : there) {
        cluster_.node(there[0])->control().Call(id, type, body, 20'000'000'000,
                                                [round](absl::StatusOr<std::string> answer) {
                                                  round->answers.push_back(std::move(answer));
                                                  if (--round->left == 0) round->done.set_value();
                                                });
      }
    });
    round->done.get_future().wait();
    return round->answers;
  }
  // A whole scrub: no mismatch. Gives how many rows were compared. One that an epoch change ends is
  // begun anew.
  void ExpectScrubFindsNothing(std::uint64_t* rows) {
    absl::Status ended;
    const auto scrub = [&] { return !absl::IsUnavailable(ended = Scrub(rows)); };
    ASSERT_TRUE(HoldsWithin(kPatience, scrub)) << ended;
    EXPECT_OK(ended);
  }
  absl::Status Scrub(std::uint64_t* rows) {
    const std::string id = EncodeScrubNumber(++scrubs_);
    for (const auto& answer : Ask(ControlType::kScrubStart, id))
      RING_RETURN_IF_ERROR(answer.status());
    absl::Status ended;
    for (bool done = false; !done && ended.ok();) {
      done = true;
      *rows = 0;
      for (const auto& answer : Ask(ControlType::kScrubPoll, id)) {
        RING_ASSIGN_OR_RETURN(const std::string body, answer);
        RING_ASSIGN_OR_RETURN(const ScrubState state, DecodeScrubState(body));
        ended.Update(state.status);
        EXPECT_EQ(state.report.mismatches, 0u) << ::testing::PrintToString(state.report.details);
        done &= state.done;
        *rows += state.report.rows_checked;
      }
    }
    for (const auto& answer : Ask(ControlType::kScrubStop, id)) ended.Update(answer.status());
    return ended;
  }
  void ExpectEverything() {
    for (const auto& [key, maybe] : values_) {
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_TRUE(std::find(maybe.begin(), maybe.end(), got->value) != maybe.end()) << key;
    }
  }

  // What is rebuilt agrees with the data, and serves without a coordinator of it.
  void ExpectItSurvives(NodeId lost) {
    std::uint64_t rows = 0;
    ExpectScrubFindsNothing(&rows);
    EXPECT_GT(rows, 0u);
    Lose(lost);
    ASSERT_OK(cluster_.WaitServing());
    ExpectEverything();
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::vector<std::string>> values_;  // any of them
  std::map<std::string, std::vector<std::string>> loaded_;  // the writer's
  std::thread writer_;
  std::vector<std::string> coded_ = {"SRS21", "SRS31", "SRS32"};
  std::atomic<bool> stop_ = true;
  std::atomic<int> acknowledged_ = 0;
  std::uint64_t scrubs_ = 0;
};

TEST_F(RebuildTest, S6AParityIsReplacedUnderLoadAndDecodesAfterwards) {
  Start(2);
  Load(40);
  std::uint64_t rows_before = 0;
  ExpectScrubFindsNothing(&rows_before);
  StartWriter();
  Lose(NodeId(4));
  ASSERT_OK(cluster_.WaitServing());
  const int served = acknowledged_;
  WaitRebuilt();
  ring::testing::Await("30 puts", [&] { return acknowledged_ >= served + 30; });
  StopWriter();
  std::uint64_t rows = 0;
  ExpectScrubFindsNothing(&rows);
  EXPECT_GE(rows, rows_before);
  ExpectEverything();
  Lose(NodeId(1));
  ASSERT_OK(cluster_.WaitServing());
  ExpectEverything();
}

// The node that is rebuilt is lost in the middle of it, and another one comes.
TEST_F(RebuildTest, S6AParityThatIsLostWhileItIsRebuiltIsReplacedAgain) {
  Start(2);
  Load(40);
  StartWriter();
  Lose(NodeId(3));
  ASSERT_OK(cluster_.WaitServing());
  Lose(NodeId(5));
  ASSERT_OK(cluster_.WaitServing());
  WaitRebuilt();
  StopWriter();
  std::uint64_t rows = 0;
  ExpectScrubFindsNothing(&rows);
  EXPECT_GT(rows, 0u);
  ExpectEverything();
}

// A memgest that nobody used, and one that needs bases: who joined counts for both, or for none.
TEST_F(RebuildTest, S6AParityIsCompleteThoughEpochsEndWithTheRecordsThatNameIt) {
  coded_ = {"SRS32"};
  Start(2);
  Load(20);
  cluster_.EndEpochsThatName(4);
  Lose(NodeId(3));
  ASSERT_OK(cluster_.WaitServing());
  WaitRebuilt();
  ExpectItSurvives(NodeId(1));
}

TEST_F(RebuildTest, S6AMemgestThatIsMadeWhileAParityJoinsIsProtected) {
  coded_ = {"SRS32"};
  Start(1, KeepSrs32AndRep3);
  Load(20);
  const GroupId group(1);
  const NodeId joiner = cluster_.PresentView()->groups[group.value()].roles[3];
  // It is sent no snapshot as long as nothing comes through to it.
  const auto drop_until = [&](std::uint64_t until_ns) {
    for (std::uint32_t id = 0; id < cluster_.view().nodes.size(); ++id)
      cluster_.node(joiner)->control().DropUntil(NodeId(id), until_ns);
  };
  cluster_.Run([&] { drop_until(~std::uint64_t{0}); });
  const Epoch epoch = cluster_.PresentView()->groups[group.value()].epoch;
  ASSERT_OK(cluster_.Apply(cluster::NewEpoch{group, epoch, 1u << 3, "slow"}));
  ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
    for (std::uint16_t i = 0; i < 3; ++i) {
      const auto& held = *cluster_.node(joiner)->members().Find(group, ShardId(i));
      const bool waits = held.join == MemberPort::HeldShard::Join::kAwaitsSnapshot;
      if (!waits || held.qp == nullptr) return "does not join yet";
    }
    return "";
  }));
  protocol::MemgestDescriptor made = *cluster_.PresentView()->FindMemgest("SRS32");
  made.name = "MADE";
  ASSERT_OK(cluster_.Apply(cluster::CreateCommand({"test", 1}, made)));
  const MemgestId id = cluster_.PresentView()->FindMemgest("MADE")->id;
  ASSERT_OK(cluster_.Apply(cluster::SetStateCommand(
      {"test", 2}, id, protocol::MemgestState::kCreating, protocol::MemgestState::kActive)));
  cluster_.Run([&] { drop_until(0); });
  ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
    for (const cluster::ShardView& shard : cluster_.view().groups[group.value()].shards) {
      const cluster::MemgestNormal* const set = shard.normal.Find(id);
      if (set == nullptr || (set->complete >> 3 & 1) == 0) return "role 3 is not complete";
    }
    return "";
  }));
  coded_ = {"MADE"};
  Load(20);
  ExpectItSurvives(NodeId(1));
}

// A parity whose sums hold what it is to be sent anew: they go, and all shards of the group join.
TEST_F(RebuildTest, S6AParityThatBeginsAgainDropsWhatItHeld) {
  coded_ = {"SRS32"};
  Start(0, KeepSrs32AndRep3);
  Load(40);
  StartWriter();
  for (const std::uint32_t role : {3u, 4u}) {
    absl::Status demoted;
    const auto demote = [&] {  // refused until the role that joined before is complete
      Epoch present;
      cluster_.Run([&] { present = cluster_.view().groups[1].epoch; });
      demoted = cluster_.Apply(cluster::NewEpoch{GroupId(1), present, 1u << role, "slow"});
      return !absl::IsFailedPrecondition(demoted);
    };
    ASSERT_TRUE(HoldsWithin(kPatience, demote)) << demoted;
    ASSERT_OK(demoted);
    ASSERT_OK(cluster_.WaitServing());
    WaitRebuilt();
  }
  StopWriter();
  std::uint64_t rows = 0;
  ExpectScrubFindsNothing(&rows);
  EXPECT_GT(rows, 0u);
  ExpectEverything();
}

// Node 4 is lost, node 3 was silent for a moment, and who comes back first takes its roles: it gets
// the next ones, and is another parity of group 0 than it was.
TEST_F(RebuildTest, E7ANodeThatGetsAnotherRoleIsASourceInTheOldOneAndJoinsInTheNew) {
  coded_ = {"SRS32"};  // what survives two losses
  Start(0, [](NodeConfig* config) {
    SmallBlocks(config);
    std::erase_if(config->memgests, [](const protocol::MemgestDescriptor& memgest) {
      return memgest.name != "SRS32" && memgest.name != "REP4";
    });
    config->default_memgest = "REP4";
  });
  Load(40);
  const GroupId group(0);
  const NodeId node(3);
  Lose(NodeId(4));
  ASSERT_OK(cluster_.WaitServing());
  cluster_.LoseNormals(true);
  ASSERT_OK(cluster_.Fail(node));
  ASSERT_OK(cluster_.Restart(NodeId(4)));
  ASSERT_OK(cluster_.RegisterAgain(node));
  ASSERT_EQ(cluster_.PresentView()->groups[0].roles[4], node);
  // The epoch may be abandoned: what it has of the last Normal one is sealed, and kept.
  ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
    const Epoch epoch = cluster_.view().groups[0].epoch;
    for (std::uint16_t i = 0; i < 3; ++i) {
      const auto& held = *cluster_.node(node)->members().Find(group, ShardId(i));
      if (held.store->promised() != epoch) return "not sealed";
      EXPECT_EQ(held.role, Role(3));
      EXPECT_EQ(held.join, MemberPort::HeldShard::Join::kNo);
    }
    return "";
  }));
  cluster_.LoseNormals(false);
  ASSERT_OK(cluster_.WaitServing());
  ASSERT_OK(cluster_.WaitProtected());
  WaitRebuilt();
  cluster_.Run([&] {
    Node& moved = *cluster_.node(node);
    EXPECT_EQ(moved.members().held_shards().size(), 5 * 3 - moved.shards().size());
    for (const MemberPort::HeldShard& held : moved.members().held_shards()) {
      const std::optional<Role> role =
          cluster_.view().RoleOf(held.group, node, moved.info().incarnation);
      EXPECT_EQ(role, held.role);
      EXPECT_NE(role->value(), held.shard.value());
    }
    const MemgestId coded = cluster_.view().FindMemgest("SRS32")->id;
    EXPECT_EQ(moved.members().FindParity(group, coded)->parity_index(), 1);
  });
  std::uint64_t rows = 0;
  ExpectScrubFindsNothing(&rows);
  EXPECT_GT(rows, 0u);
  ExpectEverything();
  cluster_.Kill(NodeId(0));
  ASSERT_OK(cluster_.Restart(NodeId(0)));
  ASSERT_OK(cluster_.WaitServing());
  ExpectEverything();  // decoded
}

}  // namespace
}  // namespace ring::node
