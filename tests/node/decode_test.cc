// Values of coded memgests after their coordinator was lost: decoded at a parity node, in one
// process (rules S1, S2, S4, S5, S7, S12, I4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/cluster/routing.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

// Many blocks, and values of more than one.
void SmallBlocks(NodeConfig* config) {
  for (protocol::MemgestDescriptor& memgest : config->memgests) memgest.block_size = 16 * 1024;
}

std::string ValueOf(const std::string& key, std::size_t size) {
  std::string value;
  while (value.size() < size) absl::StrAppend(&value, key, "=", value.size(), ";");
  value.resize(size);
  return value;
}

class DecodeTest : public ::testing::Test {
 protected:
  void Start(std::size_t spare_count, const std::function<void(NodeConfig*)>& change = {}) {
    ASSERT_OK(cluster_.Start(spare_count, change));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  void Put(const std::string& key, const std::string& memgest, std::size_t size) {
    const std::string value = ValueOf(absl::StrCat(key, "#", ++puts_), size);
    const absl::StatusOr<WriteResult> put = client_->Put(key, value, {.memgest = memgest});
    ASSERT_TRUE(put.ok()) << key << ": " << put.status();
    values_[key] = value;
  }
  // Small values, some of a block and over.
  void Load(const std::string& memgest, int count) {
    for (int i = 0; i < count; ++i)
      Put(absl::StrCat(memgest, "/", i), memgest, static_cast<std::size_t>(1 + i * 1997 % 40'000));
  }

  NodeId OwnerOf(const std::string& key) {
    const cluster::Place place = cluster::Routing(cluster_.view().s, cluster_.view().d).OfKey(key);
    return cluster_.view().Coordinator(place.group, place.shard);
  }
  void Lose(NodeId lost) {
    cluster_.Kill(lost);
    ASSERT_OK(cluster_.Fail(lost));
  }

  void ExpectEverything() {
    for (const auto& [key, value] : values_) {
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_TRUE(got->value == value) << key;
    }
  }
  // Over all shards of all nodes.
  std::uint64_t BlocksLeft() {
    std::uint64_t left = 0;
    cluster_.Run([&] {
      for (std::uint32_t id = 0; id < cluster_.view().nodes.size(); ++id) {
        Node* const node = cluster_.node(NodeId(id));
        if (node == nullptr) continue;
        for (const std::unique_ptr<CoordinatedShard>& shard : node->shards()) {
          if (shard->values() != nullptr) left += shard->values()->blocks().blocks_left();
        }
      }
    });
    return left;
  }
  void WaitForAllBlocks() {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (BlocksLeft() > 0) {
      ASSERT_LT(absl::Now(), deadline) << "blocks left: " << BlocksLeft();
      std::this_thread::yield();
    }
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
  int puts_ = 0;
};

TEST_F(DecodeTest, ValuesOfALostCoordinatorAreDecodedWhenTheyAreAskedFor) {
  Start(1, SmallBlocks);
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) Load(memgest, 60);
  ASSERT_NO_FATAL_FAILURE(Lose(NodeId(1)));
  ASSERT_OK(cluster_.WaitServing());
  ExpectEverything();
}

TEST_F(DecodeTest, AllBlocksComeBackInTheBackground) {
  Start(1, SmallBlocks);
  for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) Load(memgest, 60);
  ASSERT_NO_FATAL_FAILURE(Lose(NodeId(1)));
  ASSERT_OK(cluster_.WaitServing());
  WaitForAllBlocks();
  ExpectEverything();
}

}  // namespace
}  // namespace ring::node
