#include "tests/node/fence/fence_scenarios.h"

#include "gtest/gtest.h"
#include "ring/node/fence/lease_fence.h"
#include "tests/node/fence/lease_world.h"

namespace ring::node {
namespace {
using testing::kLeaseNs;
using testing::LeaseWorld;
using testing::TestClock;

constexpr std::uint64_t kMsNs = 1'000'000;
}  // namespace

bool DeposedLeaderGrants() {
  LeaseWorld world;
  world.Begin();
  const std::uint16_t leader = world.ElectWithout(0);
  world.Pass(LeaseWaitNs(kLeaseNs) + kMsNs);
  // Node 4 is on the old leader's side.
  const LeaseWorld::Outcome lease = world.Renew(0, 4);
  world.Pass(kMsNs);
  world.Fail(leader, 4);
  EXPECT_FALSE(world.HasRole(leader, 4));
  return LeaseWorld::Granted(lease);
}

bool RoleIsTakenUnderALease() {
  LeaseWorld world;
  world.Begin();
  const std::uint64_t sent_ns = world.clock.now_ns;
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
  world.Fail(0, 4);
  while (world.HasRole(0, 4)) world.Pass(kMsNs);
  return world.clock.now_ns < sent_ns + kLeaseNs;
}

bool LeaseIsGrantedBehindAReassignment() {
  LeaseWorld world;
  world.Begin();
  world.Pass(LeaseWaitNs(kLeaseNs));
  // The proposal is in the leader's log, and the others do not have it yet.
  world.Isolate(1);
  world.Isolate(2);
  world.Fail(0, 4);
  const LeaseWorld::Outcome lease = world.Renew(0, 4);
  world.Heal();
  for (int i = 0; i < 10 && world.HasRole(0, 4); ++i) {
    world.Tick(0);
    world.Settle();
  }
  EXPECT_FALSE(world.HasRole(0, 4));
  return LeaseWorld::Granted(lease);
}

bool RepliesPassWithoutALease() {
  TestClock clock;
  LeaseFence fence(&clock, kLeaseNs, [](LeaseFence::Granted done) { done(absl::OkStatus()); });
  fence.Progress(clock.now_ns);
  EXPECT_EQ(fence.Decide(1), 1u);
  clock.now_ns += kLeaseNs;
  return fence.Decide(2) == 2;
}

bool ValueIsReadBehindTheCheck() {
  TestClock clock;
  LeaseFence fence(&clock, kLeaseNs, [](LeaseFence::Granted done) { done(absl::OkStatus()); });
  fence.Progress(clock.now_ns);
  EXPECT_EQ(fence.Decide(1), 1u);
  clock.now_ns += kLeaseNs / 2;
  fence.Progress(clock.now_ns);   // the turn's look at the clock
  clock.now_ns += 10 * kLeaseNs;  // stopped; then the value of capture 2 is read
  return fence.Decide(2) == 2;
}

bool LeaseForRolesOfThePast() {
  LeaseWorld world;
  world.Begin();
  world.Pass(LeaseWaitNs(kLeaseNs));
  const std::uint32_t known = world.view(0).epoch;
  world.Fail(0, 4);
  EXPECT_FALSE(world.HasRole(0, 4));
  // A copy of its registration that was under way all the time.
  world.Register(0, 4, LeaseWorld::FirstStart(4));
  return LeaseWorld::Granted(world.Renew(0, 4, known));
}

}  // namespace ring::node
