// What is read of a machine, from a tree of files that is made up.
#include "tools/ringctl/doctor/system_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/processors.h"
#include "tests/tools/program.h"
#include "tools/ringctl/doctor/files.h"

namespace ring::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SystemViewTest : public ::testing::Test {
 protected:
  void Port(const std::string& device, const std::string& name, const std::string& text) {
    const std::string folder = "sys/class/infiniband/" + device + "/";
    tree_.Write(folder + "ports/1/" + name, text + "\n");
  }
  void Gid(const std::string& device, int index, const std::string& gid, const std::string& type,
           const std::string& netdev) {
    const std::string number = std::to_string(index);
    Port(device, "gids/" + number, gid);
    if (type.empty()) return;
    Port(device, "gid_attrs/types/" + number, type);
    Port(device, "gid_attrs/ndevs/" + number, netdev);
  }
  SystemView Read() const { return ReadSystem(tree_.path()); }

  ::ring::testing::TestFolder tree_;
};

TEST_F(SystemViewTest, AnEmptyTreeIsAMachineThatTellsNothing) {
  const SystemView view = Read();
  EXPECT_THAT(view.rdma.devices, IsEmpty());
  EXPECT_FALSE(view.rdma.verbs_loaded || view.rdma.connections_loaded || view.rdma.rxe_loaded);
  EXPECT_EQ(view.memory_available, 0u);
  EXPECT_EQ(view.clock_source, "");
  EXPECT_FALSE(view.locks_freely);
}

TEST_F(SystemViewTest, ReadsPortsAndTheGidsThatAreSet) {
  tree_.Write("sys/class/infiniband/mlx5_0/fw_ver", "20.31.1014\n");
  Port("mlx5_0", "state", "4: ACTIVE");
  Port("mlx5_0", "link_layer", "Ethernet");
  Port("mlx5_0", "rate", "100 Gb/sec (4X EDR)");
  Gid("mlx5_0", 10, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
  Gid("mlx5_0", 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "eth0");
  Gid("mlx5_0", 1, "0000:0000:0000:0000:0000:0000:0000:0000", "", "");
  tree_.Write("sys/class/net/eth0/mtu", "9000\n");
  tree_.Write("sys/class/net/lo/mtu", "65536\n");
  const RdmaView rdma = Read().rdma;
  ASSERT_EQ(rdma.devices.size(), 1u);
  const RdmaDevice& device = rdma.devices[0];
  EXPECT_EQ(device.name, "mlx5_0");
  EXPECT_EQ(device.firmware, "20.31.1014");
  EXPECT_FALSE(device.soft());
  ASSERT_EQ(device.ports.size(), 1u);
  const RdmaPort& port = device.ports[0];
  EXPECT_TRUE(port.active());
  EXPECT_TRUE(port.ethernet());
  EXPECT_EQ(port.rate, "100 Gb/sec (4X EDR)");
  EXPECT_EQ(port.netdev, "eth0");
  EXPECT_EQ(port.mtu, 9000u);
  ASSERT_EQ(port.gids.size(), 2u);
  EXPECT_EQ(port.gids[0].type, "IB/RoCE v1");
  EXPECT_EQ(port.gids[1].index, 10);
  EXPECT_EQ(port.gids[1].type, "RoCE v2");
  EXPECT_THAT(rdma.netdevs, ElementsAre("eth0"));
}

TEST_F(SystemViewTest, ADeviceThatTheKernelMakesHasAParent) {
  tree_.Write("sys/class/infiniband/rxe0/parent", "ens3\n");
  Port("rxe0", "state", "1: DOWN");
  Port("rxe0", "link_layer", "Ethernet");
  tree_.Write("sys/class/net/ens3/mtu", "1500\n");
  const RdmaDevice device = Read().rdma.devices.at(0);
  EXPECT_TRUE(device.soft());
  EXPECT_FALSE(device.ports[0].active());
  EXPECT_EQ(device.ports[0].netdev, "ens3");
  EXPECT_EQ(device.ports[0].mtu, 1500u);
}

TEST_F(SystemViewTest, ModulesAreLoadedOrBuiltIn) {
  tree_.Write("sys/module/rdma_rxe/refcnt", "0\n");
  tree_.Write("sys/class/infiniband_verbs/abi_version", "6\n");
  tree_.Write("sys/class/misc/rdma_cm/dev", "10:58\n");
  const RdmaView rdma = Read().rdma;
  EXPECT_TRUE(rdma.rxe_loaded);
  EXPECT_TRUE(rdma.verbs_loaded);
  EXPECT_TRUE(rdma.connections_loaded);
}

TEST_F(SystemViewTest, ReadsMemoryAndWhatItsControlGroupLeaves) {
  tree_.Write("proc/meminfo",
              "MemTotal:       16000000 kB\nMemAvailable:    1024 kB\nCommitLimit:  3 kB\n"
              "Committed_AS: 1 kB\nHugePages_Free:     7\nHugepagesize:       2048 kB\n");
  tree_.Write("proc/sys/vm/overcommit_memory", "2\n");
  tree_.Write("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  tree_.Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  tree_.Write("sys/kernel/mm/transparent_hugepage/shmem_enabled",
              "always within_size advise [never] deny force\n");
  SystemView view = Read();
  EXPECT_EQ(view.memory_available, 1024u * 1024);
  EXPECT_EQ(view.huge_pages_free, 7u);
  EXPECT_EQ(view.huge_page_size, 2u << 20);
  EXPECT_TRUE(view.counts_reservations);
  EXPECT_EQ(view.reservations_left, 2048u);
  EXPECT_TRUE(view.locks_freely);
  EXPECT_EQ(view.huge_pages, "madvise");
  EXPECT_EQ(view.huge_pages_shared, "never");
  tree_.Write("sys/fs/cgroup/memory.max", "5000\n");
  tree_.Write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(Read().memory_available, 4000u);
  tree_.Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Read().memory_available, 1024u * 1024);
}

TEST_F(SystemViewTest, ReadsClocksAndIoUring) {
  const std::string clock = "sys/devices/system/clocksource/clocksource0/";
  tree_.Write(clock + "current_clocksource", "hpet\n");
  tree_.Write(clock + "available_clocksource", "tsc hpet acpi_pm \n");
  tree_.Write("proc/sys/kernel/io_uring_disabled", "1\n");
  const SystemView view = Read();
  EXPECT_EQ(view.clock_source, "hpet");
  EXPECT_EQ(view.clock_sources, "tsc hpet acpi_pm");
  EXPECT_EQ(view.uring_disabled, 1u);
  EXPECT_EQ(view.processors, ProcessorCount());
  EXPECT_GT(view.descriptors_max, 0u);
}

TEST(ChosenWord, IsTheOneInBrackets) {
  EXPECT_EQ(ChosenWord("a [b] c"), "b");
  EXPECT_EQ(ChosenWord("]a["), "");
  EXPECT_EQ(ChosenWord(""), "");
}

}  // namespace
}  // namespace ring::tools
