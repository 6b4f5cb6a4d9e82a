#include "absl/strings/str_cat.h"
#include "tests/tools/ringctl/doctor/machine.h"

namespace ring::tools {
namespace {

using ::testing::HasSubstr;

Finding Rdma(const SystemView& view, const Needs& needs, const std::string& name) {
  return Judge(CheckRdma, view, needs, name);
}

TEST(CheckRdma, AMachineWithoutADeviceIsJudgedByWhatIsNeeded) {
  SystemView view = GoodMachine();
  view.rdma.devices.clear();
  view.rdma.netdevs = {"ens3"};
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kNo), "rdma device"), Is(Level::kOk, "not needed"));
  const Finding may = Rdma(view, RdmaNeeds(Need::kMay), "rdma device");
  EXPECT_THAT(may, Is(Level::kWarn, "reached by tcp"));
  EXPECT_THAT(may.remedy, HasSubstr("rdma link add rxe0 type rxe netdev ens3"));
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "rdma device"),
              Is(Level::kFail, "transport=rdma needs one"));
}

TEST(CheckRdma, ADeviceThatIsNamedMustBeThere) {
  Needs needs = RdmaNeeds(Need::kMust);
  needs.rdma_device = "mlx5_7";
  const Finding missing = Rdma(GoodMachine(), needs, "rdma device");
  EXPECT_THAT(missing, Is(Level::kFail, "rdma_device=mlx5_7 is not here; there are mlx5_0"));
  EXPECT_THAT(missing.remedy, HasSubstr("rdma_device = \"mlx5_0\""));
  needs.rdma = Need::kMay;
  EXPECT_THAT(Rdma(GoodMachine(), needs, "rdma device"), Is(Level::kWarn, "mlx5_7"));
  needs.rdma_device = "mlx5_0";
  Report report;
  CheckRdma(GoodMachine(), needs, &report);
  EXPECT_EQ(report.worst(), Level::kOk);
}

TEST(CheckRdma, SaysWhatADeviceIs) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Rdma(view, {}, "device mlx5_0"), Is(Level::kOk, "hardware, firmware 20.1"));
  EXPECT_THAT(Rdma(view, {}, "limits mlx5_0"), Is(Level::kOk, "ibv_devinfo -v -d mlx5_0"));
  view.rdma.devices[0].limits_error = "this build has no libibverbs";
  EXPECT_THAT(Rdma(view, {}, "limits mlx5_0"), Is(Level::kOk, "this build has no libibverbs"));
  view.rdma.devices[0].queue_pairs_max = 131072;
  view.rdma.devices[0].regions_max = 16777216;
  view.rdma.devices[0].requests_max = 32768;
  EXPECT_THAT(Rdma(view, {}, "limits mlx5_0"),
              Is(Level::kOk, "max_qp=131072 max_mr=16777216 max_qp_wr=32768"));
  view.rdma.devices[0].name = "rxe0";
  view.rdma.devices[0].parent = "eth0";
  EXPECT_THAT(Rdma(view, {}, "device rxe0"), Is(Level::kOk, "made by the kernel over eth0"));
}

TEST(CheckRdma, APortThatIsNotActiveFailsWhereItIsTheOnlyOne) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/1"),
              Is(Level::kOk, "ACTIVE, Ethernet, 100 Gb/sec"));
  RdmaDevice& device = view.rdma.devices[0];
  device.ports[0].state = "DOWN";
  const Finding down = Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/1");
  EXPECT_THAT(down, Is(Level::kFail, "DOWN"));
  EXPECT_EQ(down.remedy, "sudo ip link set eth0 up");
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMay), "port mlx5_0/1"), Is(Level::kWarn, "DOWN"));
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kNo), "port mlx5_0/1"), Is(Level::kOk, "DOWN"));
  // With another one that works, this is a loss and no failure.
  device.ports.push_back(Card().ports[0]);
  device.ports[1].number = 2;
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/1"), Is(Level::kWarn, "DOWN"));
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/2"), Is(Level::kOk, "ACTIVE"));
}

TEST(CheckRdma, AnInfinibandPortWantsASubnetManager) {
  SystemView view = GoodMachine();
  RdmaPort& port = view.rdma.devices[0].ports[0];
  port.link_layer = "InfiniBand";
  port.netdev = "";
  port.gids = {{0, "fe80::2", "IB/RoCE v1", ""}};
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "gids mlx5_0/1"),
              Is(Level::kOk, "0: InfiniBand fe80::2"));
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "mtu mlx5_0/1"),
              Is(Level::kOk, "not in /sys for InfiniBand"));
  port.state = "INIT";
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/1").remedy, HasSubstr("opensm"));
  port.state = "DOWN";
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "port mlx5_0/1").remedy, HasSubstr("cable"));
  port.gids.clear();
  EXPECT_THAT(Rdma(view, RdmaNeeds(Need::kMust), "gids mlx5_0/1").remedy, HasSubstr("opensm"));
}

TEST(CheckRdma, ASmallMtuIsSlowOnHardware) {
  SystemView view = GoodMachine();
  const auto mtu = [&view](Need need, std::uint32_t bytes) {
    view.rdma.devices[0].ports[0].mtu = bytes;
    return Rdma(view, RdmaNeeds(need), absl::StrCat("mtu ", view.rdma.devices[0].name, "/1"));
  };
  EXPECT_THAT(mtu(Need::kMust, 4192), Is(Level::kOk, "4096, for eth0 has mtu=4192"));
  EXPECT_THAT(mtu(Need::kMust, 4191), Is(Level::kWarn, "2048, for eth0 has mtu=4191"));
  EXPECT_THAT(mtu(Need::kMay, 1500), Is(Level::kWarn, "1024, for eth0 has mtu=1500"));
  EXPECT_THAT(mtu(Need::kMust, 1500).remedy, HasSubstr("ip link set eth0 mtu 4200"));
  EXPECT_THAT(mtu(Need::kNo, 1500), Is(Level::kOk, "1024"));
  EXPECT_THAT(mtu(Need::kMust, 0), Is(Level::kWarn, "unknown"));
  view.rdma.devices[0].parent = "eth0";
  EXPECT_THAT(mtu(Need::kMust, 1500), Is(Level::kOk, "1024"));
}

TEST(CheckRdma, APortWantsAGidThatCrossesRouters) {
  SystemView view = GoodMachine();
  std::vector<RdmaGid>& gids = view.rdma.devices[0].ports[0].gids;
  const auto judge = [&view](Need need) { return Rdma(view, RdmaNeeds(need), "gids mlx5_0/1"); };
  EXPECT_THAT(judge(Need::kMust), Is(Level::kOk, "0: IB/RoCE v1 fe80::1, 1: RoCE v2 ::ffff"));
  gids.pop_back();
  EXPECT_THAT(judge(Need::kMust), Is(Level::kWarn, "RoCE v1 crosses no router"));
  EXPECT_THAT(judge(Need::kMust).remedy, HasSubstr("ip addr add ADDRESS/24 dev eth0"));
  EXPECT_THAT(judge(Need::kMay), Is(Level::kWarn, "RoCE v1 crosses no router"));
  EXPECT_THAT(judge(Need::kNo), Is(Level::kOk, "RoCE v1 crosses no router"));
  gids.clear();
  EXPECT_THAT(judge(Need::kMust), Is(Level::kFail, "none"));
  EXPECT_THAT(judge(Need::kMay), Is(Level::kWarn, "none"));
  EXPECT_THAT(judge(Need::kNo), Is(Level::kOk, "none"));
}

TEST(CheckRdma, AGidIndexThatIsNamedMustBeThere) {
  Needs needs = RdmaNeeds(Need::kMust);
  needs.rdma_gid_index = 1;
  EXPECT_THAT(Rdma(GoodMachine(), needs, "gids mlx5_0/1"), Is(Level::kOk, "rdma_gid_index=1 of"));
  needs.rdma_gid_index = 4;
  EXPECT_THAT(Rdma(GoodMachine(), needs, "gids mlx5_0/1"),
              Is(Level::kFail, "rdma_gid_index=4 is not among 0: "));
  needs.rdma = Need::kMay;
  EXPECT_THAT(Rdma(GoodMachine(), needs, "gids mlx5_0/1"), Is(Level::kWarn, "is not among"));
}

TEST(CheckRdma, ADeviceThatIsNotChosenFailsNothing) {
  SystemView view = GoodMachine();
  view.rdma.devices.push_back(Card());
  view.rdma.devices[1].name = "mlx5_1";
  view.rdma.devices[1].ports[0].state = "DOWN";
  Needs needs = RdmaNeeds(Need::kMust);
  needs.rdma_device = "mlx5_0";
  EXPECT_THAT(Rdma(view, needs, "port mlx5_1/1"), Is(Level::kOk, "DOWN"));
}

}  // namespace
}  // namespace ring::tools
