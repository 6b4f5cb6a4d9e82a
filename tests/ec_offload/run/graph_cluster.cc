#include "tests/ec_offload/run/graph_cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rdma/engine/engine_device.h"
#include "ring/base/check.h"
#include "tests/support/await.h"

namespace ring::ec_offload {

using rdma::LinkKind;

namespace {

// So little that turns alone never reach a run's deadline, however long they have to wait for
// another thread.
constexpr std::uint64_t kTurnNs = 1;

// Of several cards, every other node has the second one.
std::unique_ptr<rdma::Device> OpenDevice(LinkKind link, NodeId node) {
  rdma::SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = rdma::IsShm(link);
  options.qp_count_max = 128;
  options.rnr_timeout_ms = 60'000;  // a SEND without a receive hangs
  options.tcp_uring = false;
  options.verbs = rdma::TestVerbsOptions(/*peer=*/node % 2 == 1);
  if (!rdma::HasEngine(link)) {
    auto device = rdma::OpenSoftDevice(options);
    RING_CHECK(device.ok()) << device.status();
    return *std::move(device);
  }
  auto device = rdma::OpenEngineDevice({.soft = options});
  RING_CHECK(device.ok()) << device.status();
  return *std::move(device);
}

}  // namespace

GraphCluster::Host& GraphCluster::HostOf(NodeId node) {
  Host& host = hosts_[node];
  if (host.device != nullptr) return host;
  host.device = OpenDevice(options_.link, node);
  if (options_.faulty) {
    auto faulty = std::make_unique<rdma::FaultyDevice>(std::move(host.device), &clock_, 1);
    host.faulty = faulty.get();
    host.device = std::move(faulty);
  }
  host.address = *host.device->Listen(rdma::FreshAddress(options_.link));
  host.loop_address = *host.device->Listen(rdma::FreshAddress(LinkKind::kLocal));
  return host;
}

void GraphCluster::MakeRun(NodeId node) {
  Host& host = HostOf(node);
  auto run = NodeRun::Create(*graph_, node,
                             {.device = host.device.get(),
                              .loop_address = host.loop_address,
                              .thresholds = options_.thresholds,
                              .calculate_on_host = options_.calculate_on_host,
                              .replace_calculator = options_.replace_calculator});
  RING_CHECK(run.ok()) << run.status();
  runs_[node] = *std::move(run);
}

void GraphCluster::Load(const Graph& graph) {
  runs_.clear();
  graph_ = std::make_unique<Graph>(graph);
  std::set<NodeId> nodes;
  for (const Vertex& vertex : graph.vertices()) nodes.insert(vertex.node);
  for (const NodeId node : nodes) MakeRun(node);
  Connect();
}

void GraphCluster::Reconnect() {
  for (auto& [node, run] : runs_) {
    if (run == nullptr) {
      MakeRun(node);
    } else {
      run->Disconnect();
    }
  }
  Connect();
}

void GraphCluster::Connect() {
  NodeAddresses addresses;
  for (const auto& [node, host] : hosts_) addresses[node] = host.address;
  for (auto& [node, run] : runs_) {
    const absl::Status status = run->Connect(addresses);
    RING_CHECK(status.ok()) << status;
  }
  RING_CHECK(RunUntil([&] {
    return std::all_of(runs_.begin(), runs_.end(), [](auto& entry) {
      RING_CHECK(entry.second->connect_status().ok()) << entry.second->connect_status();
      return entry.second->connected();
    });
  })) << "the nodes of a graph do not connect";
}

void GraphCluster::Kill(NodeId node) {
  runs_.at(node).reset();
  hosts_.at(node) = Host();
}

void GraphCluster::Fill(const StripeMemory& memory) {
  for (const ChunkPlace& place : graph_->sources()) {
    const std::vector<std::byte>& bytes = memory.at(place);
    std::copy(bytes.begin(), bytes.end(), runs_.at(place.node)->chunk(place.chunk).begin());
  }
}

absl::Status GraphCluster::Prepare() {
  for (auto& [node, run] : runs_) {
    if (run == nullptr) continue;
    if (const absl::Status status = run->Prepare(clock_.now_ns + kTimeoutNs); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

void GraphCluster::Start() {
  for (auto& [node, run] : runs_) {
    if (run != nullptr) static_cast<void>(run->Start());
  }
}

absl::Status GraphCluster::Finish(absl::FunctionRef<bool()> is_stuck) {
  const auto over = [](auto& entry) { return entry.second == nullptr || entry.second->done(); };
  bool jumped = false;
  const bool ended = RunUntil([&] {
    if (!jumped && is_stuck()) {
      clock_.now_ns += kTimeoutNs;
      jumped = true;
    }
    return std::all_of(runs_.begin(), runs_.end(), over);
  });
  RING_CHECK(ended) << "a run does not end" << (jumped ? " at its deadline" : "");
  for (auto& [node, run] : runs_) {
    if (run != nullptr && !run->status().ok()) return run->status();
  }
  return absl::OkStatus();
}

void GraphCluster::TakeResults(StripeMemory& memory) {
  for (const ChunkPlace& place : graph_->results()) {
    const absl::Span<const std::byte> bytes = runs_.at(place.node)->chunk(place.chunk);
    memory[place].assign(bytes.begin(), bytes.end());
  }
}

absl::Status GraphCluster::Run(StripeMemory& memory, absl::FunctionRef<bool()> is_stuck) {
  Fill(memory);
  if (const absl::Status status = Prepare(); !status.ok()) return status;
  Start();
  const absl::Status status = Finish(is_stuck);
  if (status.ok()) TakeResults(memory);
  return status;
}

void GraphCluster::Turn() {
  clock_.now_ns += kTurnNs;
  for (auto& [node, run] : runs_) {
    if (run != nullptr) run->Progress(clock_.now_ns);
  }
}

bool GraphCluster::RunUntil(absl::FunctionRef<bool()> condition) {
  return testing::HoldsWithin(testing::kPatience, condition, [this] { Turn(); });
}

}  // namespace ring::ec_offload
