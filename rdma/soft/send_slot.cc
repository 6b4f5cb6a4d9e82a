#include "rdma/soft/send_slot.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace ring::rdma::soft {
namespace {

absl::Status CheckCalc(const WorkRequest& wr) {
  if (wr.calc == nullptr || wr.calc->calculator == nullptr) {
    return absl::InvalidArgumentError("CALC without calculator or arguments");
  }
  const CalcArguments& calc = *wr.calc;
  if (calc.inputs.size() != calc.calculator->input_count() ||
      calc.outputs.size() != calc.calculator->output_count() || calc.inputs.empty() ||
      calc.outputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("CALC with inputs=", calc.inputs.size(),
                                                   " outputs=", calc.outputs.size(),
                                                   ", its calculator has other counts"));
  }
  for (const absl::Span<const Sge> sges : {calc.inputs, calc.outputs}) {
    for (const Sge& sge : sges) {
      if (sge.length != calc.inputs[0].length) {
        return absl::InvalidArgumentError("CALC with buffers of different lengths");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const WorkRequest& wr) {
  if (wr.sges.size() > kSgeCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("sges=", wr.sges.size(), " exceed sge_count_max=", kSgeCountMax));
  }
  if (wr.inline_data && GatherLength(wr) > kInlineSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("inline length=", GatherLength(wr),
                                                   " exceeds inline_size_max=", kInlineSizeMax));
  }
  switch (wr.opcode) {
    case Opcode::kSend:
    case Opcode::kWrite:
    case Opcode::kWriteWithImm:
      return absl::OkStatus();
    case Opcode::kRead:
      if (wr.inline_data) return absl::InvalidArgumentError("READ cannot be inline");
      return absl::OkStatus();
    case Opcode::kCmpAndSwp:
    case Opcode::kFetchAndAdd:
      if (wr.sges.size() > 1 ||
          (wr.sges.size() == 1 && wr.sges[0].length != sizeof(std::uint64_t)) || wr.inline_data) {
        return absl::InvalidArgumentError("an atomic has at most one sge, of 8 bytes, not inline");
      }
      return absl::OkStatus();
    case Opcode::kWait:
      if (wr.wait_cq == nullptr || wr.wait_count == 0) {
        return absl::InvalidArgumentError("WAIT without completion queue or count");
      }
      return absl::OkStatus();
    case Opcode::kCalc:
      return CheckCalc(wr);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("opcode=", static_cast<int>(wr.opcode), " cannot be posted"));
  }
}

}  // namespace

std::uint32_t GatherLength(const WorkRequest& wr) {
  std::uint64_t length = 0;
  for (const Sge& sge : wr.sges) length += sge.length;
  return static_cast<std::uint32_t>(length < kMessageSizeMax ? length : kMessageSizeMax + 1);
}

absl::Status CheckChain(const WorkRequest& chain, std::uint32_t count_max, ChainSize* size) {
  for (const WorkRequest* wr = &chain; wr != nullptr; wr = wr->next) {
    size->more = wr->more;
    if (++size->count > count_max) {
      return absl::ResourceExhaustedError(absl::StrCat("chain longer than send_depth=", count_max));
    }
    // The common case without a call.
    const bool plain = wr->opcode == Opcode::kWrite && !wr->inline_data && wr->sges.size() <= 4;
    if (!plain) {
      if (absl::Status status = CheckRequest(*wr); !status.ok()) return status;
    }
    const std::uint32_t length = wr->sges.size() == 1 ? wr->sges.front().length : GatherLength(*wr);
    if (wr->sges.size() > 1 && length > kMessageSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat("message longer than size=", kMessageSizeMax));
    }
    size->bytes += length;
  }
  return absl::OkStatus();
}

void SendSlot::Store(const WorkRequest& request) {
  wr = request;
  wr.next = nullptr;
  state = SlotState::kQueued;
  status = WcStatus::kSuccess;
  blocked_since_ns = 0;
  if (request.inline_data) {
    std::uint32_t length = 0;
    for (const Sge& sge : request.sges) {
      std::memcpy(inline_.data() + length, sge.address, sge.length);
      length += sge.length;
    }
    sges_[0] = {inline_.data(), length, 0};
    wr.sges = absl::Span<const Sge>(sges_.data(), length == 0 ? 0 : 1);
  } else {
    for (std::size_t i = 0; i < request.sges.size(); ++i) sges_[i] = request.sges[i];
    wr.sges = absl::Span<const Sge>(sges_.data(), request.sges.size());
  }
  if (request.opcode != Opcode::kCalc) return;
  calc_ = *request.calc;
  calc_sges_.assign(calc_.inputs.begin(), calc_.inputs.end());
  calc_sges_.insert(calc_sges_.end(), calc_.outputs.begin(), calc_.outputs.end());
  const std::size_t inputs = calc_.inputs.size();
  const std::size_t outputs = calc_.outputs.size();
  calc_.inputs = absl::Span<const Sge>(calc_sges_.data(), inputs);
  calc_.outputs = absl::Span<const Sge>(calc_sges_.data() + inputs, outputs);
  if (calc_.crc_out != nullptr) {
    crc_out_.assign(calc_.crc_out, calc_.crc_out + outputs);
    calc_.crc_out = crc_out_.data();
  }
  wr.calc = &calc_;
}

}  // namespace ring::rdma::soft
