// A graph whose nodes are processes: the same bytes, and an error for those who wait for one that
// was killed.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/graph/node_run.h"
#include "ec_offload/schemes/triec.h"
#include "rdma/engine/engine_device.h"
#include "ring/base/check.h"
#include "tests/contract/fabric_harness.h"
#include "tests/rdma/child_process.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::Channel;
using rdma::ChildProcess;
using rdma::LinkKind;

constexpr std::size_t kNodeCountMax = 8;
constexpr std::size_t kAddressSizeMax = 128;
constexpr int kRuns = 3;
constexpr std::uint64_t kTimeoutNs = 5'000'000'000;

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Where processes say at which address they listen.
struct Board {
  char addresses[kNodeCountMax][kAddressSizeMax];
};

// One node: says 'l' when it listens, connects at 'c', and does a run for every 'p' and 's'. Tells
// the outcome: 'd', 'w' for wrong bytes, or 'e'.
int NodeMain(const Graph& graph, NodeId node, LinkKind link, InecWay way, Board* board,
             const StripeMemory& memory, Channel channel) {
  rdma::SoftDeviceOptions soft;
  soft.arena_size_max = std::uint64_t{64} << 20;
  soft.shareable = rdma::IsShm(link);
  soft.rnr_timeout_ms = 60'000;
  soft.tcp_uring = false;
  auto device = rdma::OpenEngineDevice({.soft = soft});
  RING_CHECK(device.ok()) << device.status();
  const std::string address = *(*device)->Listen(rdma::FreshAddress(link));
  std::strncpy(board->addresses[node], address.c_str(), kAddressSizeMax - 1);
  auto run =
      NodeRun::Create(graph, node,
                      {.device = device->get(),
                       .loop_address = *(*device)->Listen(rdma::FreshAddress(LinkKind::kLocal)),
                       .thresholds = InecThresholds::Always(way)});
  RING_CHECK(run.ok()) << run.status();
  for (const ChunkPlace& place : graph.sources()) {
    if (place.node != node) continue;
    const std::vector<std::byte>& bytes = memory.at(place);
    std::copy(bytes.begin(), bytes.end(), (*run)->chunk(place.chunk).begin());
  }
  if (!channel.Tell('l') || !channel.Await('c')) return 1;
  NodeAddresses peers;
  for (const Vertex& vertex : graph.vertices()) peers[vertex.node] = board->addresses[vertex.node];
  RING_CHECK((*run)->Connect(peers).ok());
  while (!(*run)->connected()) (*run)->Progress(NowNs());
  if (!channel.Tell('c')) return 1;
  for (int i = 0; i < kRuns; ++i) {
    if (!channel.Await('p')) return 1;
    const bool prepared = (*run)->Prepare(NowNs() + kTimeoutNs).ok();
    if (!channel.Tell('p') || !channel.Await('s')) return 1;
    if (prepared) static_cast<void>((*run)->Start());
    while (!(*run)->done()) (*run)->Progress(NowNs());
    char outcome = prepared && (*run)->status().ok() ? 'd' : 'e';
    for (const ChunkPlace& place : graph.results()) {
      if (place.node != node || outcome == 'e') continue;
      const absl::Span<const std::byte> chunk = (*run)->chunk(place.chunk);
      if (!std::equal(chunk.begin(), chunk.end(), memory.at(place).begin())) outcome = 'w';
    }
    if (!channel.Tell(outcome)) return 1;
  }
  return 0;
}

class OfProcesses : public ::testing::TestWithParam<std::tuple<LinkKind, InecWay>> {
 protected:
  void SetUp() override {
    auto scheme = *MakeTriEcScheme({.k = 3, .m = 2});
    graph_ = std::make_unique<Graph>(*scheme->Encode(3000));
    SeededRandom random(13);
    for (const ChunkPlace& place : graph_->sources())
      memory_[place] = testing::RandomBytes(random, graph_->chunk_size());
    ASSERT_OK(RunInMemory(*graph_, memory_));
    void* const shared =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    board_ = static_cast<Board*>(shared);
    std::set<NodeId> nodes;
    for (const Vertex& vertex : graph_->vertices()) nodes.insert(vertex.node);
    for (const NodeId node : nodes) {
      children_.push_back(std::make_unique<ChildProcess>([&](Channel channel) {
        return NodeMain(*graph_, node, std::get<0>(GetParam()), std::get<1>(GetParam()), board_,
                        memory_, channel);
      }));
    }
    AwaitAll('l');
    TellAll('c');
    AwaitAll('c');
  }
  void TearDown() override {
    children_.clear();
    // Those that were killed left their sockets.
    for (const char* address : board_->addresses) {
      if (absl::string_view path(address); absl::ConsumePrefix(&path, "shm:")) unlink(path.data());
    }
    munmap(board_, sizeof(Board));
  }
  void TellAll(char what) {
    for (auto& child : children_) ASSERT_TRUE(child->channel().Tell(what));
  }
  void AwaitAll(char what) {
    for (auto& child : children_) ASSERT_TRUE(child->channel().Await(what)) << what;
  }

  std::unique_ptr<Graph> graph_;
  StripeMemory memory_;
  Board* board_ = nullptr;
  std::vector<std::unique_ptr<ChildProcess>> children_;  // by node
};

TEST_P(OfProcesses, RunsGiveWhatMemoryGives) {
  for (int i = 0; i < kRuns; ++i) {
    TellAll('p');
    AwaitAll('p');
    TellAll('s');
    AwaitAll('d');
  }
  for (auto& child : children_) EXPECT_EQ(child->AwaitExit(), 0);
}

TEST_P(OfProcesses, OneThatIsKilledMidGraphEndsTheRunOfThoseWhoWaitForIt) {
  TellAll('p');
  AwaitAll('p');
  constexpr std::size_t kDataNode = 1;  // the parities wait for it, nodes 3 and 4
  children_[kDataNode]->Kill();
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (i != kDataNode) {
      ASSERT_TRUE(children_[i]->channel().Tell('s'));
    }
  }
  for (const std::size_t parity : {3U, 4U}) EXPECT_TRUE(children_[parity]->channel().Await('e'));
}

std::string NameOf(const ::testing::TestParamInfo<OfProcesses::ParamType>& info) {
  const auto& [link, way] = info.param;
  return rdma::LinkKindName(link) + (way == InecWay::kCoherent ? "Coherent" : "Incoherent");
}

INSTANTIATE_TEST_SUITE_P(Links, OfProcesses,
                         ::testing::Combine(::testing::Values(LinkKind::kShm, LinkKind::kTcp),
                                            ::testing::Values(InecWay::kCoherent,
                                                              InecWay::kIncoherent)),
                         NameOf);

}  // namespace
}  // namespace ring::ec_offload
