#include "tests/ec_offload/inec/inec_cluster.h"

#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ring/base/check.h"
#include "tests/support/await.h"

namespace ring::ec_offload {

using rdma::ConnectionEvent;
using rdma::LinkKind;
using rdma::Opcode;
using rdma::QpState;
using rdma::Sge;
using rdma::WcStatus;
using rdma::WorkCompletion;
using rdma::WorkRequest;

namespace {

constexpr std::uint64_t kTurnNs = 1'000;
constexpr std::uint64_t kDrainWrId = ~std::uint64_t{0};

rdma::SoftDeviceOptions DeviceOptions(const InecClusterOptions& options, std::size_t number) {
  rdma::SoftDeviceOptions device;
  device.arena_size_max = std::uint64_t{128} << 20;
  device.shareable = rdma::IsShm(options.link);
  device.rnr_timeout_ms = 60'000;  // a SEND without a receive hangs
  device.tcp_uring = rdma::UsesUring(options.link);
  device.verbs = rdma::TestVerbsOptions(/*peer=*/number % 2 == 1);
  return device;
}

}  // namespace

InecNode::InecNode(const InecClusterOptions& options, std::size_t number,
                   rdma::sim::SimNetwork* network, const Clock* clock)
    : side_(DeviceOptions(options, number), false, network, rdma::HasEngine(options.link)) {
  if (options.faulty) {
    auto faulty = std::make_unique<rdma::FaultyDevice>(std::move(side_.device), clock, 1);
    faulty_ = faulty.get();
    side_.device = std::move(faulty);
  }
  auto listening = device().Listen(rdma::FreshAddress(options.link));
  RING_CHECK(listening.ok()) << listening.status();
  address_ = *listening;
  auto own_address = device().Listen(rdma::FreshAddress(LinkKind::kLocal));
  RING_CHECK(own_address.ok()) << own_address.status();
  idle_cq_ = *device().CreateCompletionQueue(1024);
  auto inec = InecPrimitives::Create({.device = &device(),
                                      .address = *own_address,
                                      .thresholds = options.thresholds,
                                      .calculate_on_host = options.calculate_on_host,
                                      .depth = options.depth,
                                      .send_cq_depth = 4096});
  RING_CHECK(inec.ok()) << inec.status();
  inec_ = *std::move(inec);
}

Sge InecNode::Chunk(std::size_t size) {
  const Sge sge = side_.At(used_, size);
  used_ += (size + 63) / 64 * 64;
  RING_CHECK(used_ <= rdma::Side::kMemorySize);
  return sge;
}

InecCluster::InecCluster(std::size_t node_count, const InecClusterOptions& options)
    : options_(options) {
  if (options.link == LinkKind::kSim)
    network_ = std::make_unique<rdma::sim::SimNetwork>(1, rdma::sim::SimOptions());
  for (std::size_t i = 0; i < node_count; ++i)
    nodes_.push_back(std::make_unique<InecNode>(options, i, network_.get(), &clock_));
  RING_CHECK(RunUntil([&] {
    bool ready = true;
    for (auto& node : nodes_) ready = ready && node->inec().ready();
    return ready;
  }));
}

InecCluster::~InecCluster() {
  for (auto& edge : edges_) {
    edge->out.reset();
    edge->in.reset();
  }
  for (auto& edge : edges_) edge->own_cq.reset();
  nodes_.clear();
}

std::size_t InecCluster::Connect(std::size_t from, std::size_t to, rdma::CompletionQueue* recv_cq) {
  auto edge = std::make_unique<InecEdge>();
  edge->from = from;
  edge->to = to;
  if (recv_cq == nullptr) {
    edge->own_cq = *nodes_[to]->device().CreateCompletionQueue(1024);
    recv_cq = edge->own_cq.get();
  }
  edge->recv_cq = recv_cq;
  edges_.push_back(std::move(edge));
  received_.push_back(0);
  Reconnect(edges_.size() - 1);
  return edges_.size() - 1;
}

void InecCluster::Reconnect(std::size_t index) {
  InecEdge& edge = *edges_[index];
  edge.out.reset();
  edge.in.reset();
  InecNode& from = *nodes_[edge.from];
  auto out = from.device().Connect(nodes_[edge.to]->address_,
                                   {.send_cq = from.inec().send_cq(),
                                    .recv_cq = from.idle_cq_.get(),
                                    .send_depth = 256,
                                    .recv_depth = 1},
                                   absl::StrCat("edge ", index));
  RING_CHECK(out.ok()) << out.status();
  edge.out = *std::move(out);
  RING_CHECK(RunUntil([&] {
    return edge.in != nullptr && edge.out->state() == QpState::kReadyToSend &&
           edge.in->state() == QpState::kReadyToSend;
  }));
}

void InecCluster::Accept(std::size_t node, const ConnectionEvent& event) {
  absl::string_view text = event.private_data;
  std::size_t index = 0;
  RING_CHECK(absl::ConsumePrefix(&text, "edge ") && absl::SimpleAtoi(text, &index)) << text;
  InecEdge& edge = *edges_[index];
  rdma::CompletionQueue* const idle = nodes_[node]->idle_cq_.get();
  auto in = nodes_[node]->device().Accept(
      event.request, {.send_cq = idle, .recv_cq = edge.recv_cq, .send_depth = 1, .recv_depth = 128},
      "");
  RING_CHECK(in.ok()) << in.status();
  edge.in = *std::move(in);
}

void InecCluster::Kill(std::size_t index) {
  if (network_ != nullptr) nodes_[index]->runs = false;
  for (auto& edge : edges_) {
    if (edge->from == index) edge->out.reset();
    if (edge->to != index) continue;
    edge->in.reset();
    edge->own_cq.reset();
  }
  nodes_[index].reset();
}

void InecCluster::TurnOf(std::size_t index) {
  if (nodes_[index] == nullptr || !nodes_[index]->runs) return;
  InecNode& node = *nodes_[index];
  node.side_.CollectEvents();
  std::vector<ConnectionEvent> events = std::exchange(node.side_.events, {});
  for (const ConnectionEvent& event : events) {
    if (node.inec_->OnEvent(event)) continue;
    if (event.kind == ConnectionEvent::Kind::kConnectRequest) Accept(index, event);
  }
  node.inec_->Progress(now_ns());
  InecOutcome outcome;
  while (node.inec_->Take(&outcome)) node.outcomes.push_back(outcome);
}

void InecCluster::Turn() {
  clock_.now_ns += kTurnNs;
  for (std::size_t i = 0; i < nodes_.size(); ++i) TurnOf(i);
}

bool InecCluster::RunUntil(absl::FunctionRef<bool()> condition) {
  return testing::HoldsWithin(testing::kPatience, condition, [this] { Turn(); });
}

void InecCluster::PassTime(std::uint64_t ns) {
  clock_.now_ns += ns;
  const std::uint64_t until_ns = now_ns() + (network_ != nullptr ? ns : 0);
  while (now_ns() < until_ns) Turn();
}

void InecCluster::PostReceive(std::size_t edge, const Sge& into) {
  const absl::Status posted =
      edges_[edge]->in->PostRecv(0, absl::MakeConstSpan(&into, into.length == 0 ? 0 : 1));
  RING_CHECK(posted.ok()) << posted;
}

void InecCluster::Send(std::size_t edge, const Sge& chunk) {
  WorkRequest send;
  send.wr_id = kDrainWrId;
  send.opcode = Opcode::kSend;
  send.sges = absl::MakeConstSpan(&chunk, 1);
  const absl::Status posted = edges_[edge]->out->PostSend(send);
  RING_CHECK(posted.ok()) << posted;
}

std::size_t InecCluster::Received(std::size_t edge) {
  std::array<WorkCompletion, 8> completions;
  const std::size_t count = edges_[edge]->recv_cq->Poll(absl::MakeSpan(completions));
  for (std::size_t i = 0; i < count; ++i)
    received_[edge] += completions[i].status == WcStatus::kSuccess ? 1 : 0;
  return received_[edge];
}

void InecSends::Add(rdma::QueuePair* qp, const Sge& chunk, bool after_calculation) {
  auto item = std::make_unique<Item>();
  item->sge = chunk;
  item->qp = qp;
  item->after_calculation = after_calculation;
  item->request.opcode = Opcode::kSend;
  item->request.sges = absl::MakeConstSpan(&item->sge, 1);
  items_.push_back(std::move(item));
}

void InecSends::AddWrite(rdma::QueuePair* qp, const Sge& chunk, std::uint64_t remote_address,
                         std::uint32_t rkey, std::uint32_t imm) {
  Add(qp, chunk);
  WorkRequest& request = items_.back()->request;
  request.opcode = Opcode::kWriteWithImm;
  request.remote_address = remote_address;
  request.rkey = rkey;
  request.imm = imm;
  request.has_imm = true;
}

InecStripe InecSends::stripe() {
  channels_.clear();
  for (auto& item : items_)
    channels_.push_back({item->qp, &item->request, item->after_calculation});
  return {channels_};
}

}  // namespace ring::ec_offload
