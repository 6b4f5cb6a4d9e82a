// What a node logs of connections that are refused: each peer's reason once.
#include "ring/node/control/refusal_log.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/log.h"
#include "ring/cluster/view.h"
#include "ring/node/config/control_config.h"
#include "tests/node/control/two_ports.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::vector<std::string> warnings;

class RefusalLogTest : public ::testing::Test {
 protected:
  RefusalLogTest() {
    warnings.clear();
    SetLogSink([](LogSeverity severity, absl::string_view line) {
      if (severity == LogSeverity::kWARNING) warnings.emplace_back(line);
    });
  }
  ~RefusalLogTest() override { SetLogSink(nullptr); }
  RefusalLog log_{NodeId(3)};
};

TEST_F(RefusalLogTest, TellsAReasonOnceForEachPeer) {
  for (std::uint64_t s = 1; s < 100; ++s) {
    log_.Refuses(NodeId(1), "another cluster", s * kSecondNs);
    log_.Refuses(NodeId(2), "another cluster", s * kSecondNs);
    log_.Refuses(cluster::kNoNode, "version=12", s * kSecondNs);
  }
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("connection refused node=3 peer=1: another cluster"),
                                    HasSubstr("peer=2: another cluster"),
                                    HasSubstr("peer=unknown: version=12")));
}

TEST_F(RefusalLogTest, TellsAnotherReasonOfThatPeerOnlyAfterAWhile) {
  log_.Refuses(NodeId(1), "one", kSecondNs);
  for (int i = 0; i < 100; ++i) log_.Refuses(NodeId(1), std::to_string(i), 2 * kSecondNs);
  EXPECT_EQ(warnings.size(), 1u);
  log_.Refuses(NodeId(1), "two", kSecondNs + RefusalLog::kQuietNs);
  log_.Refuses(NodeId(1), "two", 2 * kSecondNs + RefusalLog::kQuietNs);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("one"), HasSubstr("two")));
}

TEST_F(RefusalLogTest, TellsItAgainOnceThePeerWasAccepted) {
  log_.Refuses(NodeId(1), "one", kSecondNs);
  log_.Accepted(NodeId(1));
  log_.Refuses(NodeId(1), "one", 2 * kSecondNs);
  EXPECT_EQ(warnings.size(), 2u);
}

TEST_F(RefusalLogTest, TellsWhoIsRefusedOnlyOfWhatLasts) {
  log_.IsRefused(NodeId(1), "a start that follows (L8)", kSecondNs);
  log_.IsRefused(NodeId(1), "another", kSecondNs + RefusalLog::kLastsNs);
  EXPECT_THAT(warnings, IsEmpty());
  log_.IsRefused(NodeId(1), "another", kSecondNs + 2 * RefusalLog::kLastsNs);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("refused by its peer node=3 peer=1: another")));
}

TEST_F(RefusalLogTest, ANodeOfAnotherClusterIsToldOfOnceAtTheNodeThatRefusesIt) {
  testing::TwoPorts ports(/*clusters=*/{1, 2});
  ASSERT_OK(ports.Open());
  ring::testing::Await("some refusals", [&] {
    ports.Progress();
    return ports.refused() >= 3;
  });
  EXPECT_THAT(ports.port(0).Missing(), HasSubstr("another cluster"));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("connection refused node=1 peer=0"),
                                          HasSubstr("another cluster: check cluster names"))));
}

// L1: a leader waits as long as its own file says until a lease is over.
TEST_F(RefusalLogTest, L1WhoseLeasesAreOfAnotherLengthIsRefused) {
  testing::TwoPorts ports(/*clusters=*/{1, 1},
                          /*fences=*/{1000, kFenceByCheck});
  ASSERT_OK(ports.Open());
  const bool refused = ring::testing::HoldsWithin(ring::testing::kPatience, [&] {
    ports.Progress();
    return ports.refused() >= 3 || ports.port(1).ready();
  });
  ASSERT_TRUE(refused);
  EXPECT_FALSE(ports.port(1).ready());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("it has leases of lease_ms=1000, this node "
                                              "fence=check: let all files say the same")));
}

}  // namespace
}  // namespace ring::node
