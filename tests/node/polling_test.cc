// How reactors wait: never an unbounded spin with fewer processors than threads that poll.
#include "ring/node/polling.h"

#include <gtest/gtest.h>

#include "ring/node/host.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

ReactorOptions Of(PollPolicy policy, const Pollers& pollers) {
  NodeConfig config = EmbeddedConfig();
  config.poll = policy;
  config.poll_us = 70;
  const auto options = PollingOf(config, pollers);
  EXPECT_OK(options.status());
  return options.value_or(ReactorOptions());
}

TEST(Polling, AdaptiveReactorsPollForTheirTimeAndThenSleep) {
  const ReactorOptions options = Of(PollPolicy::kAdaptive, {.reactors = 2, .processors = 2});
  EXPECT_EQ(options.poll_ns, 70'000u);
  EXPECT_TRUE(options.sleeps);
}

TEST(Polling, MoreAdaptiveReactorsThanProcessorsSleepAtOnce) {
  const ReactorOptions options = Of(PollPolicy::kAdaptive, {.reactors = 3, .processors = 2});
  EXPECT_EQ(options.poll_ns, 0u);
  EXPECT_TRUE(options.sleeps);
}

TEST(Polling, ReactorsOfOtherProcessesOfTheHostTakeProcessorsToo) {
  const Pollers pollers{.reactors = 1, .neighbours = 5, .processors = 2};
  EXPECT_EQ(Of(PollPolicy::kAdaptive, pollers).poll_ns, 0u);
}

TEST(Polling, SleepingReactorsNeverPoll) {
  const ReactorOptions options = Of(PollPolicy::kSleep, {.reactors = 1, .processors = 8});
  EXPECT_EQ(options.poll_ns, 0u);
  EXPECT_TRUE(options.sleeps);
}

TEST(Polling, BusyReactorsNeverSleepAndNeedTheirProcessors) {
  EXPECT_FALSE(Of(PollPolicy::kBusy, {.reactors = 2, .processors = 2}).sleeps);
  NodeConfig config = EmbeddedConfig();
  config.poll = PollPolicy::kBusy;
  EXPECT_THAT(PollingOf(config, {.reactors = 1, .neighbours = 2, .processors = 2}),
              ring::testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                      ::testing::HasSubstr("pollers=3")));
}

}  // namespace
}  // namespace ring::node
