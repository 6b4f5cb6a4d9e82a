#include "tests/sim/sim_client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/client_requests.h"
#include "ring/base/status.h"
#include "tests/sim/fault_options.h"

namespace ring::sim {
namespace {

OpResult ResultOf(OpOutcome outcome) {
  switch (outcome) {
    case OpOutcome::kOk:
      return OpResult::kOk;
    case OpOutcome::kNotFound:
      return OpResult::kNotFound;
    case OpOutcome::kUnknown:
      return OpResult::kUnknown;
    default:
      return OpResult::kFailed;
  }
}

protocol::Operation OperationOf(OpKind kind) {
  switch (kind) {
    case OpKind::kGet:
      return protocol::Operation::kGet;
    case OpKind::kPut:
      return protocol::Operation::kPut;
    case OpKind::kDelete:
      return protocol::Operation::kDelete;
    case OpKind::kMove:
      return protocol::Operation::kMove;
  }
  return protocol::Operation::kGet;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SimClient>> SimClient::Start(rdma::sim::SimNetwork* network,
                                                            Random* random, Workload* workload,
                                                            Recorder* recorder,
                                                            const SimClientOptions& options) {
  std::shared_ptr<SimClient> self(new SimClient(network, workload, recorder, options));
  self->host_ = network->AddHost(self.get());
  rdma::SoftDeviceOptions device;
  device.name = absl::StrCat("client", options.process);
  device.arena_size_max = std::uint64_t{1} << 30;
  api::ClientEnvironment environment;
  environment.clock = &network->clock();
  environment.random = random;
  RING_ASSIGN_OR_RETURN(environment.device,
                        rdma::sim::SimDevice::Open(network, self->host_, device));
  ClientOptions client;
  client.seeds = options.seeds;
  client.transport = Transport::kShm;
  client.window = options.window;
  // A reader that is cut off with one node asks that one, and does not wait for the others.
  const std::uint64_t patience_ns =
      options.only_gets ? std::min(options.deadline_ns, kReaderPatienceNs) : options.deadline_ns;
  client.deadline = absl::Nanoseconds(static_cast<std::int64_t>(patience_ns));
  RING_ASSIGN_OR_RETURN(self->core_, api::ClientCore::Start(client, std::move(environment)));
  self->Run(network->now_ns(), State::kRunning);
  return self;
}

void SimClient::Run(std::uint64_t at_ns, State state) {
  state_ = state;
  network_->events().Schedule(at_ns, shared_from_this(), ++serial_);
}

void SimClient::Ask(Operation op) {
  asked_.push_back(std::move(op));
  OnWake();
}

void SimClient::Crash() {
  if (!up()) return;
  network_->Crash(host_);
  Close();
}

void SimClient::Close() {
  if (!up()) return;
  network_->ForgetHost(host_);
  ++serial_;
  core_.reset();
}

void SimClient::OnEvent(std::uint64_t tag) {
  if (tag != serial_ || !up()) return;
  if (state_ == State::kSleeping) core_->WakeUp();
  if (state_ == State::kPolling) {
    // In vain: sleeps until somebody wakes it, or something is due.
    state_ = State::kSleeping;
    woken_ = false;
    const bool wants = issued_ < options_.operations && under_way_ < options_.window;
    const std::uint64_t due_ns = wants ? next_ns_ : std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t wake_ns = core_->PrepareSleep(due_ns);
    if (wake_ns != 0 && !woken_) return Run(wake_ns, State::kSleeping);
    core_->WakeUp();
  }
  state_ = State::kRunning;
  Step();
}

void SimClient::Step() {
  const bool moved = core_->Step();
  const bool took = TakeAnswers();
  SubmitDue();
  const std::uint64_t now_ns = network_->now_ns();
  if (moved || took) return Run(now_ns + kStepNs, State::kRunning);
  Run(now_ns + (options_.sleeps ? kStepNs : kPollNs), State::kPolling);
}

void SimClient::OnDelivery() {
  if (state_ == State::kPolling)
    Run(network_->now_ns() + network_->random().Below(kStepNs), State::kRunning);
}

void SimClient::OnWake() {
  woken_ = true;
  if (state_ == State::kPolling)
    return Run(network_->now_ns() + network_->random().Below(kStepNs), State::kRunning);
  if (state_ == State::kSleeping) Run(network_->now_ns() + 2'000, State::kSleeping);
}

void SimClient::SubmitDue() {
  if (!core_->connected()) return;
  while (!asked_.empty() && Submit(asked_.back())) asked_.pop_back();
  while (issued_ < options_.operations && under_way_ < options_.window &&
         network_->now_ns() >= next_ns_) {
    const bool degraded = OneIn(network_->random(), options_.degraded_one_in);
    Operation next = options_.only_gets ? workload_->NextGet() : workload_->Next(core_->view());
    if (!Submit(std::move(next), degraded)) {
      next_ns_ = network_->now_ns() + kRefusedNs;
      return;
    }
    ++issued_;
    next_ns_ = network_->now_ns() + workload_->ThinkNs() + (options_.only_gets ? kReadingNs : 0);
  }
}

bool SimClient::Submit(Operation op, bool degraded) {
  const std::string key = KeyName(op.key);
  const std::string value = op.value != 0 ? ValueBytes(op.value, op.size) : std::string();
  api::Request request;
  request.operation = OperationOf(op.kind);
  request.key = key;
  request.value = value;
  if (op.memgest.value() != 0) request.memgest = op.memgest;
  request.if_version = op.if_version;
  request.deadline = absl::Nanoseconds(static_cast<std::int64_t>(op.patience_ns));
  request.sink = api::Sink::kPipeline;
  request.degraded = degraded && op.kind == OpKind::kGet;
  op.process = options_.process;
  op.invoke_ns = network_->now_ns();
  // The place is known before the submission, which may refuse.
  const absl::StatusOr<api::Operation*> submitted = core_->Submit(request);
  if (!submitted.ok()) return false;
  const int number = op.key;
  const std::size_t at = recorder_->Invoke(std::move(op));
  (*submitted)->token = at;
  NoteSent(**submitted, at, number);
  ++under_way_;
  core_->Flush();
  return true;
}

// What waits to be sent is not complete yet; large values stay in the memory of their client.
void SimClient::NoteSent(const api::Operation& op, std::size_t at, int key) {
  const bool large = (op.header()->word.flags & protocol::kLargeValue) != 0;
  if (!op.mutates() || op.state != api::OpState::kWaiting || large) return;
  const auto* const begin = reinterpret_cast<const char*>(op.frame);
  recorder_->Sent({at, key, network_->now_ns(), core_->identity(),
                   std::string(begin, op.cells * protocol::kCell)});
}

bool SimClient::TakeAnswers() {
  bool any = false;
  core_->FreeTaken();
  while (const api::Operation* answer = core_->TakeFinished()) {
    any = true;
    --under_way_;
    Finish(answer->token, *answer);
  }
  return any;
}

void SimClient::Finish(std::size_t at, const api::Operation& answer) {
  Operation op = recorder_->Recorded(at);
  op.return_ns = network_->now_ns();
  op.result = ResultOf(answer.result.outcome);
  op.mismatch = answer.result.outcome == OpOutcome::kVersionMismatch;
  if (op.result == OpResult::kOk || op.mismatch) {
    op.version = answer.result.version;
    if (!op.mismatch) op.memgest = answer.result.memgest;
  }
  if (op.version.bits() != 0) workload_->Learn(op.key, op.version);
  if (op.kind == OpKind::kGet && op.result == OpResult::kOk) {
    op.value = ReadValue(api::ResultValue(answer));
    if (op.value == 0) {
      recorder_->Complain({"wrong-bytes", absl::StrCat("I4: ", Describe(op),
                                                       " has size=", answer.result.value_size)});
    }
  }
  op.data_lost = answer.result.outcome == OpOutcome::kDataLost;
  if ((op.data_lost && !recorder_->MayLose(op.key)) ||
      answer.result.outcome == OpOutcome::kBadRequest ||
      answer.result.outcome == OpOutcome::kRequestReused ||
      answer.result.outcome == OpOutcome::kStaleRequest) {
    recorder_->Complain(
        {"refusal",
         absl::StrCat("outcome=", static_cast<int>(answer.result.outcome), " ", Describe(op))});
  }
  recorder_->Return(at, op);
}

}  // namespace ring::sim
