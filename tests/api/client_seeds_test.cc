#include "api/client_seeds.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::api {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
using Seeds = std::vector<std::string>;

TEST(ParseSeeds, TakesEveryFormAndListsAndDropsRepetitions) {
  EXPECT_THAT(ParseSeeds(Seeds{"127.0.0.1:7000, tcp:node2:7001,,shm:/tmp/ring", "local:a",
                               "tcp:127.0.0.1:7000", "rdma:10.0.0.1:7001", "[::1]:7000"}),
              IsOkAndHolds(ElementsAre("tcp:127.0.0.1:7000", "tcp:node2:7001", "shm:/tmp/ring",
                                       "local:a", "rdma:10.0.0.1:7001", "tcp:[::1]:7000")));
}

TEST(ParseSeeds, NamesTheSeedThatIsWrong) {
  for (const std::string seed :
       {"localhost", "host:", "host:0", "host:65536", "host:7x", ":7000", "tcp:7000", "rdma:h",
        "rdma:", "shm:", "local:", "::1:7000", "a host:7000"}) {
    EXPECT_THAT(ParseSeeds(Seeds{seed}), StatusIs(kInvalid, HasSubstr("seed=" + seed))) << seed;
  }
  EXPECT_THAT(ParseSeeds(Seeds{}), StatusIs(kInvalid, HasSubstr("no seeds")));
  EXPECT_THAT(ParseSeeds(Seeds{" , "}), StatusIs(kInvalid, HasSubstr("no seeds")));
}

// Devices connect to numbers alone.
TEST(ResolveSeed, PutsANumberInThePlaceOfAName) {
  for (const char* const seed : {"tcp:10.0.0.1:7000", "rdma:10.0.0.1:7000", "shm:/tmp/localhost",
                                 "local:localhost", "tcp:[::1]:7000"}) {
    std::string resolved = seed;
    EXPECT_OK(ResolveSeed(&resolved));
    EXPECT_EQ(resolved, seed);
  }
  std::string name = "tcp:localhost:7000";
  EXPECT_OK(ResolveSeed(&name));
  EXPECT_THAT(name, ::testing::AnyOf("tcp:127.0.0.1:7000", "tcp:[::1]:7000"));
  std::string nobody = "rdma:nobody.invalid:7000";
  EXPECT_THAT(std::string(ResolveSeed(&nobody).message()), HasSubstr("nobody.invalid:7000"));
  EXPECT_EQ(nobody, "rdma:nobody.invalid:7000");
}

TEST(NodeAddresses, AutoPrefersTheNearestLinkThatCanWork) {
  cluster::NodeInfo node;
  node.local_address = "local:n";
  node.shm_address = "shm:/n";
  node.tcp_address = "tcp:h:1";
  node.host = "boot-1";
  node.rdma_address = "rdma:h:2";
  EXPECT_THAT(NodeAddresses(node, Transport::kAuto, "boot-1", true),
              ElementsAre("local:n", "shm:/n", "rdma:h:2", "tcp:h:1"));
  EXPECT_THAT(NodeAddresses(node, Transport::kAuto, "boot-2", true),
              ElementsAre("rdma:h:2", "tcp:h:1"));
  EXPECT_THAT(NodeAddresses(node, Transport::kAuto, "boot-2", false), ElementsAre("tcp:h:1"));
  EXPECT_THAT(NodeAddresses(node, Transport::kAuto, "", false), ElementsAre("tcp:h:1"));
}

TEST(NodeAddresses, ANamedTransportNeverFallsBack) {
  cluster::NodeInfo node;
  node.tcp_address = "tcp:h:1";
  node.shm_address = "shm:/n";
  EXPECT_THAT(NodeAddresses(node, Transport::kShm, "other", true), ElementsAre("shm:/n"));
  EXPECT_THAT(NodeAddresses(node, Transport::kTcp, "other", true), ElementsAre("tcp:h:1"));
  EXPECT_TRUE(NodeAddresses(node, Transport::kLocal, "other", true).empty());
  EXPECT_TRUE(NodeAddresses(node, Transport::kRdma, "other", true).empty());
  node.rdma_address = "rdma:h:2";
  EXPECT_THAT(NodeAddresses(node, Transport::kRdma, "other", false), ElementsAre("rdma:h:2"));
}

TEST(SeedsFromEnvironment, ReadsRingSeeds) {
  ASSERT_EQ(setenv("RING_SEEDS", "10.0.0.1:7000,10.0.0.2:7000", 1), 0);
  EXPECT_THAT(ClientOptions::SeedsFromEnvironment(),
              IsOkAndHolds(ElementsAre("tcp:10.0.0.1:7000", "tcp:10.0.0.2:7000")));
  ASSERT_EQ(unsetenv("RING_SEEDS"), 0);
  EXPECT_THAT(ClientOptions::SeedsFromEnvironment(), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ring::api
