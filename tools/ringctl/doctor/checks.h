// tools/ringctl/doctor/checks.h — what is said of a machine, group by group.
//
// What:      each check judges one group of facts of the view by what is needed, and adds its
//            findings to the report. One file a group: check_rdma.cc, check_modules.cc,
//            check_memory.cc, check_processors.cc, check_descriptors.cc.
// Ownership: borrow view and needs for the call.
// Threads:   pure.
// Errors:    none: they are findings.
#ifndef RING_TOOLS_RINGCTL_DOCTOR_CHECKS_H_
#define RING_TOOLS_RINGCTL_DOCTOR_CHECKS_H_

#include "tools/ringctl/doctor/finding.h"
#include "tools/ringctl/doctor/needs.h"
#include "tools/ringctl/doctor/system_view.h"

namespace ring::tools {

// Devices, ports, MTU, GIDs.
void CheckRdma(const SystemView& view, const Needs& needs, Report* report);
// What of the verbs the kernel has, and whether this user may use it.
void CheckModules(const SystemView& view, const Needs& needs, Report* report);
// Locked, huge, free, reserved and shared memory.
void CheckMemory(const SystemView& view, const Needs& needs, Report* report);
// Clock and processors.
void CheckProcessors(const SystemView& view, const Needs& needs, Report* report);
// File descriptors and io_uring.
void CheckDescriptors(const SystemView& view, const Needs& needs, Report* report);

// All of them, in this order.
Report Examine(const SystemView& view, const Needs& needs);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_CHECKS_H_
