#include "tools/ringctl/doctor/needs.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ring::tools {
namespace {

node::NodeConfig Config(int node_count) {
  node::NodeConfig config;
  for (int i = 0; i < node_count; ++i) {
    node::NodeEntry entry;
    entry.name = absl::StrCat("n", i);
    entry.host = i < 2 ? "a" : entry.name;
    entry.data = absl::StrCat("10.0.0.", i + 1, ":7800");
    config.nodes.push_back(entry);
  }
  return config;
}

TEST(NeedsOf, CountsTheNodesOfThisMachine) {
  node::NodeConfig config = Config(6);
  EXPECT_EQ(NeedsOf(config, 2).nodes_here, 2);
  EXPECT_EQ(NeedsOf(config, 2).reactors, 2);
  config.self = NodeId(4);
  EXPECT_EQ(NeedsOf(config, 1).nodes_here, 1);
}

TEST(NeedsOf, TakesTheMemoryThatTheDocumentsSay) {
  const Needs needs = NeedsOf(Config(6), 1);
  EXPECT_EQ(needs.arena_size, std::uint64_t{8} << 30);
  // 48 MiB of rings, 3/4 of staging, 4 of scratch.
  EXPECT_NEAR(static_cast<double>(needs.fixed_size), 52.75 * (1 << 20), 1 << 20);
  EXPECT_GT(needs.descriptors, 1024u);
}

TEST(NeedsOf, WhatIsNeededFollowsTheTransport) {
  node::NodeConfig config = Config(6);
  config.nodes[0].shm = "/run/ring/n0";
  EXPECT_EQ(NeedsOf(config, 1).tcp, Need::kMay);
  EXPECT_EQ(NeedsOf(config, 1).shm, Need::kMay);
  config.transport = node::Transport::kTcp;
  EXPECT_EQ(NeedsOf(config, 1).tcp, Need::kMust);
  EXPECT_EQ(NeedsOf(config, 1).shm, Need::kNo);
  config.transport = node::Transport::kShm;
  EXPECT_EQ(NeedsOf(config, 1).tcp, Need::kNo);
  EXPECT_EQ(NeedsOf(config, 1).shm, Need::kMust);
}

TEST(NeedsOf, EachClientAndNodeTakesTwoMoreDescriptorsOverSharedMemory) {
  node::NodeConfig config = Config(6);
  const std::uint64_t without = NeedsOf(config, 1).descriptors;
  config.nodes[0].shm = "/run/ring/n0";
  EXPECT_EQ(NeedsOf(config, 1).descriptors, without + 2 * (config.client_max + 6));
}

TEST(NeedsOf, RdmaIsNeededWhereItIsAskedForAndMayBeWhereThereIsAnAddress) {
  node::NodeConfig config = Config(6);
  config.rdma_device = "mlx5_0";
  config.rdma_gid_index = 3;
  EXPECT_EQ(NeedsOf(config, 1).rdma, Need::kNo);
  config.nodes[0].rdma = "10.1.0.1:7801";
  EXPECT_EQ(NeedsOf(config, 1).rdma, Need::kMay);
  EXPECT_EQ(NeedsOf(config, 1).rdma_device, "mlx5_0");
  EXPECT_EQ(NeedsOf(config, 1).rdma_gid_index, 3);
  config.transport = node::Transport::kRdma;
  EXPECT_EQ(NeedsOf(config, 1).rdma, Need::kMust);
  EXPECT_EQ(NeedsOf(config, 1).tcp, Need::kMay);  // for clients
  config.transport = node::Transport::kTcp;
  EXPECT_EQ(NeedsOf(config, 1).rdma, Need::kNo);
  config.nodes[3].transport = node::Transport::kRdma;  // by which this one reaches it
  EXPECT_EQ(NeedsOf(config, 1).rdma, Need::kMust);
}

// Of it the file says what is for all nodes, and what others' links ask of it.
TEST(NeedsOfAdded, MayHaveTheAddressesThatOthersHave) {
  node::NodeConfig config = Config(6);
  EXPECT_EQ(NeedsOfAdded(config, 2).tcp, Need::kMay);
  EXPECT_EQ(NeedsOfAdded(config, 2).shm, Need::kNo);
  EXPECT_EQ(NeedsOfAdded(config, 2).rdma, Need::kNo);
  EXPECT_EQ(NeedsOfAdded(config, 2).nodes_here, 1);
  EXPECT_EQ(NeedsOfAdded(config, 2).reactors, 2);
  EXPECT_GT(NeedsOfAdded(config, 2).descriptors, NeedsOf(config, 2).descriptors);
  config.nodes[3].rdma = "10.1.0.4:7801";
  config.rdma_device = "mlx5_0";
  EXPECT_EQ(NeedsOfAdded(config, 1).rdma, Need::kMay);
  EXPECT_EQ(NeedsOfAdded(config, 1).rdma_device, "mlx5_0");
  config.transport = node::Transport::kRdma;
  EXPECT_EQ(NeedsOfAdded(config, 1).rdma, Need::kMust);
}

}  // namespace
}  // namespace ring::tools
