// An aligned WRITE of 8 bytes is seen whole, and after every WRITE that was posted before it on the
// queue pair: on every link, by another thread that polls the memory meanwhile.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
// Where the parts of a round are, in the source slot of the round and in the target.
constexpr std::size_t kPayloadWords = 25;  // an odd size, longer than any copy in one piece
constexpr std::size_t kFirst = 0;
constexpr std::size_t kPayload = 64;
constexpr std::size_t kSecond = 512;
constexpr std::size_t kGathered = 576;
constexpr std::size_t kSlot = 1024;

std::uint64_t Doubled(std::uint64_t round) { return round << 32 | round; }

class FabricWord : public FabricContract {
 protected:
  // Polls the target as a node polls its mailboxes, until `last` is there.
  void Watch(std::uint64_t last) {
    const auto* memory = reinterpret_cast<const std::uint64_t*>(b_->memory);
    const auto load = [&](std::size_t offset) {
      return __atomic_load_n(memory + offset / kWord, __ATOMIC_ACQUIRE);
    };
    for (std::uint64_t newest = 0; newest < last && !stop_.load();) {
      // Backwards: what was written earlier must be at least as new.
      const std::uint64_t seen[] = {load(kGathered), load(kSecond)};
      std::uint64_t oldest = ~std::uint64_t{0};
      for (std::size_t i = 0; i < kPayloadWords; ++i)
        oldest = std::min(oldest, load(kPayload + i * kWord) & 0xffffffffu);
      const std::uint64_t first = load(kFirst);
      for (const std::uint64_t word : {seen[0], seen[1], first})
        torn_ += word != Doubled(word & 0xffffffffu) ? 1 : 0;
      const std::uint64_t gathered = seen[0] & 0xffffffffu;
      const std::uint64_t second = seen[1] & 0xffffffffu;
      disordered_ += gathered < newest || second < gathered || oldest < second ||
                             (first & 0xffffffffu) < oldest
                         ? 1
                         : 0;
      newest = gathered;
    }
  }

  std::atomic<bool> stop_{false};
  std::uint64_t torn_ = 0;  // the watcher's until it is joined
  std::uint64_t disordered_ = 0;
};

TEST_P(FabricWord, AlignedWordIsSeenWholeAndAfterWhatWasPostedBefore) {
  constexpr std::uint64_t kRounds = 32000;
  constexpr std::uint64_t kChain = 16;  // rounds in one chain of work requests
  std::thread watcher([&] { Watch(kRounds); });
  std::uint64_t round = 0;
  while (round < kRounds && !HasFailure()) {
    std::vector<WorkRequest> chain(kChain * 4);
    std::vector<Sge> sges(kChain * 5);
    for (std::uint64_t i = 0; i < kChain; ++i) {
      const std::uint64_t value = Doubled(++round);
      const std::size_t slot = i * kSlot;
      for (std::size_t at = 0; at < kSlot; at += kWord)
        std::memcpy(a_->memory + slot + at, &value, kWord);
      Sge* sge = &sges[i * 5];
      sge[0] = a_->At(slot + kFirst, kWord);
      sge[1] = a_->At(slot + kPayload, kPayloadWords * kWord);
      sge[2] = a_->At(slot + kSecond, kWord);
      sge[3] = a_->At(slot + kGathered, 3);
      sge[4] = a_->At(slot + kGathered + 3, kWord - 3);
      WorkRequest* wr = &chain[i * 4];
      wr[0] = Write(sge[0], kFirst);
      wr[1] = Write(sge[1], kPayload);
      wr[2] = Write(sge[2], kSecond);
      wr[3] = Write(sge[3], kGathered);
      wr[3].sges = absl::MakeConstSpan(&sge[3], 2);
    }
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) chain[i].next = &chain[i + 1];
    chain.back().signaled = true;
    EXPECT_TRUE(a_->qp->PostSend(chain[0]).ok());
    EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  }
  if (HasFailure()) stop_.store(true);
  watcher.join();
  EXPECT_EQ(torn_, 0u);
  EXPECT_EQ(disordered_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Links, FabricWord, RING_FABRIC_REAL_LINKS,
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
