// When members fold: quiet turns, their due time, and the budget that all rings share. Nodes,
// client and clock are the test's, in one thread: a turn is made by hand.
#include "ring/node/reactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/node/reactor_fixture.h"
#include "tests/support/await.h"

namespace ring::node {
namespace {

class ReactorTest : public ReactorFixture {
 protected:
  static constexpr int kQuietTurns = 32;
  static constexpr std::uint64_t kQuietDueNs = 1'000'000;
};

// After a request the next one is expected: what it left at the members does not stand before that.
TEST_F(ReactorTest, WhatARequestLeftIsFoldedAfterTheQuietTurns) {
  const std::uint64_t before = Folded();
  api::Operation* const put = Submit("k", std::string(1000, 'v'));
  Turn(1000);  // with the request
  for (int i = 1; i < kQuietTurns; ++i) {
    Turn(1000);
    ASSERT_EQ(Folded(), before) << "turn " << i << " after the request";
  }
  for (int i = 0; i < 64 && Folded() < before + 2; ++i) Turn(1000);
  EXPECT_EQ(Folded(), before + 2);  // both members of REP3
  Await(put);
}

// E5: requests without a gap put folding off by a bounded time.
TEST_F(ReactorTest, E5RequestsWithoutAGapDoNotPutFoldingOffForEver) {
  const std::uint64_t before = Folded();
  constexpr std::uint64_t kPassNs = 20'000;
  Await(Submit("k", std::string(1000, 'v')));
  const std::uint64_t start_ns = clock_.now_ns;
  int turns = 0;
  for (; turns < 2000 && Folded() < before + 2; ++turns) {
    api::Operation* const get = Submit("k", "");
    Turn(kPassNs);  // with a request
    ASSERT_EQ(get->state, api::OpState::kDone);
    core_->Free(get);
    if (clock_.now_ns - start_ns < kQuietDueNs / 2) {
      ASSERT_EQ(Folded(), before);
    }
  }
  EXPECT_EQ(Folded(), before + 2);
}

// What is folded in a turn stands before the next request: all rings share one budget.
TEST_F(ReactorTest, FoldingOfATurnWithRequestsHasOneBudgetForAllRings) {
  const std::string value(1000, 'v');
  std::deque<api::Operation*> puts;
  int key = 0;
  for (int turn = 0; turn < 40; ++turn) {
    for (int i = 0; i < 16; ++i) puts.push_back(Submit(absl::StrCat("k", key++ % 600), value));
    Turn(1000);
    while (!puts.empty() && puts.front()->state == api::OpState::kDone) {
      core_->Free(puts.front());
      puts.pop_front();
    }
  }
  // Rings are behind now. One request a turn lets 8 entries be folded, and the rest of a ring's 8.
  constexpr std::uint64_t kBudget = 8;
  constexpr std::uint64_t kOfOneRing = 8;
  std::uint64_t most = 0;
  for (int turn = 0; turn < 30; ++turn) {
    const std::uint64_t before = Folded();
    api::Operation* const get = Submit("k1", "");
    Turn(1000);
    most = std::max(most, Folded() - before);
    Await(get);
  }
  EXPECT_GT(most, 0u) << "no ring was behind";
  EXPECT_LE(most, kBudget + kOfOneRing - 1);
  for (api::Operation* const put : puts) Await(put);
}

// ... and what is due goes ring by ring, also where each has some: no request waits for all rings.
TEST_F(ReactorTest, E5WhatIsDueIsFoldedOneRingInATurn) {
  constexpr std::uint64_t kOfOneRing = 8;
  constexpr std::uint64_t kPassNs = 20'000;
  const std::string value(1000, 'v');
  const std::uint64_t before = Folded();
  constexpr int kPuts = 240;
  std::uint64_t most = 0;
  for (int i = 0; i < kPuts; ++i) {
    const std::uint64_t folded = Folded();
    api::Operation* const put = Submit(absl::StrCat("k", i), value);
    Turn(1000);
    most = std::max(most, Folded() - folded);
    Await(put);
  }
  for (int turn = 0; turn < 2000 && Folded() < before + 2 * kPuts; ++turn) {
    const std::uint64_t folded = Folded();
    api::Operation* const get = Submit("k1", "");
    Turn(kPassNs);
    most = std::max(most, Folded() - folded);
    Await(get);
  }
  EXPECT_EQ(Folded(), before + 2 * kPuts);
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, 2 * kOfOneRing);
}

// Time passes by a microsecond whenever somebody looks: how long a reactor polled is how often it
// looked.
class LookedAtClock final : public Clock {
 public:
  static constexpr std::uint64_t kStepNs = 1000;
  std::uint64_t NowNs() const override { return looks_.fetch_add(1) * kStepNs; }
  std::uint64_t looks() const { return looks_.load(); }

 private:
  mutable std::atomic<std::uint64_t> looks_{0};
};

class IdleReactor : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(IdleReactor, PollsForItsTimeBetweenTwoSleepsAndNotLonger) {
  constexpr std::uint64_t kSleeps = 50;
  // Around a sleep it looks a few times more than for poll_ns.
  constexpr std::uint64_t kLooksOfASleep = 6;
  LookedAtClock clock;
  ReactorOptions options;
  options.clock = &clock;
  options.poll_ns = GetParam();
  options.sleep_ns_max = 100'000;
  Reactor reactor(options);
  std::thread thread([&reactor] { reactor.Run(); });
  ::ring::testing::Await("sleeps", [&] { return reactor.wakeups() >= kSleeps; });
  reactor.Stop();
  thread.join();
  const std::uint64_t sleeps = reactor.wakeups();
  EXPECT_LE(clock.looks(),
            (sleeps + 1) * (options.poll_ns / LookedAtClock::kStepNs + kLooksOfASleep));
  EXPECT_GE(clock.looks(), sleeps * (options.poll_ns / LookedAtClock::kStepNs / 2));
}

INSTANTIATE_TEST_SUITE_P(PollNs, IdleReactor, ::testing::Values(0, 20'000, 200'000));

}  // namespace
}  // namespace ring::node
