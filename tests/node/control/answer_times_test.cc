// A slow peer is asked again ever later, and one that answers quickly again soon.
#include "ring/node/control/answer_times.h"

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "ring/base/boot_clock.h"
#include "tests/node/control/two_ports.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using testing::TwoPorts;

constexpr std::uint64_t kMs = 1'000'000;

TEST(AnswerTimes, F11ATimeoutIsTwiceWhatTheSlowestAnswerTookAndNeverLessThanWanted) {
  AnswerTimes times;
  EXPECT_EQ(times.Stretched(ControlType::kFetch, 200 * kMs), 200 * kMs);
  times.OnAnswer(ControlType::kFetch, 50 * kMs);
  EXPECT_EQ(times.Stretched(ControlType::kFetch, 200 * kMs), 200 * kMs);
  times.OnAnswer(ControlType::kFetch, 900 * kMs);
  EXPECT_EQ(times.Stretched(ControlType::kFetch, 200 * kMs), 1800 * kMs);
  EXPECT_EQ(times.Stretched(ControlType::kInstall, 500 * kMs), 500 * kMs) << "another type";
}

TEST(AnswerTimes, F11SilenceDoublesATimeoutUpToABound) {
  AnswerTimes times;
  std::uint64_t timeout_ns = 200 * kMs;
  for (int i = 0; i < 3; ++i) {
    times.OnTimeout(ControlType::kRow, timeout_ns);
    EXPECT_EQ(times.Stretched(ControlType::kRow, 200 * kMs), 2 * timeout_ns);
    timeout_ns = times.Stretched(ControlType::kRow, 200 * kMs);
  }
  times.OnTimeout(ControlType::kRow, 60'000 * kMs);
  EXPECT_EQ(times.Stretched(ControlType::kRow, 200 * kMs), AnswerTimes::kStretchedMaxNs);
  EXPECT_EQ(times.Stretched(ControlType::kRow, 90'000 * kMs), 90'000 * kMs);
}

TEST(AnswerTimes, AnswersThatAreQuickAgainAreBelievedByAndBy) {
  AnswerTimes times;
  times.OnAnswer(ControlType::kFetch, 8'000 * kMs);
  times.OnAnswer(ControlType::kFetch, kMs);
  EXPECT_GT(times.Stretched(ControlType::kFetch, 200 * kMs), 4'000 * kMs) << "one is not enough";
  for (int i = 0; i < 40; ++i) times.OnAnswer(ControlType::kFetch, kMs);
  EXPECT_EQ(times.Stretched(ControlType::kFetch, 200 * kMs), 200 * kMs);
}

TEST(AnswerTimes, AnotherConnectionIsAnotherMatter) {
  AnswerTimes times;
  times.OnTimeout(ControlType::kFetch, 1'000 * kMs);
  times.Forget();
  EXPECT_EQ(times.Stretched(ControlType::kFetch, 20 * kMs), 20 * kMs);
}

class SlowPeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(two_.Connect());
    two_.port(1).Handle(ControlType::kFetch, [](NodeId, absl::string_view, ControlReply reply) {
      reply(std::string("bytes"));
    });
  }
  // Asks of a peer that does nothing meanwhile; gives how long it was waited for.
  std::uint64_t AskInVain(CallWait wait = CallWait::kForTheSlow) {
    absl::Status status;
    const std::uint64_t begun_ns = clock_.NowNs();
    two_.Progress(0);  // so that the port's time is no earlier
    two_.port(0).Call(
        NodeId(1), ControlType::kFetch, "", kMs,
        [&](const absl::StatusOr<std::string>& answer) { status = answer.status(); }, wait);
    Await("the deadline", [&] {
      two_.Progress(0);
      return !status.ok();
    });
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    return clock_.NowNs() - begun_ns;
  }
  TwoPorts two_;
  BootClock clock_;
};

TEST_F(SlowPeerTest, F11IsAskedAgainEverLater) {
  std::uint64_t waited_ns = 0;
  for (int i = 0; i < 6; ++i) waited_ns += AskInVain();
  EXPECT_GE(waited_ns, (1 + 2 + 4 + 8 + 16 + 32) * kMs);
}

TEST_F(SlowPeerTest, F11AnAnswerThatComesTooLateTellsHowLate) {
  AskInVain();
  const std::uint64_t late_ns = clock_.NowNs() + 100 * kMs;
  Await("a slow peer", [&] { return clock_.NowNs() >= late_ns; });
  bool asked = false;
  two_.port(0).Call(NodeId(1), ControlType::kPing, "", 60'000 * kMs,
                    [&](const absl::StatusOr<std::string>&) { asked = true; });
  Await("the answers, in their order", [&] {
    two_.Progress();
    return asked;
  });
  EXPECT_GE(AskInVain(), 200 * kMs);
}

// ... by who said so. What is known by then would stretch it to more than a second.
TEST_F(SlowPeerTest, WhoMeansItsTimeoutKeepsIt) {
  std::uint64_t stretched_ns = 0;
  while (stretched_ns < 600 * kMs) stretched_ns = AskInVain();
  bool other_ended = false;
  two_.port(0).Call(
      NodeId(1), ControlType::kFetch, "", kMs,
      [&](const absl::StatusOr<std::string>&) { other_ended = true; }, CallWait::kForTheSlow);
  const std::uint64_t begun_ns = clock_.NowNs();
  AskInVain(CallWait::kAsSaid);
  const bool stood_still = clock_.NowNs() - begun_ns >= 600 * kMs;
  EXPECT_TRUE(!other_ended || stood_still) << "that one was asked before, with the same time-out";
}

}  // namespace
}  // namespace ring::node
