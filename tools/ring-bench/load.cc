#include "tools/ring-bench/load.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/random.h"
#include "tools/common/progress.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {
namespace {

constexpr std::uint64_t kStallNsMax = 30'000'000'000;

bool IsPassing(OpOutcome outcome) {
  return outcome == OpOutcome::kResourceExhausted || outcome == OpOutcome::kUnavailable;
}

}  // namespace

absl::Status Load(Client* client, absl::string_view label, const LoadOptions& options) {
  tools::Progress progress(label, options.key_count, options.progress);
  std::vector<char> value(options.value_size);
  SeededRandom random(options.key_space + 1u);
  for (char& byte : value) byte = static_cast<char>(random.Next64());
  // A value above the inline limit is read from here while its put is under way: one buffer each.
  std::vector<std::vector<char>> values(options.pipeline, value);
  std::vector<std::uint64_t> again;
  std::vector<std::uint32_t> free_slots;
  std::vector<std::uint64_t> index_of(options.pipeline);
  for (std::uint32_t i = 0; i < options.pipeline; ++i) free_slots.push_back(i);
  std::array<Completion, 64> completions;
  std::uint64_t next = 0, done = 0, progressed_ns = tools::MonotonicNs();
  // What a poll took has its place in the client's window until the next poll: submit once more
  // before waiting for what may not be under way.
  bool took = false;
  PutOptions put;
  put.memgest_id = options.memgest;
  while (done < options.key_count) {
    while (!free_slots.empty() && (!again.empty() || next < options.key_count)) {
      const std::uint64_t index = again.empty() ? next : again.back();
      const std::uint32_t slot = free_slots.back();
      std::vector<char>& bytes = values[slot];
      FillValue(index, absl::MakeSpan(bytes));
      const absl::Status status = client->SubmitPut(slot, KeyName(options.key_space, index).view(),
                                                    {bytes.data(), bytes.size()}, put);
      if (absl::IsResourceExhausted(status)) break;
      if (!status.ok()) return status;
      free_slots.pop_back();
      index_of[slot] = index;
      again.empty() ? static_cast<void>(++next) : again.pop_back();
    }
    const std::size_t count = client->PollCompletions(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) {
      const auto slot = static_cast<std::uint32_t>(completions[i].token);
      free_slots.push_back(slot);
      if (completions[i].outcome == OpOutcome::kOk) {
        progress.Set(++done);
        progressed_ns = tools::MonotonicNs();
      } else if (IsPassing(completions[i].outcome)) {
        again.push_back(index_of[slot]);
      } else {
        return ToStatus(completions[i]);
      }
    }
    if (std::exchange(took, count != 0) || took) continue;
    if (tools::MonotonicNs() - progressed_ns > kStallNsMax) {
      return absl::DeadlineExceededError(absl::StrCat("load of ", label, " stands still at key ",
                                                      done, " of ", options.key_count));
    }
    client->WaitForProgress(absl::Milliseconds(10));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReadBackResult> ReadBack(Client* client, const LoadOptions& options,
                                        absl::Duration patience) {
  GetOptions get;
  const std::uint64_t end_ns =
      tools::MonotonicNs() + static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(patience));
  ReadBackResult result;
  std::vector<std::uint64_t> again;
  std::array<Completion, 64> completions;
  std::uint64_t next = 0, wrong = options.key_count;
  bool took = false;  // as above
  for (std::size_t under_way = 0; result.right + result.unread < options.key_count;) {
    const std::uint64_t now_ns = tools::MonotonicNs();
    if (now_ns >= end_ns && under_way == 0) {
      result.unread = options.key_count - result.right;
      break;
    }
    while (now_ns < end_ns && under_way < options.pipeline &&
           (!again.empty() || next < options.key_count)) {
      const std::uint64_t index = again.empty() ? next : again.back();
      get.deadline = absl::Nanoseconds(end_ns - now_ns);
      const absl::Status status =
          client->SubmitGet(index, KeyName(options.key_space, index).view(), get);
      if (absl::IsResourceExhausted(status)) break;
      if (!status.ok()) return status;
      again.empty() ? static_cast<void>(++next) : again.pop_back();
      ++under_way;
    }
    const std::size_t count = client->PollCompletions(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) {
      const Completion& one = completions[i];
      --under_way;
      if (one.outcome == OpOutcome::kOk) {
        if (!CheckValue(one.token, options.value_size, one.value)) wrong = one.token;
        ++result.right;
      } else if (IsPassing(one.outcome) && tools::MonotonicNs() < end_ns) {
        again.push_back(one.token);
      } else {
        ++result.unread;
      }
    }
    if (!std::exchange(took, count != 0) && !took) client->WaitForProgress(absl::Milliseconds(10));
  }
  if (wrong == options.key_count) return result;
  return absl::DataLossError(absl::StrCat("key number ", wrong, " of key space ", options.key_space,
                                          " has a wrong value"));
}

}  // namespace ring::bench
