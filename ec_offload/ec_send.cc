#include "ec_offload/ec_send.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::ec_offload {

using rdma::CalcArguments;
using rdma::Opcode;
using rdma::QpState;
using rdma::WcStatus;
using rdma::WorkCompletion;
using rdma::WorkRequest;

namespace {

absl::Status CalculatorRefused(const EcSend::Request& request) {
  return absl::FailedPreconditionError(
      absl::StrCat("calculator refused inputs=", request.inputs.size(),
                   " outputs=", request.outputs.size(), ": nothing was sent"));
}

void CheckRequest(const EcSend::Request& request) {
  RING_CHECK(request.calculator != nullptr);
  RING_CHECK(request.targets.size() <= EcSend::kTargetCountMax)
      << "targets=" << request.targets.size();
  RING_CHECK(request.inputs.size() == request.calculator->input_count())
      << "inputs=" << request.inputs.size();
  RING_CHECK(request.outputs.size() == request.calculator->output_count())
      << "outputs=" << request.outputs.size();
  RING_CHECK(request.inputs.size() <= EcSend::kBufferCountMax)
      << "inputs=" << request.inputs.size();
  RING_CHECK(request.outputs.size() <= EcSend::kBufferCountMax)
      << "outputs=" << request.outputs.size();
  const std::uint32_t length = request.inputs.empty() ? 0 : request.inputs[0].length;
  for (absl::Span<const rdma::Sge> buffers : {request.inputs, request.outputs}) {
    for (const rdma::Sge& buffer : buffers) {
      RING_CHECK(buffer.length == length) << "length=" << buffer.length << " beside " << length;
    }
  }
}

}  // namespace

EcSend::EcSend(const Options& options)
    : options_(options),
      device_calculates_(options.device != nullptr && options.device->caps().calc &&
                         !options.host_only),
      device_sums_(options.device != nullptr && options.device->caps().calc_crc) {
  RING_CHECK((options.calc_qp == nullptr) == (options.calc_cq == nullptr))
      << "the calc queue is a queue pair and its completion queue";
}

EcSend::Outcome EcSend::Send(const Request& request) {
  CheckRequest(request);
  if (!MayUseDevice(request)) return SendFromHost(request);
  if (CalcQueueFree()) return SendByCalcQueue(request);
  if (options_.calc_qp == nullptr && request.targets.size() == 1) return SendInOneChain(request);
  return SendFromHost(request);
}

bool EcSend::MayUseDevice(const Request& request) const {
  return device_calculates_ && (device_sums_ || request.crc_out == nullptr);
}

// A second CALC under way would make the count of a WAIT depend on which earlier ones its queue
// pair waited for.
bool EcSend::CalcQueueFree() {
  if (options_.calc_qp == nullptr || options_.calc_qp->state() != QpState::kReadyToSend)
    return false;
  if (calcs_outstanding_ != 0) Drain();
  return calcs_outstanding_ == 0;
}

void EcSend::Drain() {
  std::array<WorkCompletion, 4> completions;
  while (calcs_outstanding_ != 0) {
    const std::size_t count = options_.calc_cq->Poll(absl::MakeSpan(completions));
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      --calcs_outstanding_;
      if (completions[i].status != WcStatus::kSuccess) ++calcs_failed_;
    }
  }
}

EcSend::Outcome EcSend::SendInOneChain(const Request& request) const {
  const CalcArguments arguments{request.calculator, request.inputs, request.outputs,
                                request.crc_out};
  const Target& target = request.targets[0];
  WorkRequest calc;
  calc.opcode = Opcode::kCalc;
  calc.calc = &arguments;
  calc.wr_id = target.chain->wr_id;
  calc.next = target.chain;
  Outcome outcome;
  outcome.status = target.qp->PostSend(calc);
  outcome.posted = outcome.status.ok() ? 1 : 0;
  return outcome;
}

EcSend::Outcome EcSend::SendByCalcQueue(const Request& request) {
  const CalcArguments arguments{request.calculator, request.inputs, request.outputs,
                                request.crc_out};
  WorkRequest calc;
  calc.opcode = Opcode::kCalc;
  calc.calc = &arguments;
  calc.signaled = true;
  Outcome outcome;
  outcome.status = options_.calc_qp->PostSend(calc);
  if (!outcome.status.ok()) return outcome;
  calcs_outstanding_ = 1;
  const std::uint64_t failed_before = calcs_failed_;
  Drain();
  if (calcs_failed_ != failed_before) {
    outcome.status = CalculatorRefused(request);
    return outcome;
  }
  if (calcs_outstanding_ == 0) {
    outcome.calculated = true;
    PostTargets(request, nullptr, outcome);
    return outcome;
  }
  WorkRequest wait;
  wait.opcode = Opcode::kWait;
  wait.wait_cq = options_.calc_cq;
  wait.wait_count = 1;
  PostTargets(request, &wait, outcome);
  return outcome;
}

EcSend::Outcome EcSend::SendFromHost(const Request& request) const {
  std::array<const std::byte*, kBufferCountMax> inputs;
  std::array<std::byte*, kBufferCountMax> outputs;
  std::array<std::uint32_t, kBufferCountMax> crcs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) inputs[i] = request.inputs[i].address;
  for (std::size_t i = 0; i < request.outputs.size(); ++i) outputs[i] = request.outputs[i].address;
  const bool sums = request.crc_out != nullptr;
  Outcome outcome;
  if (!request.calculator->Run(inputs.data(), outputs.data(),
                               request.inputs.empty() ? 0 : request.inputs[0].length,
                               sums ? crcs.data() : nullptr)) {
    outcome.status = CalculatorRefused(request);
    return outcome;
  }
  outcome.calculated = true;
  for (std::size_t i = 0; sums && i < request.outputs.size(); ++i) {
    if (request.crc_out[i] != nullptr) *request.crc_out[i] = crcs[i];
  }
  PostTargets(request, nullptr, outcome);
  return outcome;
}

// Posts every target's chain, behind a WAIT where one is given.
void EcSend::PostTargets(const Request& request, const WorkRequest* wait, Outcome& outcome) {
  for (std::size_t i = 0; i < request.targets.size(); ++i) {
    const Target& target = request.targets[i];
    absl::Status status;
    if (wait == nullptr) {
      status = target.qp->PostSend(*target.chain);
    } else {
      WorkRequest first = *wait;
      first.wr_id = target.chain->wr_id;
      first.next = target.chain;
      status = target.qp->PostSend(first);
    }
    if (status.ok()) {
      outcome.posted |= 1U << i;
    } else if (outcome.status.ok()) {
      outcome.status = std::move(status);
    }
  }
}

}  // namespace ring::ec_offload
