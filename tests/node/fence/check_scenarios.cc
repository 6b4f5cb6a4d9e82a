// The histories of fence_scenarios.h that concern checks.
#include "gtest/gtest.h"
#include "tests/node/fence/check_world.h"
#include "tests/node/fence/fence_scenarios.h"

namespace ring::node {
namespace {
using testing::CheckingNode;
using testing::LeaseWorld;

constexpr std::uint64_t kNoLeases = 0;

void TakeRole(LeaseWorld* world) {
  world->Fail(0, 4);
  EXPECT_FALSE(world->HasRole(0, 4));
}
}  // namespace

bool WordIsStoredLate() {
  LeaseWorld world(3, kNoLeases);
  world.Begin();
  CheckingNode stopped(&world);
  TakeRole(&world);
  return stopped.Passes();
}

bool RemovedVotersAreAsked() {
  LeaseWorld world(3, kNoLeases);
  world.Begin();
  CheckingNode stopped(&world);
  world.Isolate(2);
  world.RemoveVoter(0, 2);
  world.Isolate(1);
  world.RemoveVoter(0, 1);
  TakeRole(&world);
  return stopped.Passes();
}

bool VoterWithoutMemoryShowsThePast() {
  LeaseWorld world(3, kNoLeases);
  world.Begin();
  CheckingNode stopped(&world);
  const consensus::LogIndex before = world.replica(0).applied_index();
  world.Isolate(1);
  TakeRole(&world);
  world.LoseMemory(2, before);
  return stopped.Passes();
}

bool OneVoterIsEnough() {
  LeaseWorld world(3, kNoLeases);
  world.Begin();
  CheckingNode stopped(&world);
  world.Isolate(1);
  TakeRole(&world);
  return stopped.Passes();
}

bool LeaderCountsItselfFirst() {
  LeaseWorld world(1, kNoLeases);
  world.Begin();
  return world.counted_unseen();
}

bool ValueIsReadBehindTheWords() {
  LeaseWorld world(3, kNoLeases);
  world.Begin();
  CheckingNode node(&world);
  node.reader.held_up = true;
  EXPECT_FALSE(node.Passes()) << "the words are under way";
  TakeRole(&world);
  node.reader.held_up = false;
  return node.Passes();  // of a value that is read only now
}

}  // namespace ring::node
