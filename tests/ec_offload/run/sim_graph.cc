#include "tests/ec_offload/run/sim_graph.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/graph/node_run.h"
#include "ec_offload/schemes/lrc.h"
#include "rdma/sim/sim_device.h"
#include "rdma/sim/sim_network.h"
#include "ring/base/check.h"
#include "ring/base/random.h"
#include "tests/ec_offload/schemes/all_schemes.h"
#include "tests/support/random_bytes.h"

namespace ring::ec_offload {
namespace {

using rdma::sim::FaultClass;
using rdma::sim::HostId;
using rdma::sim::SimNetwork;
using rdma::sim::SimOptions;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kDeadlineNs = 5 * kMs;
constexpr std::uint64_t kLateNs = kMs;                   // that a host may need to notice
constexpr std::uint64_t kSoundDeadlineNs = 4'000 * kMs;  // nothing is waited for so long

// A calculator that gives one wrong byte, and says nothing.
class WrongByteCalculator final : public rdma::Calculator {
 public:
  explicit WrongByteCalculator(std::unique_ptr<rdma::Calculator> below)
      : below_(std::move(below)) {}
  std::size_t input_count() const override { return below_->input_count(); }
  std::size_t output_count() const override { return below_->output_count(); }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override {
    if (!below_->Run(inputs, outputs, length, crcs)) return false;
    outputs[0][length / 2] ^= std::byte{4};
    return true;
  }

 private:
  std::unique_ptr<rdma::Calculator> below_;
};

class SimGraph {
 public:
  SimGraph(std::uint64_t seed, SimGraphBreak broken)
      : random_(seed), broken_(broken), network_(seed, SimOptions()) {}
  ~SimGraph() {
    for (auto& [number, node] : nodes_) node.run.reset();
  }
  SimGraphOutcome Run();

 private:
  struct Node {
    HostId host = rdma::sim::kNoHost;
    std::unique_ptr<rdma::Device> device;
    std::unique_ptr<NodeRun> run;
    std::string address;
    bool crashed = false;
    std::uint64_t deadline_ns = 0;
  };

  bool Coin() { return random_.Below(2) == 0; }
  void DrawGraph();
  void DrawFaults(SimOptions* options);
  void Open(NodeId number);
  void Connect();
  void Blow();
  void Turn();
  void RunOnce(std::uint64_t deadline_ns, bool blows);
  bool Done() const;
  absl::Status FirstError() const;
  bool ResultsFit() const;
  void Fill();
  void Complain(std::string why) {
    if (outcome_.complaint.empty()) outcome_.complaint = absl::StrCat(outcome_.what, ": ", why);
  }

  SeededRandom random_;
  SimGraphBreak broken_;
  SimNetwork network_;
  SimGraphOutcome outcome_;
  std::unique_ptr<Graph> graph_;
  InecWay way_ = InecWay::kCoherent;
  bool on_host_ = false;
  std::map<NodeId, Node> nodes_;
  StripeMemory expected_;
  std::vector<std::uint64_t> blows_ns_;
  int starts_ = 0;
};

void SimGraph::DrawGraph() {
  const bool large = random_.Below(3) == 0;
  const std::size_t k = large ? 6 : 3, m = large ? 3 : 2;
  const auto number = static_cast<std::size_t>(random_.Below(std::size(kMdsSchemes) + 1));
  const bool lrc = number == std::size(kMdsSchemes);
  auto scheme = lrc ? MakeLrcScheme({4, 2, 2, Field::kGf256})
                    : MakeMdsScheme(kMdsSchemes[number], {k, m, Field::kGf256, std::nullopt});
  RING_CHECK(scheme.ok()) << scheme.status();
  const std::size_t chunk_size = 1 + random_.Below(300);
  std::set<ChunkId> lost;
  const std::size_t losses = 1 + random_.Below(m);
  while (lost.size() < losses) lost.insert(static_cast<ChunkId>(random_.Below(lrc ? 6 : k + m)));
  const bool encode = random_.Below(3) == 0;
  absl::StatusOr<Graph> graph =
      encode ? (*scheme)->Encode(chunk_size)
             : (*scheme)->Decode(chunk_size, std::vector<ChunkId>(lost.begin(), lost.end()));
  RING_CHECK(graph.ok()) << graph.status();
  graph_ = std::make_unique<Graph>(*std::move(graph));
  way_ = Coin() ? InecWay::kCoherent : InecWay::kIncoherent;
  on_host_ = way_ == InecWay::kIncoherent && random_.Below(3) == 0;
  outcome_.what = absl::StrCat(
      "scheme ", number, encode ? " encode" : " decode", " losses ", losses, " chunk ", chunk_size,
      way_ == InecWay::kCoherent ? " coherent" : " incoherent", on_host_ ? " on host" : "");
}

// Each is part of some runs, so that rare ones do not hide behind frequent ones.
void SimGraph::DrawFaults(SimOptions* options) {
  const auto drawn = [this](std::uint32_t most) {
    return Coin() ? static_cast<std::uint32_t>(random_.Below(most)) : 0;
  };
  options->gap_ppm = drawn(500'000);
  options->parts_ppm = drawn(300'000);
  options->doorbells = Coin();
  options->late_ppm = drawn(60'000);
  options->loss_ppm = drawn(random_.Below(4) == 0 ? 400'000 : 20'000);
  options->late_completion_ppm = drawn(60'000);
  // Sometimes they come no more: beyond every deadline.
  options->late_completion_ns_max = random_.Below(4) == 0 ? 1'000 * kMs : 2 * kMs;
  options->rnr_ppm = drawn(100'000);
  options->crash_notice_ns = Coin() ? 0 : kMs;
  if (Coin()) {
    options->calc_fail_ppm = drawn(60'000);
    options->calc_wrong_ppm = drawn(40'000);
    options->calc_late_ppm = drawn(200'000);
    options->calc_late_ns_max = random_.Below(4) == 0 ? 1'000 * kMs : 2 * kMs;
  }
}

void SimGraph::Open(NodeId number) {
  Node& node = nodes_[number];
  node = Node();
  node.host = network_.AddHost(nullptr);
  rdma::SoftDeviceOptions device;
  device.name = absl::StrCat("node", number, "-", ++starts_);
  device.arena_size_max = std::uint64_t{16} << 20;
  device.qp_count_max = 128;
  device.rnr_timeout_ms = 60'000;
  node.device = *rdma::sim::SimDevice::Open(&network_, node.host, device);
  node.address = *node.device->Listen(absl::StrCat("local:", device.name));
  NodeRun::Options options;
  options.device = node.device.get();
  options.loop_address = *node.device->Listen(absl::StrCat("local:", device.name, "-loop"));
  options.thresholds = InecThresholds::Always(way_);
  options.calculate_on_host = on_host_;
  if (broken_ == SimGraphBreak::kWrongByte) {
    options.replace_calculator = [](std::size_t, std::unique_ptr<rdma::Calculator> below) {
      return std::unique_ptr<rdma::Calculator>(
          std::make_unique<WrongByteCalculator>(std::move(below)));
    };
  }
  auto run = NodeRun::Create(*graph_, number, options);
  RING_CHECK(run.ok()) << run.status();
  node.run = *std::move(run);
}

void SimGraph::Connect() {
  NodeAddresses addresses;
  for (const auto& [number, node] : nodes_) addresses[number] = node.address;
  for (auto& [number, node] : nodes_) {
    const absl::Status status = node.run->Connect(addresses);
    RING_CHECK(status.ok()) << status;
  }
  const std::uint64_t until_ns = network_.now_ns() + 3'000 * kMs;
  const auto connected = [this] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& entry) { return entry.second.run->connected(); });
  };
  while (!connected() && network_.now_ns() < until_ns) Turn();
  if (!connected()) Complain("the nodes do not connect");
}

// A node vanishes, or two of them lose all their connections.
void SimGraph::Blow() {
  const auto pick = [this] {
    auto node = nodes_.begin();
    std::advance(node, static_cast<std::ptrdiff_t>(random_.Below(nodes_.size())));
    return node;
  };
  const auto one = pick();
  if (Coin()) {
    const auto other = pick();
    if (one != other) network_.Break(one->second.host, other->second.host);
    return;
  }
  if (one->second.crashed) return;
  network_.faults().Count(FaultClass::kF1Crash);
  network_.Crash(one->second.host);
  one->second.crashed = true;
  one->second.run.reset();
  one->second.device.reset();
}

// Hosts look in any order; then a little time passes.
void SimGraph::Turn() {
  const std::size_t first = random_.Below(nodes_.size());
  auto node = nodes_.begin();
  std::advance(node, static_cast<std::ptrdiff_t>(first));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!node->second.crashed) node->second.run->Progress(network_.now_ns());
    if (++node == nodes_.end()) node = nodes_.begin();
  }
  rdma::sim::EventQueue& events = network_.events();
  const std::uint64_t until_ns = events.now_ns() + 1 + random_.Below(3'000);
  while (!events.empty() && events.next_ns() <= until_ns) events.RunNext();
  events.PassTo(until_ns);
  while (!blows_ns_.empty() && blows_ns_.back() <= network_.now_ns()) {
    blows_ns_.pop_back();
    Blow();
  }
}

bool SimGraph::Done() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
    return entry.second.crashed || entry.second.run->done();
  });
}

void SimGraph::Fill() {
  for (const ChunkPlace& place : graph_->sources()) {
    expected_[place] = testing::RandomBytes(random_, graph_->chunk_size());
    std::copy(expected_[place].begin(), expected_[place].end(),
              nodes_[place.node].run->chunk(place.chunk).begin());
  }
  RING_CHECK(RunInMemory(*graph_, expected_).ok());
}

void SimGraph::RunOnce(std::uint64_t deadline_ns, bool blows) {
  Fill();
  if (blows) {
    const std::uint64_t count = random_.Below(3);
    for (std::uint64_t i = 0; i < count; ++i)
      blows_ns_.push_back(network_.now_ns() + random_.Below(100'000));
    std::sort(blows_ns_.rbegin(), blows_ns_.rend());
  }
  for (auto& [number, node] : nodes_) {
    const bool forgets = broken_ == SimGraphBreak::kNoDeadline;
    node.deadline_ns = network_.now_ns() + deadline_ns;
    const absl::Status prepared =
        node.run->Prepare(forgets ? InecPrimitives::kNoDeadline : node.deadline_ns);
    // A connection may be lost by now: that is the run's error.
    if (!prepared.ok() && !absl::IsFailedPrecondition(prepared)) Complain(prepared.ToString());
  }
  for (auto& [number, node] : nodes_) static_cast<void>(node.run->Start());
  const std::uint64_t end_ns = network_.now_ns() + deadline_ns + kLateNs;
  while (!Done() && network_.now_ns() < end_ns) Turn();
  blows_ns_.clear();
  for (const auto& [number, node] : nodes_) {
    if (node.crashed || node.run->done()) continue;
    Complain(absl::StrCat("node ", number, " is not done at its deadline"));
  }
}

absl::Status SimGraph::FirstError() const {
  for (const auto& [number, node] : nodes_) {
    if (node.crashed) return absl::UnavailableError(absl::StrCat("node ", number, " crashed"));
    if (!node.run->status().ok()) return node.run->status();
  }
  return absl::OkStatus();
}

bool SimGraph::ResultsFit() const {
  for (const ChunkPlace& place : graph_->results()) {
    const absl::Span<const std::byte> bytes = nodes_.at(place.node).run->chunk(place.chunk);
    if (!std::equal(bytes.begin(), bytes.end(), expected_.at(place).begin())) return false;
  }
  return true;
}

SimGraphOutcome SimGraph::Run() {
  DrawGraph();
  for (const Vertex& vertex : graph_->vertices()) {
    if (!nodes_.contains(vertex.node)) Open(vertex.node);
  }
  Connect();
  const SimOptions sound = network_.options();
  DrawFaults(&network_.options());
  const bool may_be_wrong = network_.options().calc_wrong_ppm > 0 && !on_host_;
  if (outcome_.complaint.empty()) RunOnce(kDeadlineNs, /*blows=*/true);
  outcome_.status = FirstError();
  const bool all_ok = outcome_.status.ok();
  if (all_ok && !ResultsFit()) {
    outcome_.wrong_bytes = may_be_wrong;
    if (!may_be_wrong) Complain("OK, and wrong bytes");
  }
  for (const auto& [number, node] : nodes_) {
    if (node.crashed || node.run->status().ok()) continue;
    if (!absl::StrContains(node.run->status().message(), "vertex"))
      Complain(absl::StrCat("an error names no vertex: ", node.run->status().ToString()));
  }
  // The next one, without faults.
  network_.options() = sound;
  if (outcome_.complaint.empty()) {
    for (auto& [number, node] : nodes_) {
      if (node.crashed) {
        Open(number);
      } else {
        node.run->Disconnect();
      }
    }
    Connect();
    if (outcome_.complaint.empty()) RunOnce(kSoundDeadlineNs, /*blows=*/false);
    const absl::Status next = FirstError();
    if (!next.ok()) Complain(absl::StrCat("the next run: ", next.ToString()));
    if (next.ok() && !ResultsFit()) Complain("the next run: wrong bytes");
  }
  outcome_.trace_hash = network_.trace_hash();
  outcome_.faults = network_.faults();
  return outcome_;
}

}  // namespace

SimGraphOutcome RunSimGraph(std::uint64_t seed, SimGraphBreak broken) {
  return SimGraph(seed, broken).Run();
}

}  // namespace ring::ec_offload
