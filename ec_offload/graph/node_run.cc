#include "ec_offload/graph/node_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/block_calculator.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

using rdma::Opcode;
using rdma::Sge;
using rdma::WorkRequest;

absl::StatusOr<std::unique_ptr<NodeRun>> NodeRun::Create(const Graph& graph, NodeId node,
                                                         const Options& options) {
  RING_ASSIGN_OR_RETURN(NodePlan plan, PlanNode(graph, node));
  std::unique_ptr<NodeRun> run(new NodeRun(node, std::move(plan), options));
  RING_RETURN_IF_ERROR(run->SetUp(graph));
  return run;
}

NodeRun::NodeRun(NodeId node, NodePlan plan, const Options& options)
    : node_(node), plan_(std::move(plan)), options_(options) {}

// What is calculated goes before what it waits for, and connections before the queues they fill.
NodeRun::~NodeRun() {
  for (std::vector<Connection>* connections : {&in_, &out_}) {
    for (Connection& connection : *connections) connection.qp.reset();
  }
  primitives_.reset();
  in_.clear();
  if (memory_ != nullptr)
    options_.device->Free(memory_, plan_.memory_size, rdma::MemoryKind::kShared);
}

absl::Status NodeRun::SetUp(const Graph& graph) {
  rdma::Device& device = *options_.device;
  plan_.memory_size = std::max(plan_.memory_size, kBufferAlignment);
  RING_ASSIGN_OR_RETURN(memory_, device.Allocate(plan_.memory_size, rdma::MemoryKind::kShared));
  lkey_ = device.LocalKey(memory_);
  RING_ASSIGN_OR_RETURN(idle_cq_,
                        device.CreateCompletionQueue(plan_.in.size() + plan_.out.size() + 1));
  std::size_t messages_out = 0;
  for (const PlannedLane& lane : plan_.out) messages_out += lane.messages.size();
  const std::size_t depth = std::max<std::size_t>(plan_.operations.size(), 1);
  RING_ASSIGN_OR_RETURN(
      primitives_,
      InecPrimitives::Create({.device = &device,
                              .address = options_.loop_address,
                              .thresholds = options_.thresholds,
                              .calculate_on_host = options_.calculate_on_host,
                              .depth = static_cast<std::uint32_t>(depth),
                              // Flushed: a WAIT and a message each.
                              .send_cq_depth = static_cast<std::uint32_t>(2 * messages_out + 1)}));
  out_.resize(plan_.out.size());
  in_.resize(plan_.in.size());
  for (std::size_t i = 0; i < in_.size(); ++i) {
    RING_ASSIGN_OR_RETURN(in_[i].recv_cq,
                          device.CreateCompletionQueue(plan_.in[i].messages.size() + 1));
  }
  operations_.resize(plan_.operations.size());
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const std::size_t vertex = plan_.operations[i].vertex;
    vertex_names_.push_back(VertexName(vertex, graph.vertices()[vertex]));
    RING_RETURN_IF_ERROR(MakeCalculator(graph, i));
    Describe(i);
  }
  return absl::OkStatus();
}

absl::Status NodeRun::MakeCalculator(const Graph& graph, std::size_t index) {
  const PlannedOperation& planned = plan_.operations[index];
  if (planned.matrix.rows() == 0) return absl::OkStatus();
  const bool sums = planned.choice.calculator == CalculatorKind::kXor && planned.matrix.rows() == 1;
  absl::StatusOr<std::unique_ptr<rdma::Calculator>> made =
      sums ? MakeXorCalculator(planned.inputs.size())
           : MakeBlockCalculator(graph.field() == Field::kGf16 ? 4 : 8, planned.matrix);
  if (!made.ok()) {
    return {made.status().code(),
            absl::StrCat(vertex_names_[index], ": ", made.status().message())};
  }
  Operation& operation = operations_[index];
  operation.calculator = *std::move(made);
  if (options_.replace_calculator != nullptr) {
    operation.calculator =
        options_.replace_calculator(planned.vertex, std::move(operation.calculator));
  }
  return absl::OkStatus();
}

Sge NodeRun::SgeOf(const PlannedBuffer& buffer) const {
  return {memory_ + buffer.offset, static_cast<std::uint32_t>(buffer.length), lkey_};
}

// Everything but the queue pairs, which come and go.
void NodeRun::Describe(std::size_t index) {
  const PlannedOperation& planned = plan_.operations[index];
  Operation& operation = operations_[index];
  for (const PlannedBuffer& buffer : planned.inputs) operation.inputs.push_back(SgeOf(buffer));
  for (const PlannedBuffer& buffer : planned.outputs) operation.outputs.push_back(SgeOf(buffer));
  for (const PlannedOperation::Wait& wait : planned.waits)
    operation.receives.push_back({in_[wait.lane].recv_cq.get(), wait.count});
  std::size_t count = 0;
  for (const PlannedOperation::Send& send : planned.sends) count += send.messages.size();
  operation.messages.reserve(count);  // they stay where they are
  operation.requests.resize(count);
  for (const PlannedOperation::Send& send : planned.sends) {
    const std::size_t first = operation.messages.size();
    for (const PlannedBuffer& message : send.messages) {
      WorkRequest& request = operation.requests[operation.messages.size()];
      operation.messages.push_back(SgeOf(message));
      request.opcode = Opcode::kSend;
      request.sges = absl::MakeConstSpan(&operation.messages.back(), 1);
      const bool last = operation.messages.size() - first == send.messages.size();
      request.next = last ? nullptr : &request + 1;
    }
    operation.channels.push_back({nullptr, &operation.requests[first], !send.at_once});
  }
}

absl::Span<std::byte> NodeRun::chunk(ChunkId chunk) {
  const auto found = plan_.chunks.find(chunk);
  RING_CHECK(found != plan_.chunks.end()) << "chunk " << chunk << " at node " << node_;
  return {memory_ + found->second.offset, found->second.length};
}

absl::Status NodeRun::Prepare(std::uint64_t deadline_ns) {
  RING_CHECK(done()) << "a run is under way";
  TakeEvents();  // who vanished since the last run
  if (broken_ || !connected()) {
    std::string peers;
    for (std::size_t i = 0; i < in_.size(); ++i)
      if (!in_[i].established) absl::StrAppend(&peers, " ", plan_.in[i].peer);
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (!out_[i].established) absl::StrAppend(&peers, " ", plan_.out[i].peer);
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node_, " is not connected with node", peers.empty() ? "s" : peers,
                     " of the graph: Disconnect, and Connect again, at all nodes"));
  }
  status_ = absl::OkStatus();
  deadline_ns_ = deadline_ns;
  ++counters_.runs;
  open_ = 0;
  phase_ = Phase::kPrepared;
  if (const absl::Status posted = PostReceives(); !posted.ok()) {
    status_ = posted;
    ResetConnections();
    phase_ = Phase::kIdle;
    return posted;
  }
  if (!plan_.has_source) SubmitAll();
  return absl::OkStatus();
}

absl::Status NodeRun::Start() {
  if (phase_ == Phase::kPrepared && status_.ok()) SubmitAll();
  return status_;
}

absl::Status NodeRun::PostReceives() {
  for (std::size_t i = 0; i < in_.size(); ++i) {
    for (const PlannedBuffer& message : plan_.in[i].messages) {
      const Sge sge = SgeOf(message);
      const absl::Status posted = in_[i].qp->PostRecv(0, absl::MakeConstSpan(&sge, 1));
      if (posted.ok()) continue;
      return {posted.code(), absl::StrCat("node ", node_, ": receive from node ", plan_.in[i].peer,
                                          ": ", posted.message())};
    }
  }
  return absl::OkStatus();
}

void NodeRun::SubmitAll() {
  phase_ = Phase::kRunning;
  ++counters_.interventions;
  for (std::size_t i = 0; i < operations_.size() && status_.ok(); ++i) {
    const absl::Status submitted = Submit(i);
    if (submitted.ok()) {
      ++open_;
    } else {
      Fail(i, submitted, InecStep::kNone, 0);
    }
  }
  EndIfDone();
}

absl::Status NodeRun::Submit(std::size_t index) {
  const PlannedOperation& planned = plan_.operations[index];
  Operation& operation = operations_[index];
  for (std::size_t i = 0; i < operation.channels.size(); ++i)
    operation.channels[i].qp = out_[planned.sends[i].lane].qp.get();
  const InecCalc calc{operation.calculator.get()};
  const InecMemory memory{operation.inputs, operation.outputs};
  const InecStripe stripe{operation.channels};
  const InecWait wait{operation.receives};
  switch (planned.choice.primitive) {
    case Primitive::kEcSend:
      return primitives_->EcSend(index, calc, memory, stripe, deadline_ns_);
    case Primitive::kRecvEcSend:
      return primitives_->RecvEcSend(index, wait, calc, memory, stripe, deadline_ns_);
    case Primitive::kRecvEc:
      break;
  }
  return primitives_->RecvEc(index, wait, calc, memory, deadline_ns_);
}

bool NodeRun::Progress(std::uint64_t now_ns) {
  bool any = options_.device->Progress();
  any |= TakeEvents();
  const std::uint64_t continuations = primitives_->counters().continuations;
  any |= primitives_->Progress(now_ns);
  if (primitives_->counters().continuations != continuations) ++counters_.interventions;
  any |= TakeOutcomes();
  if (phase_ == Phase::kPrepared && now_ns >= deadline_ns_ && status_.ok()) {
    status_ = absl::DeadlineExceededError(
        absl::StrCat("node ", node_, ": deadline exceeded before the run was started here"));
    ResetConnections();
    any = true;
  }
  EndIfDone();
  return any;
}

bool NodeRun::TakeOutcomes() {
  bool any = false;
  InecOutcome outcome;
  while (primitives_->Take(&outcome)) {
    any = true;
    --open_;
    if (!outcome.status.ok()) Fail(outcome.id, outcome.status, outcome.step, outcome.channel);
  }
  return any;
}

void NodeRun::Fail(std::size_t index, const absl::Status& why, InecStep step, std::size_t channel) {
  if (!status_.ok()) return;
  std::string peer;
  if (step == InecStep::kSend) {
    const PlannedOperation::Send& send = plan_.operations[index].sends[channel];
    peer = absl::StrCat(" (node ", plan_.out[send.lane].peer, ")");
  }
  status_ = {why.code(), absl::StrCat(vertex_names_[index], ": ", why.message(), peer)};
  ResetConnections();
}

void NodeRun::EndIfDone() {
  if (phase_ == Phase::kPrepared && !status_.ok()) phase_ = Phase::kIdle;
  if (phase_ == Phase::kRunning && open_ == 0) phase_ = Phase::kIdle;
}

void NodeRun::CountWakeup() {
  ++counters_.wakeups;
  primitives_->CountWakeup();
}

}  // namespace ring::ec_offload
