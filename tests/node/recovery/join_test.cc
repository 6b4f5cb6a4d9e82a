// A node that gets a redundant role joins: it is brought up to date, named, and gets the values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

class JoinTest : public ::testing::Test {
 protected:
  // What is coded is protected again by rebuilding parities, which is tested where that is.
  void Start(std::size_t spare_count) {
    ASSERT_OK(cluster_.Start(spare_count, [](NodeConfig* config) {
      std::erase_if(config->memgests, [](const protocol::MemgestDescriptor& memgest) {
        return memgest.scheme != protocol::Scheme::kReplicated;
      });
    }));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  std::string Value(int i) const {
    return std::string(static_cast<std::size_t>(1 + i * 997 % 20000),
                       static_cast<char>('a' + i % 26));
  }
  // Small and large values. A key without a coordinator is left out.
  void Load(const std::string& memgest, int count, const std::string& tag) {
    for (int i = 0; i < count; ++i) {
      const std::string key = absl::StrCat(tag, "/", memgest, "/", i);
      if (cluster_.OwnerOf(key) == cluster::kNoNode) continue;
      const absl::StatusOr<WriteResult> put = client_->Put(key, Value(i), {.memgest = memgest});
      ASSERT_TRUE(put.ok()) << key << ": " << put.status();
      values_[key] = Value(i);
    }
  }
  void ExpectEverything() {
    for (const auto& [key, value] : values_) {
      if (cluster_.OwnerOf(key) == cluster::kNoNode) continue;
      const absl::StatusOr<GetResult> got = client_->Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_EQ(got->value, value) << key;
    }
  }
  void Lose(NodeId node) {
    cluster_.Kill(node);
    ASSERT_OK(cluster_.Fail(node));
    ASSERT_OK(cluster_.WaitServing());
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
};

// E6: a spare that took a lost replica's role has what is acknowledged when it is counted, and when
// it is complete a further loss is survived as the first one was.
TEST_F(JoinTest, E6ASecondLossAfterProtectionWasRenewedLosesNothing) {
  Start(2);
  for (const char* memgest : {"REP2", "REP3", "REP4"}) Load(memgest, 40, "before");
  ASSERT_OK(cluster_.WaitProtected());
  Lose(NodeId(3));
  for (const char* memgest : {"REP2", "REP3", "REP4"}) Load(memgest, 20, "between");
  ASSERT_OK(cluster_.WaitProtected());
  ExpectEverything();
  Lose(NodeId(1));
  ExpectEverything();
  ASSERT_OK(cluster_.WaitProtected());
  ExpectEverything();
}

// The one that joins is lost before it was named: another one begins, of what the others have.
TEST_F(JoinTest, AJoinerThatDiesLeavesNothingBehind) {
  Start(2);
  Load("REP3", 60, "before");
  cluster_.Kill(NodeId(3));
  ASSERT_OK(cluster_.Fail(NodeId(3)));
  Lose(NodeId(5));
  Load("REP3", 20, "after");
  ASSERT_OK(cluster_.WaitProtected());
  ExpectEverything();
  Lose(NodeId(4));  // no spare is left: the survivors have everything
  ExpectEverything();
}

// L8: a node that comes back with an empty memory gets what is vacant, as any other.
TEST_F(JoinTest, L8ANodeThatComesBackEmptyJoinsAgain) {
  Start(0);
  Load("REP2", 40, "before");
  Load("REP3", 40, "before");
  for (const NodeId node : {NodeId(4), NodeId(2), NodeId(4)}) {
    Lose(node);
    Load("REP3", 10, absl::StrCat("without/", node.value()));
    ASSERT_OK(cluster_.Restart(node));
    ASSERT_OK(cluster_.WaitProtected());
    ExpectEverything();
  }
}

// A node that was only silent lost its roles: the memory of its shards comes back.
TEST_F(JoinTest, V6AShardThatWasLostIsForgottenWhenNothingRefersToIt) {
  Start(1);
  Load("REP3", 40, "before");
  ASSERT_OK(cluster_.Fail(NodeId(1)));
  ASSERT_OK(cluster_.WaitServing());
  ExpectEverything();
  ASSERT_OK(cluster_.WaitUntilNothing([this] {
    const Node& node = *cluster_.node(NodeId(1));
    return node.lost_shard_count() == 0 ? ""
                                        : absl::StrCat(node.lost_shard_count(), " lost shards");
  }));
}

}  // namespace
}  // namespace ring::node
