#include "tests/tools/ringctl/doctor/machine.h"

namespace ring::tools {
namespace {

using ::testing::HasSubstr;

Finding Processors(const SystemView& view, const Needs& needs, const std::string& name) {
  return Judge(CheckProcessors, view, needs, name);
}

TEST(CheckProcessors, AClockThatIsASystemCallIsSlow) {
  SystemView view = GoodMachine();
  for (const char* clock : {"tsc", "kvm-clock", "arch_sys_counter"}) {
    view.clock_source = clock;
    EXPECT_THAT(Processors(view, {}, "clock"), Is(Level::kOk, clock));
  }
  for (const char* clock : {"hpet", "acpi_pm", "jiffies"}) {
    view.clock_source = clock;
    view.clock_sources = "tsc hpet acpi_pm";
    EXPECT_THAT(Processors(view, {}, "clock"), Is(Level::kWarn, clock));
    EXPECT_THAT(Processors(view, {}, "clock").remedy,
                HasSubstr("echo tsc | sudo tee /sys/devices/system/clocksource/"));
    view.clock_sources = "hpet acpi_pm";
    EXPECT_THAT(Processors(view, {}, "clock").remedy, HasSubstr("tsc=reliable"));
  }
  view.clock_source = "";
  EXPECT_THAT(Processors(view, {}, "clock"), Is(Level::kWarn, "unknown"));
}

TEST(CheckProcessors, FewerProcessorsThanPollersAreTold) {
  SystemView view = GoodMachine();
  Needs needs;
  view.processors = 3;
  needs.nodes_here = 2;
  needs.reactors = 2;
  EXPECT_THAT(Processors(view, needs, "processors"), Is(Level::kOk, "processors=3, reactors=3"));
  needs.reactors = 3;
  const Finding adaptive = Processors(view, needs, "processors");
  EXPECT_THAT(adaptive, Is(Level::kWarn, "none polls"));
  EXPECT_EQ(adaptive.remedy, "ringd --reactors 2");
  needs.poll = node::PollPolicy::kBusy;
  EXPECT_THAT(Processors(view, needs, "processors"), Is(Level::kFail, "is refused"));
  needs.poll = node::PollPolicy::kSleep;
  EXPECT_THAT(Processors(view, needs, "processors"), Is(Level::kOk, "do not poll"));
  needs.poll = node::PollPolicy::kAdaptive;
  needs.nodes_here = 6;
  needs.reactors = 1;
  EXPECT_THAT(Processors(view, needs, "processors").remedy, HasSubstr("at most 3 nodes"));
}

}  // namespace
}  // namespace ring::tools
