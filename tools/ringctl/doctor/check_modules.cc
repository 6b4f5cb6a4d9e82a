// What of the verbs the kernel has, and whether this user may use it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {
namespace {

void CheckModule(bool loaded, const Needs& needs, const std::string& name, Report* report) {
  report->Add(loaded ? Level::kOk : Missing(needs.rdma), absl::StrCat("module ", name),
              loaded                    ? "loaded"
              : needs.rdma == Need::kNo ? "not loaded; not needed"
                                        : "not loaded",
              absl::StrCat("sudo modprobe ", name));
}

}  // namespace

void CheckModules(const SystemView& view, const Needs& needs, Report* report) {
  CheckModule(view.rdma.verbs_loaded, needs, "ib_uverbs", report);
  CheckModule(view.rdma.connections_loaded, needs, "rdma_ucm", report);
  const std::vector<RdmaDevice>& devices = view.rdma.devices;
  const bool hardware = std::any_of(devices.begin(), devices.end(),
                                    [](const RdmaDevice& device) { return !device.soft(); });
  if (hardware || !devices.empty()) {
    report->Ok("module rdma_rxe", absl::StrCat(view.rdma.rxe_loaded ? "loaded" : "not loaded",
                                               hardware ? "; not needed" : ""));
  } else {
    CheckModule(view.rdma.rxe_loaded, needs, "rdma_rxe", report);
  }
  if (view.rdma.unusable.empty()) return;
  report->Add(Missing(needs.rdma), "device files",
              absl::StrCat("this user may not use ", absl::StrJoin(view.rdma.unusable, ", ")),
              absl::StrCat("sudo chmod 666 ", absl::StrJoin(view.rdma.unusable, " "),
                           " (packages rdma-core and ibverbs-providers do it at each start)"));
}

}  // namespace ring::tools
