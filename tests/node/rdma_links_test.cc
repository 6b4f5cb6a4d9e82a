// Nodes that reach each other by rdma, where the configuration says so and where both can. What
// carries it is card_device.h: a real one is for machines that have it.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/node/card_device.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::HoldsWithin;
using ::ring::testing::kPatience;
using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// An address that no machine has, by RFC 5737: it is refused with a card as well as without one.
constexpr char kNowhere[] = "192.0.2.1:1";

class RdmaLinksTest : public ::testing::Test {
 protected:
  void Start(const std::set<std::string>& cards, Transport transport) {
    const DeviceFactory factory = testing::MakeCards(cards);
    cluster_.UseDevices(&factory);
    cluster_.HideLocal();
    ASSERT_OK(cluster_.Start(/*fail_over=*/true, false, FenceKind::kLease,
                             [transport](NodeConfig* config) {
                               config->transport = transport;
                               for (NodeEntry& node : config->nodes) {
                                 node.rdma = "127.0.0.1:0";
                                 node.shm.clear();
                               }
                             }));
  }
  // The schemes of the addresses by which one node connects to the others, in their order.
  std::vector<std::string> Schemes(std::uint32_t from) {
    std::vector<std::string> schemes;
    cluster_.Run([&] {
      for (std::uint32_t to = 0; to < 6; ++to) {
        if (to == from) continue;
        const std::string address = cluster_.node(from).control().AddressOf(NodeId(to));
        schemes.push_back(address.substr(0, address.find(':')));
      }
    });
    return schemes;
  }
  bool AllReady() {
    bool ready = true;
    cluster_.Run([&] {
      for (std::uint32_t i = 0; i < 6; ++i) ready &= cluster_.node(i).ready();
    });
    return ready;
  }
  void ExpectServed() {
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<Client> client,
        Client::Connect({.seeds = {cluster_.admin().GetView()->nodes[0].tcp_address},
                         .transport = ring::Transport::kTcp}));
    for (const char* memgest : {"REP3", "SRS32"}) {
      for (int i = 0; i < 20; ++i) {
        const std::string key = std::string(memgest) + std::to_string(i);
        ASSERT_OK(client->Put(key, key, {.memgest = memgest}).status());
        ASSERT_OK_AND_ASSIGN(const GetResult got, client->Get(key));
        EXPECT_EQ(got.value, key);
      }
    }
  }

  testing::NodeCluster cluster_;
};

TEST_F(RdmaLinksTest, RdmaAloneIsTheOnlyLinkBetweenNodes) {
  Start({"n0", "n1", "n2", "n3", "n4", "n5"}, Transport::kRdma);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(Schemes(i), std::vector<std::string>(5, "rdma")) << "node " << i;
  }
  ExpectServed();
}

TEST_F(RdmaLinksTest, AutoTakesRdmaWhereBothHaveADeviceAndTcpToTheOthers) {
  Start({"n0", "n1", "n2"}, Transport::kAuto);
  const std::vector<std::string> card = {"rdma", "rdma", "tcp", "tcp", "tcp"};
  const std::vector<std::string> none(5, "tcp");
  // Each as soon as the other one has said, in the view, that it has a device.
  EXPECT_TRUE(HoldsWithin(kPatience, [&] {
    return Schemes(0) == card && Schemes(1) == card && Schemes(2) == card && AllReady();
  }));
  EXPECT_EQ(Schemes(3), none);
  EXPECT_EQ(Schemes(5), none);
  const auto view = cluster_.admin().GetView();
  EXPECT_TRUE(absl::StartsWith(view->nodes[0].rdma_address, "rdma:127.0.0.1:"));
  EXPECT_EQ(view->nodes[4].rdma_address, "");
  ExpectServed();
}

TEST_F(RdmaLinksTest, ANodeThatHasToHaveItDoesNotStartWithoutAndSaysWhatToDo) {
  const absl::Status refused =
      cluster_.Begin(true, false, FenceKind::kLease, [](NodeConfig* config) {
        config->transport = Transport::kRdma;
        config->rdma_device = "mlx5_7";
        for (NodeEntry& node : config->nodes) node.rdma = kNowhere;
      });
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(std::string("rdma=") + kNowhere + " rdma_device=mlx5_7"),
                    HasSubstr("ringctl doctor --config FILE --node n0"),
                    HasSubstr("transport = \"auto\"")));
}

TEST_F(RdmaLinksTest, ANodeThatAnotherOneReachesByRdmaAloneHasToHaveIt) {
  const absl::Status refused =
      cluster_.Begin(true, false, FenceKind::kLease, [](NodeConfig* config) {
        for (NodeEntry& node : config->nodes) node.rdma = kNowhere;
        config->nodes[5].transport = Transport::kRdma;
      });
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--node n0"));
}

}  // namespace
}  // namespace ring::node
