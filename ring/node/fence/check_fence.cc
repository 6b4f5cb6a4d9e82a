#include "ring/node/fence/check_fence.h"

#include <algorithm>

#include "ring/base/mutant.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kRetryNs = 200'000;
// A ReadIndex is a round of the consensus.
constexpr std::uint64_t kRefreshNs = 5'000'000;
}  // namespace

std::uint64_t CheckFence::Decide(std::uint64_t captured) {
  captured_ = captured;
  Collect();
  // Who has not answered yet may not for long, and what others show has changed since: the voter
  // that stands still is not waited for.
  if (set_.open && set_.refused > 0 && clock_->NowNs() >= set_.posted_ns + kRetryNs) EndSet();
  if (!set_.open && passed_ < captured) Post(captured);
  return passed_;
}

// Gives whether it is another word than at the last look.
bool CheckFence::Expect() {
  const RoleMark mark = known_();
  if (mark.roles == roles_ &&
      std::equal(mark.voters.begin(), mark.voters.end(), voters_.begin(), voters_.end()))
    return false;
  roles_ = mark.roles;
  voters_.assign(mark.voters.begin(), mark.voters.end());
  expected_.clear();
  for (const consensus::ServerId voter : voters_)
    expected_.push_back({NodeId(consensus::NodeOf(voter)), RoleWord(voter, mark)});
  return true;
}

void CheckFence::Post(std::uint64_t captured) {
  const bool learned = Expect();
  if (expected_.empty()) return;  // it knows of no cluster yet
  if (retry_ns_ != 0 && !learned && clock_->NowNs() < retry_ns_) return;
  retry_ns_ = 0;
  set_ = {
      .open = true, .number = set_.number + 1, .captured = captured, .posted_ns = clock_->NowNs()};
  for (std::size_t i = 0; i < expected_.size() && set_.open; ++i) {
    if (!reader_->Post(expected_[i].node, set_.number << kIndexBits | i)) ++set_.refused;
    // Where READs finish at the post, a majority is enough.
    Collect();
  }
  Settle();
}

void CheckFence::Collect() {
  WordReader::Word word;
  while (reader_->Poll(&word)) {
    // Of a set that was decided without it.
    if (!set_.open || word.tag >> kIndexBits != set_.number) continue;
    const std::size_t index = word.tag & ((std::uint64_t{1} << kIndexBits) - 1);
    if (word.ok && word.value == expected_[index].word) {
      ++set_.shown;
    } else {
      ++set_.refused;
      set_.differs |= word.ok;
    }
    Settle();
  }
}

void CheckFence::Settle() {
  if (!set_.open) return;
  const std::size_t majority = Mutant("L1-majority") ? 1 : expected_.size() / 2 + 1;
  if (set_.shown >= majority) {
    set_.open = false;
    passed_ = std::max(passed_, Mutant("L2-check") ? captured_ : set_.captured);
    return;
  }
  if (set_.refused <= expected_.size() - majority) return;
  EndSet();
  retry_ns_ = clock_->NowNs() + kRetryNs;
}

// Nothing passes by it.
void CheckFence::EndSet() {
  set_.open = false;
  const std::uint64_t now_ns = clock_->NowNs();
  if (!set_.differs || now_ns < refresh_ns_) return;
  refresh_ns_ = now_ns + kRefreshNs;
  refresh_();
}

}  // namespace ring::node
