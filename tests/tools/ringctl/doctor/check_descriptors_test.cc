#include "tests/tools/ringctl/doctor/machine.h"

namespace ring::tools {
namespace {

using ::testing::HasSubstr;

Finding Descriptors(const SystemView& view, const Needs& needs, const std::string& name) {
  return Judge(CheckDescriptors, view, needs, name);
}

TEST(CheckDescriptors, TheLimitIsWellAboveWhatClientsAndPeersTake) {
  SystemView view = GoodMachine();
  const Needs needs = RdmaNeeds(Need::kNo);
  view.descriptors_max = 2048;
  EXPECT_THAT(Descriptors(view, needs, "file descriptors"), Is(Level::kOk, "2048"));
  view.descriptors_max = kUnlimited;
  EXPECT_THAT(Descriptors(view, needs, "file descriptors"), Is(Level::kOk, "unlimited"));
  view.descriptors_max = 2047;
  const Finding few = Descriptors(view, needs, "file descriptors");
  EXPECT_THAT(few, Is(Level::kWarn, "2047, and clients and peers take up to 2048"));
  EXPECT_THAT(few.remedy, HasSubstr("ulimit -Hn 2048"));
  view.descriptors_max = 255;
  EXPECT_THAT(Descriptors(view, needs, "file descriptors"), Is(Level::kFail, "255"));
}

TEST(CheckDescriptors, TcpIsSlowerWithoutIoUring) {
  SystemView view = GoodMachine();
  Needs needs;
  EXPECT_THAT(Descriptors(view, needs, "io_uring"), Is(Level::kOk, "works"));
  view.uring_error = "io_uring_setup: Operation not permitted";
  EXPECT_THAT(Descriptors(view, needs, "io_uring"), Is(Level::kWarn, "a socket at a time"));
  EXPECT_THAT(Descriptors(view, needs, "io_uring").remedy, HasSubstr("Linux 6.1"));
  view.uring_disabled = 2;
  EXPECT_EQ(Descriptors(view, needs, "io_uring").remedy, "sudo sysctl kernel.io_uring_disabled=0");
  needs.tcp = Need::kMust;
  EXPECT_THAT(Descriptors(view, needs, "io_uring"), Is(Level::kWarn, "a socket at a time"));
  needs.tcp = Need::kNo;
  EXPECT_THAT(Descriptors(view, needs, "io_uring"), Is(Level::kOk, "not needed"));
}

TEST(Examine, AGoodMachineHasNothingToMend) {
  const Report report = Examine(GoodMachine(), RdmaNeeds(Need::kMust));
  EXPECT_EQ(report.worst(), Level::kOk);
  EXPECT_GE(report.findings().size(), 15u);
}

TEST(Examine, AMachineThatTellsNothingIsJudgedAllTheSame) {
  const Report report = Examine(SystemView(), RdmaNeeds(Need::kMust));
  EXPECT_EQ(report.worst(), Level::kFail);
  for (const Finding& one : report.findings()) {
    EXPECT_EQ(one.level == Level::kOk, one.remedy.empty()) << one.check;
    EXPECT_FALSE(one.found.empty()) << one.check;
  }
}

}  // namespace
}  // namespace ring::tools
