#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/cluster/default_memgests.h"

namespace ring::sim {
namespace {
constexpr std::uint64_t kReadyNs = 5'000'000'000;
}  // namespace

SimCluster::SimCluster(const ClusterOptions& options)
    : options_(options),
      network_(options.seed, options.fabric),
      random_(options.seed * 2 + 1),
      workload_(&random_),
      versions_(&history_) {}

SimCluster::~SimCluster() {
  admin_.reset();
  for (const std::shared_ptr<SimClient>& client : clients_) client->Close();
  for (const std::shared_ptr<SimNode>& node : nodes_) node->Close();
}

absl::Status SimCluster::Open() {
  node::NodeConfig config;
  config.cluster_name = "sim";
  config.s = options_.s;
  config.d = options_.d;
  for (int i = 0; i < options_.node_count; ++i) {
    node::NodeEntry entry;
    entry.name = absl::StrCat("n", i);
    entry.host = "sim";
    config.nodes.push_back(entry);
  }
  config.memgests = cluster::DefaultMemgests(config.s, config.d);
  for (protocol::MemgestDescriptor& memgest : config.memgests)
    memgest.block_size = options_.block_size;
  config.default_memgest = "REP3";
  config.ring_size = node::kRingSizeMin;
  config.arena_size_max = std::uint64_t{4} << 30;
  config.client_max = 64;
  cluster::View view = config.InitialView();
  for (int i = 0; i < options_.node_count; ++i) {
    const NodeId id(static_cast<std::uint32_t>(i));
    RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node,
                          SimNode::Open(&network_, config, id, &random_));
    view.nodes[id.value()] = node->node().info();
    nodes_.push_back(std::move(node));
  }
  RING_RETURN_IF_ERROR(view.Validate());
  const auto shared = std::make_shared<const cluster::View>(std::move(view));
  for (const std::shared_ptr<SimNode>& node : nodes_) {
    node->node().ApplyView(shared);
    node->Touch();
  }
  view_ = shared;
  for (const cluster::NodeInfo& info : shared->nodes) seeds_.push_back(info.local_address);
  admin_ = std::make_unique<SimAdmin>(nodes_[0]);
  const bool ready = RunUntil(network_.now_ns() + kReadyNs, [&] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const std::shared_ptr<SimNode>& node) { return node->node().ready(); });
  });
  if (ready) return absl::OkStatus();
  std::string missing;
  for (const std::shared_ptr<SimNode>& node : nodes_)
    absl::StrAppend(&missing, node->node().Missing(), " ");
  return absl::DeadlineExceededError(absl::StrCat("not ready: ", missing));
}

absl::Status SimCluster::AddClient(std::size_t window, std::uint64_t operations, bool sleeps) {
  SimClientOptions options;
  options.process = static_cast<int>(clients_.size());
  options.seeds = seeds_;
  options.window = window;
  options.operations = operations;
  options.sleeps = sleeps;
  options.deadline_ns = options_.deadline_ns;
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimClient> client,
                        SimClient::Start(&network_, &random_, &workload_, this, options));
  clients_.push_back(std::move(client));
  return absl::OkStatus();
}

bool SimCluster::RunUntil(std::uint64_t deadline_ns, absl::FunctionRef<bool()> condition,
                          std::uint64_t step_ns) {
  rdma::sim::EventQueue& events = network_.events();
  while (!condition()) {
    if (events.now_ns() >= deadline_ns) return false;
    const std::uint64_t until_ns = std::min(events.now_ns() + step_ns, deadline_ns);
    while (!events.empty() && events.next_ns() <= until_ns) events.RunNext();
    events.PassTo(until_ns);
  }
  return true;
}

const cluster::View& SimCluster::view() {
  for (const std::shared_ptr<SimNode>& node : nodes_) {
    if (!node->up()) continue;
    view_ = node->node().view();
    break;
  }
  return *view_;
}

bool SimCluster::Crashed(int process) const {
  return !clients_[static_cast<std::size_t>(process)]->up();
}

std::size_t SimCluster::Invoke(Operation op) {
  network_.Trace(std::uint64_t{1} << 63 | static_cast<std::uint64_t>(op.kind),
                 static_cast<std::uint64_t>(op.process), static_cast<std::uint64_t>(op.key));
  const std::size_t at = history_.Add(std::move(op));
  versions_.OnInvoke(at);
  return at;
}

void SimCluster::Return(std::size_t at, const Operation& op) {
  network_.Trace(std::uint64_t{3} << 62 | static_cast<std::uint64_t>(op.result), at,
                 op.version.bits() ^ op.value);
  history_[at] = op;
  const protocol::MemgestDescriptor* const memgest = view().FindMemgest(op.memgest);
  if (memgest != nullptr) {
    history_[at].memgest_name = memgest->name;
    history_[at].tolerates = memgest->FailuresTolerated();
  }
  versions_.OnReturn(at, memgest != nullptr && memgest->FailuresTolerated() >= 1);
}

void SimCluster::Complain(Violation violation) {
  constexpr std::size_t kEnough = 50;
  if (violations_.size() < kEnough) violations_.push_back(std::move(violation));
}

}  // namespace ring::sim
