// The path of a put or get allocates nothing at its nodes: request, coordinator, heap, log, NIC,
// members' folding, reply. Counted in a reactor's passes only; the client's are not.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/node/reactor_fixture.h"
#include "tests/support/allocation_counter.h"

namespace ring::node {
namespace {

class ReactorAllocation : public ReactorFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  static constexpr int kKeys = 64;

  // Heartbeats and leases, which come by time, allocate; requests do not.
  ReactorAllocation() { fail_over_ = false; }

  // One put and one get of each key, and what the nodes allocated for them.
  std::uint64_t PutAndGetAll() {
    const std::string value(1000, 'v');
    std::uint64_t allocated = 0;
    for (int key = 0; key < kKeys; ++key) {
      for (const std::string& given : {value, std::string()}) {
        api::Operation* const op = Submit(absl::StrCat("key", key), given, GetParam());
        for (int i = 0; i < 1000 && op->state != api::OpState::kDone; ++i) {
          clock_.now_ns += 1000;
          const std::uint64_t before = AllocationCount();
          reactor_->Turn();
          allocated += AllocationCount() - before;
          core_->Step();
        }
        EXPECT_EQ(op->state, api::OpState::kDone);
        EXPECT_EQ(op->result.outcome, OpOutcome::kOk);
        core_->Free(op);
      }
    }
    return allocated;
  }
};

TEST_P(ReactorAllocation, PutsAndGetsOfABusyClusterAllocateNothing) {
  // Tables grow to what the keys need, and the members' folding catches up.
  for (int round = 0; round < 20; ++round) PutAndGetAll();
  Settle();
  std::uint64_t allocated = 0;
  for (int round = 0; round < 10; ++round) allocated += PutAndGetAll();
  EXPECT_EQ(allocated, 0u) << "in " << 10 * 2 * kKeys << " operations";
}

INSTANTIATE_TEST_SUITE_P(Memgests, ReactorAllocation,
                         ::testing::Values("REP1", "REP3", "SRS21", "SRS32"));

}  // namespace
}  // namespace ring::node
