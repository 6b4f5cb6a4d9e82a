#include "memgest/calc_queue.h"

#include <cstring>

#include "absl/types/span.h"
#include "memgest/log_entry.h"
#include "memgest/shard_log.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {
namespace {

constexpr std::size_t kDeltaCountMax = ec_offload::kDeltaCountMax;

// Deltas and CRCs, by this thread.
void Calculate(const CalcQueue::Job& job, std::byte* const* deltas, std::uint32_t* crcs) {
  const std::array<const std::byte*, 2> inputs = {job.slot, job.new_bytes};
  RING_CHECK(job.calculator->Run(inputs.data(), deltas, job.length, crcs));
}

}  // namespace

CalcQueue::CalcQueue(std::uint32_t check_every)
    : check_every_(check_every), again_(kDeltaCountMax * kPayloadSizeMax) {
  RING_CHECK(check_every >= 1);
}

CalcQueue::~CalcQueue() { RING_CHECK(under_way() == 0) << "jobs=" << under_way(); }

void CalcQueue::Open(rdma::QueuePair* qp, rdma::CompletionQueue* cq) {
  RING_CHECK(!open() && under_way() == 0);
  qp_ = qp;
  cq_ = cq;
  trouble_ = Trouble::kNone;
  unchecked_ = check_every_;
}

CalcQueue::Job* CalcQueue::Post(const Job& job) {
  if (!open() || under_way() == kJobsMax) return nullptr;
  const std::size_t delta_count = job.calculator->delta_count();
  RING_CHECK(job.calculator->output_count() == delta_count && job.length <= kPayloadSizeMax)
      << "length=" << job.length;
  Job& placed = at(end_);
  placed = job;
  placed.posted_ns = now_ns_;
  const rdma::Sge inputs[] = {
      {job.slot, job.length, job.slot_lkey},
      {const_cast<std::byte*>(job.new_bytes), job.length, job.lkey},
  };
  rdma::Sge outputs[kDeltaCountMax];
  std::uint32_t* crc_out[kDeltaCountMax];
  for (std::size_t j = 0; j < delta_count; ++j) {
    outputs[j] = {job.deltas[j], job.length, job.lkey};
    crc_out[j] = &placed.crcs[j];
  }
  rdma::CalcArguments arguments;
  arguments.calculator = job.calculator;
  arguments.inputs = inputs;
  arguments.outputs = absl::MakeConstSpan(outputs, delta_count);
  arguments.crc_out = crc_out;
  rdma::WorkRequest request;
  request.wr_id = end_;
  request.opcode = rdma::Opcode::kCalc;
  request.signaled = true;
  request.calc = &arguments;
  if (!qp_->PostSend(request).ok()) {
    Fail(Trouble::kFailed);
    return nullptr;
  }
  ++end_;
  return &placed;
}

bool CalcQueue::Poll() {
  bool any = false;
  std::array<rdma::WorkCompletion, 16> completions;
  while (under_way() > 0) {
    const std::size_t count = cq_->Poll(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count && open(); ++i) {
      if (completions[i].wr_id != next_) continue;  // of a connection that is over
      any = true;
      if (completions[i].status != rdma::WcStatus::kSuccess) {
        Fail(Trouble::kFailed);
      } else {
        Take(at(next_++));
      }
    }
    if (count < completions.size()) return any;
  }
  return any;
}

bool CalcQueue::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (under_way() == 0) return false;
  bool any = Poll();
  if (under_way() > 0 && now_ns - at(next_).posted_ns > kDeadlineNs) {
    Fail(Trouble::kLate);
    any = true;
  }
  return any;
}

void CalcQueue::Settle(const ShardLog* log) {
  Poll();
  for (std::uint64_t i = next_; i < end_; ++i) {
    if (at(i).log == log) return Close();
  }
}

void CalcQueue::Take(Job& job) {
  bool right = true;
  if (++unchecked_ >= check_every_) {
    unchecked_ = 0;
    right = IsRight(job) || Mutant("F15");
  }
  Finish(job);
  if (right) {
    ++counters_.calculated;
  } else {
    Fail(Trouble::kWrong);
  }
}

// What is not, is right afterwards.
bool CalcQueue::IsRight(Job& job) {
  const std::size_t delta_count = job.calculator->delta_count();
  std::array<std::byte*, kDeltaCountMax> deltas{};
  std::array<std::uint32_t, kDeltaCountMax> crcs{};
  for (std::size_t j = 0; j < delta_count; ++j) deltas[j] = again_.data() + j * kPayloadSizeMax;
  Calculate(job, deltas.data(), crcs.data());
  bool right = true;
  for (std::size_t j = 0; j < delta_count; ++j) {
    if (crcs[j] == job.crcs[j] && std::memcmp(deltas[j], job.deltas[j], job.length) == 0) continue;
    right = false;
    if (Mutant("F15")) continue;
    std::memcpy(job.deltas[j], deltas[j], job.length);
    job.crcs[j] = crcs[j];
  }
  return right;
}

void CalcQueue::Redo(Job& job) {
  Calculate(job, job.deltas.data(), job.crcs.data());
  ++counters_.redone;
  Finish(job);
}

// S11: not before the deltas are there.
void CalcQueue::Finish(Job& job) {
  std::memcpy(job.slot, job.new_bytes, job.length);
  job.log->OnCalculated(job);
}

// The reset ends the device's work on the jobs' memory: from then on it is this thread's.
void CalcQueue::Close() {
  if (!open()) return;
  qp_->Reset();
  qp_ = nullptr;
  cq_ = nullptr;
  while (under_way() > 0) Redo(at(next_++));
}

void CalcQueue::Fail(Trouble trouble) {
  trouble_ = trouble;
  counters_.failed += trouble == Trouble::kFailed ? 1 : 0;
  counters_.wrong += trouble == Trouble::kWrong ? 1 : 0;
  counters_.late += trouble == Trouble::kLate ? 1 : 0;
  Close();
}

}  // namespace ring::memgest
