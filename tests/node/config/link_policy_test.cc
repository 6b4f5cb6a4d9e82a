#include "ring/node/config/link_policy.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr Transport kAll[] = {Transport::kAuto, Transport::kShm, Transport::kTcp, Transport::kRdma};

// Lines 5 and 6 are those of [node], 8 to 11 and 13 to 16 those of the two nodes.
std::string Text(absl::string_view cluster, absl::string_view a, absl::string_view b) {
  return absl::StrCat("[cluster]\nname = \"c\"\ns = 1\nd = 1\n[node]\nname = \"a\"", cluster,
                      "\n[[nodes]]\nname = \"a\"\ndata = \"h:1\"\nrdma = \"h:2\"\n", a,
                      "\n[[nodes]]\nname = \"b\"\ndata = \"i:1\"\nrdma = \"i:2\"\n", b, "\n");
}

std::string Quoted(Transport transport) {
  return absl::StrCat("transport = \"", TransportName(transport), "\"");
}

NodeConfig Parsed(const std::string& text) {
  absl::StatusOr<NodeConfig> config = ParseNodeConfig(text, "f");
  EXPECT_OK(config.status()) << text;
  return config.ok() ? *config : NodeConfig();
}

TEST(LinkPolicy, ANodesOwnTransportGoesBeforeTheClusters) {
  const NodeId a(0), b(1), added(7);
  const NodeConfig none = Parsed(Text("", "", ""));
  EXPECT_EQ(LinkPolicy(none, a, b), Transport::kAuto);
  const NodeConfig one = Parsed(Text("\ntransport = \"tcp\"", "", Quoted(Transport::kRdma)));
  EXPECT_EQ(LinkPolicy(one, a, b), Transport::kRdma);
  EXPECT_EQ(LinkPolicy(one, b, a), Transport::kRdma);
  EXPECT_EQ(LinkPolicy(one, a, a), Transport::kTcp);
  EXPECT_EQ(LinkPolicy(one, a, added), Transport::kTcp);
  EXPECT_EQ(LinkPolicy(one, b, added), Transport::kRdma);
}

TEST(LinkPolicy, AutoGivesWayAndTwoOthersMustBeEqual) {
  NodeConfig config;
  config.nodes.resize(2);
  for (const Transport one : kAll) {
    for (const Transport other : kAll) {
      config.nodes[0].transport = one;
      config.nodes[1].transport = other;
      const auto policy = LinkPolicy(config, NodeId(0), NodeId(1));
      EXPECT_EQ(policy, LinkPolicy(config, NodeId(1), NodeId(0)));
      if (one == Transport::kAuto) {
        EXPECT_EQ(policy, other);
      } else if (other == Transport::kAuto || one == other) {
        EXPECT_EQ(policy, one);
      } else {
        EXPECT_EQ(policy, std::nullopt);
      }
    }
  }
}

TEST(LinkPolicy, TwoNodesThatDisagreeAreRefusedWithBothLines) {
  EXPECT_THAT(
      ParseNodeConfig(Text("", Quoted(Transport::kTcp), Quoted(Transport::kRdma)), "f"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("f:11:13: nodes name=a and name=b disagree: transport=tcp here, "
                               "transport=rdma in line 16"),
                     HasSubstr("give both the same, or one of them \"auto\""))));
}

TEST(LinkPolicy, AnAddressThatATransportNeedsAndIsNotThereIsRefusedWhereItIsAskedFor) {
  const auto refused = [](const std::string& text, const std::string& place,
                          const std::string& what) {
    EXPECT_THAT(ParseNodeConfig(text, "f"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("f:" + place + ": "), HasSubstr(what))))
        << text;
  };
  const std::string rdma = "\ntransport = \"rdma\"";
  const auto without = [](const std::string& text, absl::string_view line) {
    return absl::StrReplaceAll(text, {{line, ""}});
  };
  refused(without(Text(rdma, "", ""), "rdma = \"i:2\"\n"), "7:13",
          "transport=rdma, and node name=b has no rdma address: add rdma = \"HOST:PORT\"");
  refused(without(Text("", "", Quoted(Transport::kRdma)), "rdma = \"h:2\"\n"), "15:13",
          "node name=a has no rdma address");
  refused(without(Text("", Quoted(Transport::kTcp), ""), "data = \"i:1\"\n"), "11:13",
          "node name=b has no data address");
  refused(Text("", Quoted(Transport::kShm), ""), "11:13", "has no shm path");
  // auto needs what works without a device.
  refused(without(Text("", "", ""), "data = \"i:1\"\n"), "5:1",
          "for rdma alone say transport = \"rdma\"");
  refused(Text("\ntransport = \"ib\"", "", ""), "7:13",
          "must be \"auto\", \"shm\", \"tcp\" or \"rdma\"");
  refused(Text("", Quoted(Transport::kTcp).replace(13, 3, "udp"), ""), "11:13", "must be");
  refused(absl::StrReplaceAll(Text("", "", ""), {{"\"i:2\"", "\"i\""}}), "15:8",
          "must be HOST:PORT");
  refused(absl::StrReplaceAll(Text("", "", ""), {{"\"i:2\"", "\"h:2\""}}), "15:8",
          "two nodes have rdma=h:2");
  refused(Text("\nrdma_gid_index = 256", "", ""), "7:18", "rdma_gid_index=256");
  refused(Text(absl::StrCat("\nrdma_device = \"", std::string(64, 'd'), "\""), "", ""), "7:15",
          "size=64");
}

TEST(LinkPolicy, RdmaIsTakenAsItIsAskedFor) {
  const NodeConfig config =
      Parsed(Text("\ntransport = \"rdma\"\nrdma_device = \"mlx5_1\"\nrdma_gid_index = 3", "", ""));
  EXPECT_EQ(config.transport, Transport::kRdma);
  EXPECT_EQ(config.rdma_device, "mlx5_1");
  EXPECT_EQ(config.rdma_gid_index, 3);
  const cluster::View view = config.InitialView();
  EXPECT_EQ(view.nodes[1].rdma_address, "rdma:i:2");
  // Clients of nodes that talk by rdma alone may come by TCP all the same.
  EXPECT_EQ(view.nodes[1].tcp_address, "tcp:i:1");
  EXPECT_TRUE(Requires(config, NodeId(0), Transport::kRdma));
  EXPECT_FALSE(Requires(config, NodeId(0), Transport::kTcp));
}

TEST(LinkPolicy, ANodeListensWhereSomeLinkOfItMayCome) {
  const std::string tcp = "\ntransport = \"tcp\"";
  const NodeConfig plain = Parsed(Text(tcp, "", ""));
  EXPECT_EQ(plain.InitialView().nodes[0].rdma_address, "");
  EXPECT_FALSE(MayUse(plain, NodeId(0), Transport::kRdma));
  const NodeConfig mixed = Parsed(Text(tcp, "", Quoted(Transport::kRdma)));
  EXPECT_EQ(mixed.InitialView().nodes[0].rdma_address, "rdma:h:2");
  EXPECT_EQ(mixed.InitialView().nodes[1].rdma_address, "rdma:i:2");
  EXPECT_TRUE(Requires(mixed, NodeId(0), Transport::kRdma));
  EXPECT_TRUE(Requires(mixed, NodeId(0), Transport::kTcp));  // to who is added
  EXPECT_FALSE(Requires(mixed, NodeId(1), Transport::kTcp));
}

// One node at every kind of place.
struct Place {
  bool same_process;
  bool same_host;
  bool self_device;
  bool peer_rdma;
  bool peer_known;
  bool peer_shm;
  bool peer_tcp;
};

// auto, in words: local, else shm on the same host, else rdma if both have a device and the peer
// was heard of, else tcp.
std::string Expected(const Place& at, Transport policy) {
  const std::string shm = at.peer_shm ? "shm:/p" : "";
  const std::string tcp = at.peer_tcp ? "tcp:p:1" : "";
  const std::string rdma = at.peer_rdma && at.self_device ? "rdma:p:2" : "";
  if (policy == Transport::kShm) return shm;
  if (policy == Transport::kTcp) return tcp;
  if (policy == Transport::kRdma) return rdma;
  if (at.same_process) return "local:p";
  if (at.same_host && at.peer_shm) return shm;
  return !rdma.empty() && at.peer_known ? rdma : tcp;
}

TEST(ChooseLink, TakesTheBestLinkThatThePolicyAllowsAndNoOther) {
  for (unsigned bits = 0; bits < 128; ++bits) {
    const auto bit = [bits](unsigned i) { return ((bits >> i) & 1) != 0; };
    const Place at = {bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6)};
    cluster::NodeInfo self;
    self.host = "here";
    if (at.self_device) self.rdma_address = "rdma:s:2";
    cluster::NodeInfo peer;
    peer.id = NodeId(1);
    peer.host = at.same_host ? "here" : "there";
    peer.incarnation = Incarnation(at.peer_known ? 5 : 0);
    if (at.same_process) peer.local_address = "local:p";
    if (at.peer_shm) peer.shm_address = "shm:/p";
    if (at.peer_tcp) peer.tcp_address = "tcp:p:1";
    if (at.peer_rdma) peer.rdma_address = "rdma:p:2";
    for (const Transport policy : kAll) {
      const LinkChoice choice = ChooseLink(self, peer, policy);
      EXPECT_EQ(choice.address, Expected(at, policy))
          << "bits=" << bits << " policy=" << TransportName(policy);
      EXPECT_FALSE(choice.why.empty());
    }
  }
}

TEST(ChooseLink, SaysWhyItWasNotRdma) {
  cluster::NodeInfo self;
  self.host = "here";
  cluster::NodeInfo peer;
  peer.host = "there";
  peer.tcp_address = "tcp:p:1";
  EXPECT_EQ(ChooseLink(self, peer, Transport::kAuto).why, "another host, it has no rdma address");
  peer.rdma_address = "rdma:p:2";
  EXPECT_EQ(ChooseLink(self, peer, Transport::kAuto).why, "another host, no device here");
  EXPECT_THAT(ChooseLink(self, peer, Transport::kRdma).why, HasSubstr("this node has no rdma"));
  self.rdma_address = "rdma:s:2";
  EXPECT_THAT(ChooseLink(self, peer, Transport::kAuto).why, HasSubstr("has not said yet"));
  peer.incarnation = Incarnation(1);
  EXPECT_EQ(ChooseLink(self, peer, Transport::kAuto).why, "both have a device");
}

// A cluster of which one half has devices: the view says which, and each pair goes by what it has.
TEST(ChooseLink, AMixedClusterTakesRdmaBetweenThoseThatHaveIt) {
  NodeConfig config;
  config.cluster_name = "c";
  config.s = 3;
  config.d = 2;
  for (int i = 0; i < 6; ++i) {
    NodeEntry entry;
    entry.name = entry.host = absl::StrCat("n", i);
    entry.data = absl::StrCat("h", i, ":1");
    if (i < 3) entry.rdma = absl::StrCat("h", i, ":2");
    config.nodes.push_back(entry);
  }
  config.nodes[5].host = "n4";
  config.nodes[4].shm = "/n4";
  config.nodes[5].shm = "/n5";
  config.nodes[2].transport = Transport::kTcp;
  config.memgests = {protocol::MemgestDescriptor()};
  config.memgests[0].id = MemgestId(1);
  config.memgests[0].name = config.default_memgest = "REP2";
  config.memgests[0].r = 2;
  ASSERT_EQ(CheckTransport(config), std::nullopt);
  cluster::View view = config.InitialView();
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.nodes[2].rdma_address, "") << "its own transport does without";
  for (cluster::NodeInfo& node : view.nodes) node.incarnation = Incarnation(7);
  const auto link = [&](std::uint32_t from, std::uint32_t to) {
    const auto policy = LinkPolicy(config, NodeId(from), NodeId(to));
    const std::string address = ChooseLink(view.nodes[from], view.nodes[to], *policy).address;
    return address.substr(0, address.find(':'));
  };
  EXPECT_EQ(link(0, 1), "rdma");
  EXPECT_EQ(link(1, 0), "rdma");
  EXPECT_EQ(link(0, 2), "tcp");
  EXPECT_EQ(link(2, 0), "tcp");
  EXPECT_EQ(link(0, 3), "tcp");
  EXPECT_EQ(link(4, 5), "shm");
  // A device that did not open is not in the view.
  view.nodes[1].rdma_address.clear();
  EXPECT_EQ(link(0, 1), "tcp");
  EXPECT_EQ(link(1, 0), "tcp");
}

TEST(IsOtherTransport, LooksAtTheSchemeAlone) {
  EXPECT_TRUE(IsOtherTransport("tcp:h:1", "rdma:h:1"));
  EXPECT_FALSE(IsOtherTransport("tcp:h:1", "tcp:h:2"));
  EXPECT_FALSE(IsOtherTransport("", "tcp:h:2"));
  EXPECT_FALSE(IsOtherTransport("tcp:h:1", ""));
}

}  // namespace
}  // namespace ring::node
