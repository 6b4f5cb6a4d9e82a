// Nodes that reach each other by rdma, where the configuration says so and where both can. What
// carries it is card_device.h: a real one is for machines that have it.
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
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
    const DeviceFactory factory = testing::MakeCards(cards, cut_);
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
        Client::Connect({.seeds = {(*cluster_.admin().GetView())->nodes[0].tcp_address},
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

  // Why one node cannot ask another one; empty: it can.
  std::string WhyNot(std::uint32_t from, std::uint32_t to) {
    auto done = std::make_shared<std::promise<std::string>>();
    cluster_.Run([&] {
      cluster_.node(from).control().Call(NodeId(to), ControlType::kPing, "", 5'000'000'000,
                                         [done](const absl::StatusOr<std::string>& answer) {
                                           done->set_value(std::string(answer.status().message()));
                                         });
    });
    return done->get_future().get();
  }

  std::shared_ptr<std::atomic<bool>> cut_ = std::make_shared<std::atomic<bool>>(false);
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
  const auto view = *cluster_.admin().GetView();
  EXPECT_TRUE(absl::StartsWith(view->nodes[0].rdma_address, "rdma:127.0.0.1:"));
  EXPECT_EQ(view->nodes[4].rdma_address, "");
  ExpectServed();
}

// The others' view has the address of its former start, at which nobody listens any more.
TEST_F(RdmaLinksTest, ANodeThatComesBackWithoutItsDeviceIsReachedByTcp) {
  Start({"n0", "n1", "n2", "n3", "n4", "n5"}, Transport::kAuto);
  ASSERT_TRUE(HoldsWithin(
      kPatience, [&] { return Schemes(0) == std::vector<std::string>(5, "rdma") && AllReady(); }));
  const Incarnation former = (*cluster_.admin().GetView())->nodes[5].incarnation;
  cluster_.Kill(NodeId(5));
  ASSERT_TRUE(HoldsWithin(kPatience, [&] {
    const auto view = *cluster_.admin().GetView();
    return view->nodes[5].status == cluster::NodeStatus::kDown;
  }));
  const DeviceFactory none = testing::MakeCards({});
  ASSERT_OK(cluster_.Restart(NodeId(5), &none));
  const std::vector<std::string> all_but_one = {"rdma", "rdma", "rdma", "rdma", "tcp"};
  EXPECT_TRUE(HoldsWithin(kPatience, [&] {
    const auto view = *cluster_.admin().GetView();
    return view->nodes[5].status == cluster::NodeStatus::kUp &&
           view->nodes[5].incarnation != former && view->nodes[5].rdma_address.empty() &&
           Schemes(0) == all_but_one && AllReady();
  }));
  EXPECT_EQ(Schemes(5), std::vector<std::string>(5, "tcp"));
  ExpectServed();
}

// A network of cards that does not carry, between cards that are open, is not hidden by tcp.
TEST_F(RdmaLinksTest, ANodeThatFailedAndDidNotRestartComesBackByRdmaOnly) {
  Start({"n0", "n1", "n2", "n3", "n4", "n5"}, Transport::kAuto);
  ASSERT_TRUE(HoldsWithin(
      kPatience, [&] { return Schemes(0) == std::vector<std::string>(5, "rdma") && AllReady(); }));
  const Incarnation present = (*cluster_.admin().GetView())->nodes[5].incarnation;
  cut_->store(true);
  cluster_.Run([&] {
    for (std::uint32_t i = 0; i < 5; ++i) cluster_.node(i).control().Break(NodeId(5));
  });
  const auto status = [&] { return (*cluster_.admin().GetView())->nodes[5].status; };
  ASSERT_TRUE(HoldsWithin(kPatience, [&] { return status() == cluster::NodeStatus::kDown; }));
  // Attempts of every other node by both ways, and none of them has it up.
  for (const char* why : {"network is cut", "its start that failed is reached by rdma only"}) {
    for (std::uint32_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(HoldsWithin(kPatience, [&] { return absl::StrContains(WhyNot(i, 5), why); }));
      EXPECT_EQ(status(), cluster::NodeStatus::kDown);
    }
  }
  cut_->store(false);
  EXPECT_TRUE(
      HoldsWithin(kPatience, [&] { return status() == cluster::NodeStatus::kUp && AllReady(); }));
  EXPECT_EQ((*cluster_.admin().GetView())->nodes[5].incarnation, present);
  EXPECT_EQ(Schemes(0), std::vector<std::string>(5, "rdma"));
}

TEST_F(RdmaLinksTest, ACardThatIsTakenOutIsToldOnce) {
  Start({"n0", "n1", "n2"}, Transport::kAuto);
  ASSERT_TRUE(HoldsWithin(kPatience, [&] { return AllReady(); }));
  EXPECT_EQ(cluster_.cards_lost(), 0);
  cut_->store(true);
  ASSERT_TRUE(HoldsWithin(kPatience, [&] { return cluster_.cards_lost() == 3; }));
  for (int i = 0; i < 200; ++i) cluster_.Run([] {});
  EXPECT_EQ(cluster_.cards_lost(), 3);
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

TEST_F(RdmaLinksTest, ANodeThatTheFileDoesNotNameSaysSoInWhatToDo) {
  const absl::Status refused =
      cluster_.Begin(true, false, FenceKind::kLease, [](NodeConfig* config) {
        config->transport = Transport::kRdma;
        config->nodes[5].rdma = kNowhere;
        config->added_count = 1;
      });
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("ringctl doctor --config FILE --node n5 --added says"));
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
