// The coherent way: everything is posted at once. Also what both ways post.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ec_offload/inec/primitives.h"

namespace ring::ec_offload {

using rdma::Opcode;
using rdma::WorkRequest;

void InecPrimitives::StartCoherent(std::uint64_t sequence) {
  Operation& operation = at(sequence);
  PostChannels(sequence, /*after_calculation=*/false, /*behind_calc=*/false);
  if (operation.calculator == nullptr && operation.receives.empty()) {
    SendOutputs(sequence);
    return;
  }
  if (!PostCalc(sequence, /*behind_receives=*/true)) {
    operation.stage = Stage::kSending;
    return;
  }
  operation.stage = Stage::kCalculating;
  PostChannels(sequence, /*after_calculation=*/true, /*behind_calc=*/true);
}

// [WAIT]... [CALC] with one doorbell; without a calculator the last WAIT takes the place of CALC.
// False: nothing was posted, and the operation has its error.
bool InecPrimitives::PostCalc(std::uint64_t sequence, bool behind_receives) {
  Operation& operation = at(sequence);
  const std::size_t wait_count = behind_receives ? operation.receives.size() : 0;
  const bool calculates = operation.calculator != nullptr;
  const std::size_t count = wait_count + (calculates ? 1 : 0);
  if (chain_.size() < count) chain_.resize(count);
  const rdma::CalcArguments arguments{operation.calculator, operation.inputs, operation.outputs,
                                      operation.sums ? operation.crc_out.data() : nullptr};
  for (std::size_t i = 0; i < count; ++i) {
    const bool waits = i < wait_count;
    WorkRequest& request = chain_[i];
    request.wr_id = sequence;
    request.next = i + 1 < count ? &chain_[i + 1] : nullptr;
    request.opcode = waits ? Opcode::kWait : Opcode::kCalc;
    request.signaled = i + 1 == count;
    request.wait_cq = waits ? operation.receives[i].cq : nullptr;
    request.wait_count = waits ? operation.receives[i].count : 0;
    request.calc = waits ? nullptr : &arguments;
  }
  const absl::Status posted = loop_->qp()->PostSend(chain_.front());
  if (!posted.ok()) {
    Fail(operation, InecStep::kCalculation, posted);
    return false;
  }
  ++counters_.posts;
  operation.calc_mark = ++calcs_posted_;
  return true;
}

// How many completions of the calc queue the WAITs of a queue pair have counted: a WAIT counts each
// once, and none that was polled before.
std::uint64_t InecPrimitives::CountedBy(const rdma::QueuePair* qp) {
  for (std::uint64_t i = next_held_; i > begin_; --i) {
    const Operation& operation = at(i - 1);
    if (operation.way != InecWay::kCoherent || operation.stage != Stage::kCalculating) continue;
    for (const Operation::Channel& channel : operation.channels) {
      if (channel.qp == qp && channel.open && channel.after_calculation)
        return std::max(calcs_polled_, operation.calc_mark);
    }
  }
  return calcs_polled_;
}

void InecPrimitives::PostChannels(std::uint64_t sequence, bool after_calculation,
                                  bool behind_calc) {
  Operation& operation = at(sequence);
  for (std::size_t i = 0; i < operation.channels.size(); ++i) {
    Operation::Channel& channel = operation.channels[i];
    if (channel.after_calculation != after_calculation) continue;
    const WorkRequest* first = &operation.requests[channel.request_begin];
    // None to count: it stands behind a WAIT of this operation on the same queue pair.
    const std::uint64_t count = behind_calc ? operation.calc_mark - CountedBy(channel.qp) : 0;
    if (count > 0) {
      wait_.wr_id = first->wr_id;
      wait_.opcode = Opcode::kWait;
      wait_.wait_cq = loop_->cq();
      wait_.wait_count = static_cast<std::uint32_t>(count);
      wait_.next = first;
      first = &wait_;
    }
    const absl::Status posted = channel.qp->PostSend(*first);
    if (!posted.ok()) {
      Fail(operation, InecStep::kSend, posted, i);
      continue;
    }
    ++counters_.posts;
    channel.open = true;
    ++operation.channels_open;
  }
}

}  // namespace ring::ec_offload
