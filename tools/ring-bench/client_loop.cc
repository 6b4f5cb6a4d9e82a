#include "tools/ring-bench/client_loop.h"

#include <sched.h>

#include "ring/base/check.h"
#include "tools/common/ticks.h"

namespace ring::bench {
namespace {

// Polls without news before the client offers the processor to whoever shares it, and before it is
// allowed to sleep. A cluster that shares its core with this thread answers after the first.
constexpr int kIdlePollYield = 256;
constexpr int kIdlePollMax = 20'000;

}  // namespace

ClientLoop::ClientLoop(Client* client, const LoopOptions& options)
    : client_(client),
      options_(options),
      keys_(options.distribution, options.key_count, options.seed),
      degraded_(options.degraded, ~options.seed),
      slots_(options.pipeline) {
  SeededRandom random(options.seed);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    slots_[i].value.resize(options.value_size);
    for (char& byte : slots_[i].value) byte = static_cast<char>(random.Next64());
    free_.push_back(i);
  }
}

void ClientLoop::Start(std::uint64_t now) {
  ns_per_tick_ = 1 / tools::TicksPerNs();
  measure_from_ = now + tools::NsToTicks(options_.warm_up_seconds * 1e9);
  end_ = measure_from_ + tools::NsToTicks(options_.seconds * 1e9);
  next_due_ = static_cast<double>(now);
  if (options_.rate > 0) interval_ = 1e9 / options_.rate * tools::TicksPerNs();
}

void ClientLoop::Issue(std::uint64_t start) {
  const std::uint32_t token = free_.back();
  Slot& slot = slots_[token];
  slot.start = start;
  slot.index = keys_.Next();
  slot.is_get = options_.read_ratio >= 1 ||
                (options_.read_ratio > 0 && keys_.NextUnit() < options_.read_ratio);
  const KeyName key(options_.key_space, slot.index);
  absl::Status status;
  if (slot.is_get) {
    GetOptions get;
    get.value_size_hint = options_.value_size;
    get.degraded = slot.is_degraded = degraded_.Next();
    status = client_->SubmitGet(token, key.view(), get);
  } else {
    FillValue(slot.index, absl::MakeSpan(slot.value));
    PutOptions put;
    put.memgest_id = options_.memgest;
    status = client_->SubmitPut(token, key.view(), {slot.value.data(), slot.value.size()}, put);
  }
  if (status.ok()) {
    free_.pop_back();
  } else if (!absl::IsResourceExhausted(status)) {
    ++result_.failed;
    if (result_.first_error.empty()) result_.first_error = status.ToString();
  }
}

void ClientLoop::Take(const Completion& completion, std::uint64_t now) {
  const auto token = static_cast<std::uint32_t>(completion.token);
  RING_CHECK(token < slots_.size()) << "token=" << completion.token;
  const Slot& slot = slots_[token];
  free_.push_back(token);
  if (completion.outcome != OpOutcome::kOk) {
    ++result_.failed;
    if (result_.first_error.empty()) result_.first_error = ToStatus(completion).ToString();
    return;
  }
  if (slot.is_get && !CheckValue(slot.index, options_.value_size, completion.value)) {
    ++result_.wrong_values;
  }
  ++result_.answered;
  if (slot.is_get && slot.is_degraded) ++result_.degraded_answered;
  if (!Measuring(now)) return;
  const auto ns = static_cast<std::uint64_t>(static_cast<double>(now - slot.start) * ns_per_tick_);
  Histogram& reads = slot.is_degraded ? result_.degraded : result_.gets;
  (slot.is_get ? reads : result_.puts).Record(ns);
}

bool ClientLoop::Step() {
  const std::uint64_t now = tools::Ticks();
  if (!measuring_ && now >= measure_from_) {
    measuring_ = true;
    result_.before = CostCounters::Now();
  }
  const bool issuing = now < end_;
  if (!issuing && free_.size() == slots_.size()) {
    done_ = true;
    result_.after = CostCounters::Now();
    result_.seconds = options_.seconds;
    return true;
  }
  if (issuing && options_.rate <= 0) {
    for (std::size_t n = free_.size(); n > 0; --n) Issue(tools::Ticks());
  } else if (issuing) {
    while (!free_.empty() && next_due_ <= static_cast<double>(now)) {
      Issue(static_cast<std::uint64_t>(next_due_));
      next_due_ += interval_;
    }
  }
  const std::size_t count = client_->PollCompletions(absl::MakeSpan(completions_));
  if (count == 0) return false;
  const std::uint64_t arrived = tools::Ticks();
  for (std::size_t i = 0; i < count; ++i) Take(completions_[i], arrived);
  return true;
}

std::vector<LoopResult> ClientLoop::Run(absl::Span<const std::unique_ptr<ClientLoop>> loops) {
  const std::uint64_t start = tools::Ticks();
  for (const auto& loop : loops) loop->Start(start);
  int idle = 0;
  std::size_t left = loops.size();
  while (left != 0) {
    bool news = false;
    left = 0;
    for (const auto& loop : loops) {
      if (loop->done()) continue;
      ++left;
      news = loop->Step() || news;
    }
    idle = news ? 0 : idle + 1;
    if (idle % kIdlePollYield == kIdlePollYield - 1) sched_yield();
    if (idle <= kIdlePollMax) continue;
    // Something is slow: leave the processor to it. The others wait for this one's turn.
    for (const auto& loop : loops) {
      if (loop->free_.size() == loop->slots_.size()) continue;
      loop->client_->WaitForProgress(absl::Microseconds(loops.size() == 1 ? 1000 : 50));
      break;
    }
  }
  std::vector<LoopResult> results;
  for (const auto& loop : loops) results.push_back(std::move(loop->result_));
  return results;
}

}  // namespace ring::bench
