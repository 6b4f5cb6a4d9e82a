#include "tests/tools/ringctl/doctor/machine.h"

namespace ring::tools {
namespace {

Finding Modules(const SystemView& view, Need rdma, const std::string& name) {
  return Judge(CheckModules, view, RdmaNeeds(rdma), name);
}

TEST(CheckModules, VerbsAndConnectionsAreLoadedWhereTheyAreNeeded) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Modules(view, Need::kMust, "module ib_uverbs"), Is(Level::kOk, "loaded"));
  EXPECT_THAT(Modules(view, Need::kMust, "module rdma_ucm"), Is(Level::kOk, "loaded"));
  view.rdma.verbs_loaded = view.rdma.connections_loaded = false;
  for (const std::string name : {"ib_uverbs", "rdma_ucm"}) {
    const Finding must = Modules(view, Need::kMust, "module " + name);
    EXPECT_THAT(must, Is(Level::kFail, "not loaded"));
    EXPECT_EQ(must.remedy, "sudo modprobe " + name);
    EXPECT_THAT(Modules(view, Need::kMay, "module " + name), Is(Level::kWarn, "not loaded"));
    EXPECT_THAT(Modules(view, Need::kNo, "module " + name), Is(Level::kOk, "not needed"));
  }
}

TEST(CheckModules, ASoftwareDeviceIsForMachinesWithoutACard) {
  SystemView view = GoodMachine();
  EXPECT_THAT(Modules(view, Need::kMust, "module rdma_rxe"), Is(Level::kOk, "not needed"));
  view.rdma.devices.clear();
  EXPECT_THAT(Modules(view, Need::kMust, "module rdma_rxe"), Is(Level::kFail, "not loaded"));
  EXPECT_THAT(Modules(view, Need::kMay, "module rdma_rxe"), Is(Level::kWarn, "not loaded"));
  EXPECT_THAT(Modules(view, Need::kNo, "module rdma_rxe"), Is(Level::kOk, "not needed"));
  view.rdma.rxe_loaded = true;
  EXPECT_THAT(Modules(view, Need::kMust, "module rdma_rxe"), Is(Level::kOk, "loaded"));
  view.rdma.devices = {Card()};
  view.rdma.devices[0].parent = "eth0";
  EXPECT_THAT(Modules(view, Need::kMust, "module rdma_rxe"), Is(Level::kOk, "loaded"));
}

TEST(CheckModules, DeviceFilesMustBeUsable) {
  SystemView view = GoodMachine();
  view.rdma.unusable = {"/dev/infiniband/uverbs0"};
  const Finding must = Modules(view, Need::kMust, "device files");
  EXPECT_THAT(must, Is(Level::kFail, "may not use /dev/infiniband/uverbs0"));
  EXPECT_THAT(must.remedy, ::testing::HasSubstr("chmod 666 /dev/infiniband/uverbs0"));
  EXPECT_THAT(Modules(view, Need::kMay, "device files"), Is(Level::kWarn, "uverbs0"));
  EXPECT_THAT(Modules(view, Need::kNo, "device files"), Is(Level::kOk, "uverbs0"));
}

}  // namespace
}  // namespace ring::tools
