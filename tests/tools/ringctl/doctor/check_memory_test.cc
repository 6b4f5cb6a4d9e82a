#include "tests/tools/ringctl/doctor/machine.h"

namespace ring::tools {
namespace {

using ::testing::HasSubstr;

Finding Memory(const SystemView& view, const Needs& needs, const std::string& name) {
  return Judge(CheckMemory, view, needs, name);
}

TEST(CheckMemory, ADevicePinsTheArena) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kMust), "memlock"), Is(Level::kOk, "unlimited"));
  view.memlock_max = 8 << 20;
  const Finding must = Memory(view, RdmaNeeds(Need::kMust), "memlock");
  EXPECT_THAT(must, Is(Level::kFail, "8.00 MiB, and a device pins up to arena_size_max=8.00 GiB"));
  EXPECT_THAT(must.remedy, HasSubstr("ulimit -l unlimited"));
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kMay), "memlock"), Is(Level::kWarn, "8.00 MiB"));
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kNo), "memlock"), Is(Level::kOk, "not needed"));
  view.memlock_max = std::uint64_t{8} << 30;
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kMust), "memlock"), Is(Level::kOk, "8.00 GiB"));
  view.memlock_max = 0;
  view.locks_freely = true;
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kMust), "memlock"), Is(Level::kOk, "CAP_IPC_LOCK"));
  view.locks_freely = false;
  view.rdma.devices.clear();
  EXPECT_THAT(Memory(view, RdmaNeeds(Need::kMay), "memlock"), Is(Level::kOk, "not needed"));
}

TEST(CheckMemory, WithoutHugePagesMemoryIsSlow) {
  SystemView view = GoodMachine();
  for (const char* mode : {"always", "madvise", ""}) {
    view.huge_pages = mode;
    EXPECT_EQ(Memory(view, {}, "huge pages").level, Level::kOk) << mode;
  }
  view.huge_pages = "never";
  EXPECT_THAT(Memory(view, {}, "huge pages"), Is(Level::kWarn, "never"));
  EXPECT_EQ(Memory(view, {}, "huge pages").remedy,
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  Needs needs;
  for (const char* mode : {"never", "deny"}) {
    view.huge_pages_shared = mode;
    needs.shm = Need::kMay;
    EXPECT_THAT(Memory(view, needs, "huge pages, shared"), Is(Level::kWarn, mode));
    EXPECT_EQ(Memory(view, needs, "huge pages, shared").remedy,
              "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled");
    needs.shm = Need::kNo;
    EXPECT_THAT(Memory(view, needs, "huge pages, shared"), Is(Level::kOk, mode));
  }
}

TEST(CheckMemory, ReservedHugePagesAreLostForRing) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Memory(view, {}, "huge pages, reserved"), Is(Level::kOk, "none free"));
  view.huge_pages_free = 512;
  EXPECT_THAT(Memory(view, {}, "huge pages, reserved"), Is(Level::kWarn, "1.00 GiB free"));
}

TEST(CheckMemory, TheArenasOfThisMachineFitIntoWhatIsFree) {
  SystemView view = GoodMachine();
  Needs needs = RdmaNeeds(Need::kNo);
  EXPECT_THAT(Memory(view, needs, "memory"), Is(Level::kOk, "1 node here"));
  needs.nodes_here = 8;
  EXPECT_THAT(Memory(view, needs, "memory"), Is(Level::kOk, "8 nodes here"));
  needs.nodes_here = 9;
  const Finding warned = Memory(view, needs, "memory");
  EXPECT_THAT(warned, Is(Level::kWarn, "9 nodes here with arena_size_max=8.00 GiB"));
  EXPECT_THAT(warned.remedy, HasSubstr("arena_size_max = \"7281MiB\""));
  view.memory_available = 9 * (needs.fixed_size - 1);
  EXPECT_THAT(Memory(view, needs, "memory"), Is(Level::kFail, "64.0 MiB from the start"));
  needs.arena_size = 0;
  EXPECT_THAT(Memory(view, needs, "memory"), Is(Level::kOk, "free"));
}

TEST(CheckMemory, TheArenaIsReservedAtTheStart) {
  SystemView view = GoodMachine();
  const Needs needs = RdmaNeeds(Need::kNo);
  EXPECT_THAT(Memory(view, needs, "overcommit"), Is(Level::kOk, "free"));
  view.counts_reservations = true;
  view.reservations_left = needs.arena_size - 1;
  EXPECT_THAT(Memory(view, needs, "overcommit"), Is(Level::kFail, "vm.overcommit_memory=2"));
  EXPECT_EQ(Memory(view, needs, "overcommit").remedy, "sudo sysctl vm.overcommit_memory=0");
  view.reservations_left = needs.arena_size;
  EXPECT_THAT(Memory(view, needs, "overcommit"), Is(Level::kOk, "8.00 GiB"));
  view.address_space_max = 2 * needs.arena_size;
  EXPECT_THAT(Memory(view, needs, "address space"), Is(Level::kOk, "16.0 GiB"));
  --view.address_space_max;
  EXPECT_THAT(Memory(view, needs, "address space"), Is(Level::kFail, "16.0 GiB"));
}

TEST(CheckMemory, SharedMemoryNeedsMemfds) {
  SystemView view = GoodMachine();
  Needs needs;
  EXPECT_THAT(Memory(view, needs, "memfd"), Is(Level::kOk, "works"));
  view.memfd_error = "Operation not permitted";
  EXPECT_THAT(Memory(view, needs, "memfd"), Is(Level::kWarn, "not permitted"));
  needs.shm = Need::kMust;
  EXPECT_THAT(Memory(view, needs, "memfd"), Is(Level::kFail, "not permitted"));
  needs.shm = Need::kNo;
  EXPECT_THAT(Memory(view, needs, "memfd"), Is(Level::kOk, "not needed"));
}

}  // namespace
}  // namespace ring::tools
