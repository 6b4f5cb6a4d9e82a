// tests/tools/ringctl/doctor/machine.h — machines that tests make up.
//
// What:      GoodMachine has all that Ring may want, one RDMA card with one port among it; tests
//            take something away. FindingOf a check: the one that has its name.
// Threads:   pure.
// Errors:    a check that adds no finding of the name, or two, is an expectation that fails.
#ifndef RING_TESTS_TOOLS_RINGCTL_DOCTOR_MACHINE_H_
#define RING_TESTS_TOOLS_RINGCTL_DOCTOR_MACHINE_H_

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {

inline RdmaDevice Card() {
  RdmaPort port;
  port.state = "ACTIVE";
  port.link_layer = "Ethernet";
  port.rate = "100 Gb/sec (4X EDR)";
  port.netdev = "eth0";
  port.mtu = 9000;
  port.gids = {{0, "fe80::1", "IB/RoCE v1", "eth0"}, {1, "::ffff:10.0.0.1", "RoCE v2", "eth0"}};
  return {.name = "mlx5_0", .parent = "", .firmware = "20.1", .ports = {port}};
}

inline SystemView GoodMachine() {
  SystemView view;
  view.rdma.devices = {Card()};
  view.rdma.netdevs = {"eth0"};
  view.rdma.verbs_loaded = view.rdma.connections_loaded = true;
  view.memory_available = std::uint64_t{64} << 30;
  view.memlock_max = kUnlimited;
  view.huge_pages = "madvise";
  view.huge_pages_shared = "advise";
  view.huge_page_size = 2 << 20;
  view.clock_source = view.clock_sources = "tsc";
  view.processors = 8;
  view.descriptors_max = 1 << 20;
  return view;
}

inline Needs RdmaNeeds(Need rdma) {
  Needs needs;
  needs.rdma = rdma;
  needs.arena_size = std::uint64_t{8} << 30;
  needs.fixed_size = 64 << 20;
  needs.descriptors = 2048;
  return needs;
}

inline Finding FindingOf(const Report& report, const std::string& check) {
  Finding found;
  int count = 0;
  for (const Finding& one : report.findings()) {
    if (one.check != check) continue;
    found = one;
    ++count;
  }
  EXPECT_EQ(count, 1) << check;
  return found;
}

// Of the machine after one of the checks.
template <class Check>
Finding Judge(Check check, const SystemView& view, const Needs& needs, const std::string& name) {
  Report report;
  check(view, needs, &report);
  return FindingOf(report, name);
}

// OK has nothing to mend; the others have.
MATCHER_P2(Is, level, found, "") {
  *result_listener << LevelName(arg.level) << ": " << arg.found << " | " << arg.remedy;
  return arg.level == level && arg.found.find(found) != std::string::npos &&
         arg.remedy.empty() == (level == Level::kOk);
}

}  // namespace ring::tools

#endif  // RING_TESTS_TOOLS_RINGCTL_DOCTOR_MACHINE_H_
