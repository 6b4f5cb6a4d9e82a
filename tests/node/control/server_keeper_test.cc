// Which servers the leader adds, and which of them it makes voters (10.4, 10.6).
#include "ring/node/control/server_keeper.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/consensus/replica_net.h"

namespace ring::node {
namespace {

using consensus::MakeServerId;
using consensus::ServerId;

// Nodes 0 .. 3; all are to be voters, and the first one is.
class ServerKeeperTest : public ::testing::Test {
 protected:
  static ServerId ServerOf(std::uint32_t node) {
    return MakeServerId(static_cast<std::uint16_t>(node), 1);
  }
  static consensus::ReplicaOptions CaughtUpMeansAll() {
    consensus::ReplicaOptions options;
    options.raft.promote_lag_max = 0;
    return options;
  }
  ServerKeeperTest() : net_(std::vector<std::uint64_t>{ServerOf(0).value()}, CaughtUpMeansAll()) {
    net_.Elect(ServerOf(0).value());
    net_.Settle();
  }
  void Run(int turns) {
    for (int i = 0; i < turns; ++i) {
      keeper_.Progress(now_ns_ += 20'000'000);
      net_.TickAll(1);
    }
  }
  bool IsVoter(std::uint32_t node) {
    return net_.replica(ServerOf(0).value()).configuration().IsVoter(ServerOf(node));
  }

  consensus::ReplicaNet net_;
  ServerKeeper keeper_{&net_.replica(ServerOf(0).value()), 4};
  std::uint64_t now_ns_ = 0;
};

// 10.4: of two learners the first one died before it was a voter.
TEST_F(ServerKeeperTest, ALearnerThatIsSilentKeepsNoOtherFromBecomingAVoter) {
  net_.Start(ServerOf(2).value());
  keeper_.Want(NodeId(1), ServerOf(1));  // it never starts
  keeper_.Want(NodeId(2), ServerOf(2));
  Run(200);
  EXPECT_FALSE(IsVoter(1));
  EXPECT_TRUE(IsVoter(2));
  net_.Start(ServerOf(1).value());  // it comes back, and its turn comes
  Run(200);
  EXPECT_TRUE(IsVoter(1));
}

}  // namespace
}  // namespace ring::node
