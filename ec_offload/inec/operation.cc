#include "ec_offload/inec/operation.h"

#include <algorithm>

namespace ring::ec_offload {

void InecOperation::Copy(const InecWait& wait, const InecCalc& calc, const InecMemory& memory,
                         const InecStripe& stripe) {
  calculator = calc.calculator;
  sums = calc.crc_out != nullptr;
  crc_out.clear();
  if (sums) crc_out.assign(calc.crc_out, calc.crc_out + memory.outputs.size());
  inputs.assign(memory.inputs.begin(), memory.inputs.end());
  outputs.assign(memory.outputs.begin(), memory.outputs.end());
  receives.clear();
  for (const InecReceive& receive : wait.receives)
    receives.push_back({receive.cq, receive.count, {}});
  channels.clear();
  requests.clear();
  sges.clear();
  for (const InecChannel& channel : stripe.channels) {
    const std::size_t begin = requests.size();
    for (const rdma::WorkRequest* from = channel.chain; from != nullptr; from = from->next) {
      requests.push_back(*from);
      sges.insert(sges.end(), from->sges.begin(), from->sges.end());
      requests.back().signaled = from->next == nullptr;
    }
    channels.push_back({channel.qp, begin, requests.size(), channel.after_calculation, false});
  }
  // Only now do they stay where they are.
  std::size_t sge = 0;
  for (Channel& channel : channels) {
    for (std::size_t i = channel.request_begin; i < channel.request_end; ++i) {
      const std::size_t count = requests[i].sges.size();
      requests[i].sges = absl::MakeConstSpan(sges).subspan(sge, count);
      sge += count;
      requests[i].next = i + 1 < channel.request_end ? &requests[i + 1] : nullptr;
    }
  }
  channels_open = 0;
  claimed = false;
  calc_mark = 0;
  calc_failed = false;
  wait_failed = {};
  failed_step = InecStep::kNone;
  failed_channel = 0;
  error = absl::OkStatus();
}

}  // namespace ring::ec_offload
