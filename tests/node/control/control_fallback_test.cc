// A peer that failed, and may have come back where another transport reaches it.
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ring/node/control/control_port.h"
#include "tests/node/control/two_ports.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using testing::TwoPorts;

// What node 0 says of its last attempt to reach node 1.
std::string WhyNot(TwoPorts& two) { return two.port(0).Missing(); }

TEST(ControlFallback, AttemptsAlternateWithTheFallbackWhichTheStartThatFailedDoesNotCountBy) {
  TwoPorts two;
  ASSERT_OK(two.Connect());
  ASSERT_OK_AND_ASSIGN(const std::string tcp, two.device(1).Listen("tcp:127.0.0.1:0"));
  const std::string nobody = absl::StrCat("local:two-ports-", getpid(), "-nobody");
  two.port(0).OnRegistered(NodeId(1), Incarnation(TwoPorts::kStart));
  two.port(0).SetAddresses({"", nobody}, {true, true}, {"", tcp});
  two.port(0).Break(NodeId(1));
  std::vector<bool> refused;  // by turns of what is missing
  std::string last = WhyNot(two);
  Await("attempts both ways", [&] {
    two.Progress();
    EXPECT_FALSE(two.port(0).connected(NodeId(1)));
    std::string why = WhyNot(two);
    if (std::exchange(last, why) != why)
      refused.push_back(absl::StrContains(why, "its start that failed is reached by local only"));
    return refused.size() >= 5;
  });
  for (std::size_t i = 1; i < refused.size(); ++i) EXPECT_NE(refused[i], refused[i - 1]) << i;
}

TEST(ControlFallback, AnotherStartIsReachedByTheFallbackAndItsConnectionStaysOnceItRegistered) {
  TwoPorts two;
  ASSERT_OK(two.Connect());
  ASSERT_OK_AND_ASSIGN(const std::string tcp, two.device(1).Listen("tcp:127.0.0.1:0"));
  const std::string nobody = absl::StrCat("local:two-ports-", getpid(), "-nobody");
  two.port(0).OnRegistered(NodeId(1), Incarnation(TwoPorts::kStart - 4));
  two.port(0).SetAddresses({"", nobody}, {true, true}, {"", tcp});
  two.port(0).Break(NodeId(1));
  Await("the fallback", [&] {
    two.Progress();
    return two.port(0).TransportTo(NodeId(1)) == "tcp" && two.port(1).ready();
  });
  const std::uint32_t before = two.port(0).generation(NodeId(1));
  // Another view in which it is down still, then the one in which it is there.
  two.port(0).SetAddresses({"", nobody}, {true, true}, {"", tcp});
  for (int i = 0; i < 1000; ++i) two.Progress();
  two.port(0).OnRegistered(NodeId(1), Incarnation(TwoPorts::kStart));
  two.port(0).SetAddresses({"", tcp}, {true, true});
  for (int i = 0; i < 1000; ++i) two.Progress();
  EXPECT_TRUE(two.port(0).connected(NodeId(1)));
  EXPECT_EQ(two.port(0).generation(NodeId(1)), before);
}

}  // namespace
}  // namespace ring::node
