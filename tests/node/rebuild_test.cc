// Parities that are replaced under load (S6), whole nodes in one process: what the new ones hold is
// right, and enough to decode with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/node/scrub_message.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(90);
constexpr const char* kCoded[] = {"SRS21", "SRS31", "SRS32"};

void SmallBlocks(NodeConfig* config) {
  for (protocol::MemgestDescriptor& memgest : config->memgests) memgest.block_size = 16 * 1024;
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

  void Start(std::size_t spare_count) {
    ASSERT_OK(cluster_.Start(spare_count, SmallBlocks));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }
  // Of each coded memgest so many keys, some of more than a block.
  void Load(int count) {
    for (const char* const memgest : kCoded) {
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
        const char* const memgest = kCoded[n % 3];
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
    const absl::Time deadline = absl::Now() + kPatience;
    for (;;) {
      std::string missing;
      cluster_.Run([&] { missing = NotRebuilt(); });
      if (missing.empty()) return;
      ASSERT_LT(absl::Now(), deadline) << missing;
      std::this_thread::yield();
    }
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
  // A whole scrub: no mismatch. Gives how many rows were compared.
  void ExpectScrubFindsNothing(std::uint64_t* rows) {
    const std::string id = EncodeScrubNumber(++scrubs_);
    for (const auto& answer : Ask(ControlType::kScrubStart, id)) ASSERT_OK(answer.status());
    const absl::Time deadline = absl::Now() + kPatience;
    for (bool done = false; !done;) {
      ASSERT_LT(absl::Now(), deadline);
      done = true;
      *rows = 0;
      for (const auto& answer : Ask(ControlType::kScrubPoll, id)) {
        ASSERT_OK(answer.status());
        ASSERT_OK_AND_ASSIGN(const ScrubState state, DecodeScrubState(*answer));
        ASSERT_OK(state.status);
        ASSERT_EQ(state.report.mismatches, 0u) << ::testing::PrintToString(state.report.details);
        done &= state.done;
        *rows += state.report.rows_checked;
      }
    }
    for (const auto& answer : Ask(ControlType::kScrubStop, id)) ASSERT_OK(answer.status());
  }
  void ExpectEverything() {
    for (const auto& [key, maybe] : values_) {
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_TRUE(std::find(maybe.begin(), maybe.end(), got->value) != maybe.end()) << key;
    }
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::vector<std::string>> values_;  // any of them
  std::map<std::string, std::vector<std::string>> loaded_;  // the writer's
  std::thread writer_;
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
  while (acknowledged_ < served + 30) std::this_thread::yield();
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

// A parity whose sums hold what it is to be sent anew: they go, and all shards of the group join.
TEST_F(RebuildTest, S6AParityThatBeginsAgainDropsWhatItHeld) {
  Start(0);
  Load(40);
  StartWriter();
  for (const std::uint32_t role : {3u, 4u}) {
    Epoch present;
    cluster_.Run([&] { present = cluster_.view().groups[1].epoch; });
    ASSERT_OK(cluster_.Apply(cluster::NewEpoch{GroupId(1), present, 1u << role, "slow"}));
    ASSERT_OK(cluster_.WaitServing());
    WaitRebuilt();
  }
  StopWriter();
  std::uint64_t rows = 0;
  ExpectScrubFindsNothing(&rows);
  EXPECT_GT(rows, 0u);
  ExpectEverything();
}

}  // namespace
}  // namespace ring::node
