// Who waits at a listener that can take nobody, as not one descriptor is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

SoftDeviceOptions OptionsOf(LinkKind kind) {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = IsShm(kind);
  options.tcp_uring = UsesUring(kind);
  return options;
}

// Not even the place of a spare one can be taken: those that are open have higher numbers.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 1;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_LT(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

class SocketListenerTest : public ::testing::TestWithParam<LinkKind> {
 protected:
  SocketListenerTest() : side_(OptionsOf(GetParam()), false), peer_(OptionsOf(GetParam()), false) {
    address_ = *side_.device->Listen(FreshAddress(GetParam()));
  }
  // Whether there was anything to do, for who sleeps when there is not.
  bool Turn() {
    side_.device->SetSleeping(true);
    const bool woken = side_.device->Progress() || side_.Readable(100);
    side_.device->SetSleeping(false);
    return woken;
  }

  Side side_;
  Side peer_;
  std::string address_;
};

TEST_P(SocketListenerTest, WhoCannotBeTakenWakesNobodyAgainAndAgainAndIsTakenLater) {
  using Steady = std::chrono::steady_clock;
  peer_.qp = *peer_.device->Connect(address_, peer_.qp_options(), "waits");
  {
    const NoDescriptors none;
    int turns = 0;  // some at the first look, and some every 20 ms
    const Steady::time_point end = Steady::now() + std::chrono::milliseconds(200);
    while (Steady::now() < end) turns += Turn() ? 1 : 0;
    EXPECT_LE(turns, 100);
    EXPECT_GE(turns, 1) << "nobody waited";
  }
  ConnectionEvent event;
  EXPECT_TRUE(testing::HoldsWithin(testing::kPatience, [&] {
    peer_.CollectEvents();
    side_.CollectEvents();
    return side_.TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event);
  }));
  EXPECT_EQ(event.private_data, "waits");
}

INSTANTIATE_TEST_SUITE_P(Links, SocketListenerTest,
                         ::testing::Values(LinkKind::kShm, LinkKind::kTcp, LinkKind::kTcpUring),
                         [](const auto& test) { return LinkKindName(test.param); });

}  // namespace
}  // namespace ring::rdma
