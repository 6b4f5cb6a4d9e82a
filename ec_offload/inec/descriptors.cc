#include "ec_offload/inec/descriptors.h"

#include "absl/strings/str_cat.h"

namespace ring::ec_offload {

using rdma::Opcode;
using rdma::WorkRequest;

absl::Status CheckInecMemory(const InecCalc& calc, const InecMemory& memory) {
  if (calc.calculator == nullptr) {
    if (!memory.inputs.empty() && memory.outputs.empty() && calc.crc_out == nullptr)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        "calc without a calculator: mem has what is sent or received as its inputs, and neither "
        "outputs nor CRCs");
  }
  const std::size_t inputs = calc.calculator->input_count();
  const std::size_t outputs = calc.calculator->output_count();
  if (memory.inputs.size() != inputs || memory.outputs.size() != outputs || inputs == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mem inputs=", memory.inputs.size(), " outputs=", memory.outputs.size(),
                     ", the calculator has inputs=", inputs, " outputs=", outputs));
  }
  for (absl::Span<const rdma::Sge> buffers : {memory.inputs, memory.outputs}) {
    for (const rdma::Sge& buffer : buffers) {
      if (buffer.length == memory.inputs[0].length) continue;
      return absl::InvalidArgumentError(absl::StrCat("mem length=", buffer.length, " beside ",
                                                     memory.inputs[0].length,
                                                     ": chunks have one length"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInecStripe(const InecStripe& stripe) {
  if (stripe.channels.empty() || stripe.channels.size() > kInecChannelCountMax) {
    return absl::InvalidArgumentError(absl::StrCat("stripe channels=", stripe.channels.size(),
                                                   ": give 1 to ", kInecChannelCountMax));
  }
  for (std::size_t i = 0; i < stripe.channels.size(); ++i) {
    const InecChannel& channel = stripe.channels[i];
    if (channel.qp == nullptr || channel.chain == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("stripe channel ", i, " without queue pair or requests"));
    }
    for (const WorkRequest* request = channel.chain; request != nullptr; request = request->next) {
      if (request->opcode == Opcode::kSend || request->opcode == Opcode::kWrite ||
          request->opcode == Opcode::kWriteWithImm)
        continue;
      return absl::InvalidArgumentError(absl::StrCat("stripe channel ", i,
                                                     " opcode=", static_cast<int>(request->opcode),
                                                     ": give SEND, WRITE_WITH_IMM or WRITE"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInecWait(const InecWait& wait) {
  if (wait.receives.empty() || wait.receives.size() > kInecReceiveQueueCountMax) {
    return absl::InvalidArgumentError(absl::StrCat("wait queues=", wait.receives.size(),
                                                   ": give 1 to ", kInecReceiveQueueCountMax));
  }
  for (const InecReceive& receive : wait.receives) {
    if (receive.cq == nullptr || receive.count == 0)
      return absl::InvalidArgumentError("wait without completion queue or count");
  }
  return absl::OkStatus();
}

}  // namespace ring::ec_offload
