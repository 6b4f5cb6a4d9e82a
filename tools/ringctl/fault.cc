// ringctl fault: a node, or its network device, fails on purpose.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

using node::FaultKind;
using rdma::DeviceFaultKind;

struct FaultOptions {
  std::string node;
  std::string peer;
  std::uint32_t ms = 0;
  rdma::DeviceFault device;
  std::string status = "retry";
};

// peer: between the node and which other one; empty: the fault needs none.
int Run(const Options& options, const std::string& what, const std::string& node,
        const std::string& peer, node::Fault fault) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("fault", client.status()));
  const auto info = FindNode(**client, node);
  if (!info.ok()) return Fail(options, In("fault", info.status()));
  if (!peer.empty()) {
    const auto other = FindNode(**client, peer);
    if (!other.ok()) return Fail(options, In("fault", other.status()));
    fault.peer = other->id;
  }
  const absl::Status status = (*client)->InjectFault(info->name, fault);
  if (!status.ok()) return Fail(options, In("fault", status));
  if (options.json) {
    nlohmann::json out = NodeJson(*info);
    out["fault"] = what;
    PrintJson(out);
  } else {
    std::printf("fault %s: node %s\n", what.c_str(), ShowNode(*info).c_str());
  }
  return kExitOk;
}

nlohmann::json StatusJson(const rdma::DeviceFaultStatus& status) {
  const rdma::DeviceFault& fault = status.fault;
  return {{"fault", std::string(rdma::DeviceFaultName(fault.kind))},
          {"active", status.active},
          {"injected", status.injected},
          {"left", status.left},
          {"left_ms", status.left_ms},
          {"count", fault.count},
          {"duration_ms", fault.duration_ms},
          {"one_in", fault.one_in},
          {"delay_us", fault.delay_us},
          {"status", std::string(rdma::FaultStatusName(fault.status))}};
}

// What is left of its bounds.
std::string ShowLeft(const rdma::DeviceFaultStatus& status) {
  if (!status.active) return "-";
  std::string left;
  if (status.fault.count > 0) absl::StrAppend(&left, status.left, " times");
  if (status.fault.duration_ms > 0)
    absl::StrAppend(&left, left.empty() ? "" : ", ", status.left_ms, " ms");
  return left;
}

int ShowStatus(const Options& options, const std::string& node) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("fault status", client.status()));
  const auto info = FindNode(**client, node);
  if (!info.ok()) return Fail(options, In("fault status", info.status()));
  const absl::StatusOr<node::DeviceFaults> faults = (*client)->GetDeviceFaults(info->name);
  if (!faults.ok()) return Fail(options, In("fault status", faults.status()));
  if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const rdma::DeviceFaultStatus& status : *faults) all.push_back(StatusJson(status));
    nlohmann::json out = NodeJson(*info);
    out["faults"] = std::move(all);
    PrintJson(out);
    return kExitOk;
  }
  Table table({"FAULT", "INJECTED", "LEFT"});
  for (const rdma::DeviceFaultStatus& status : *faults) {
    table.AddRow({std::string(rdma::DeviceFaultName(status.fault.kind)),
                  absl::StrCat(status.injected), ShowLeft(status)});
  }
  std::printf("%s", table.ToString().c_str());
  return kExitOk;
}

std::vector<std::string> StatusNames() {
  std::vector<std::string> names;
  for (const rdma::NamedFaultStatus& one : rdma::kFaultStatuses) names.emplace_back(one.name);
  return names;
}

// Kills, pauses, and faults between nodes.
void AddNodeFaults(CLI::App* sub, Invocation* invocation,
                   const std::shared_ptr<FaultOptions>& fault) {
  const auto add = [=](const char* name, const char* help, FaultKind kind, bool peer, bool ms) {
    CLI::App* one = sub->add_subcommand(name, help);
    one->add_option("NODE", fault->node, "Name or number")->required();
    if (peer) one->add_option("PEER", fault->peer, "Name or number of the other node")->required();
    if (ms) {
      one->add_option("--ms", fault->ms, "For so many milliseconds")
          ->check(CLI::Range(1u, node::kFaultMsMax))
          ->required();
    }
    one->callback([=] {
      invocation->run = [=] {
        node::Fault what;
        what.kind = kind;
        what.duration_ms = fault->ms;
        return Run(invocation->options, name, fault->node, fault->peer, what);
      };
    });
  };
  add("kill", "It ends at once, with its memory", FaultKind::kKill, false, false);
  add("pause", "It stands still", FaultKind::kPause, false, true);
  add("drop", "Control messages between it and PEER are lost", FaultKind::kDrop, true, true);
  add("break", "Its control connection to PEER ends, and is made again", FaultKind::kBreak, true,
      false);
  add("cut", "What it connects to PEER fails, and is not made again; at both, a partition",
      FaultKind::kCut, true, true);
  add("clear", "Faults of its network device end", FaultKind::kClear, false, false);
}

// Faults of its network device.
void AddDeviceFaults(CLI::App* sub, Invocation* invocation,
                     const std::shared_ptr<FaultOptions>& fault) {
  const auto add = [=](DeviceFaultKind kind, const char* help) {
    const std::string name(rdma::DeviceFaultName(kind));
    CLI::App* one = sub->add_subcommand(name, help);
    one->add_option("NODE", fault->node, "Name or number")->required();
    one->add_option("--count", fault->device.count, "So often at most")
        ->check(CLI::Range(1u, rdma::kDeviceFaultCountMax));
    one->add_option("--ms", fault->device.duration_ms, "For so many milliseconds at most")
        ->check(CLI::Range(1u, rdma::kDeviceFaultMsMax));
    one->add_option("--one-in", fault->device.one_in, "Of so many, by chance")
        ->check(CLI::Range(1u, rdma::kDeviceFaultCountMax));
    if (kind == DeviceFaultKind::kLate) {
      one->add_option("--delay-us", fault->device.delay_us, "By so many microseconds")
          ->check(CLI::Range(1u, rdma::kDeviceFaultDelayUsMax))
          ->required();
    }
    if (kind == DeviceFaultKind::kFail || kind == DeviceFaultKind::kTear) {
      one->add_option("--status", fault->status, "What the completion says")
          ->check(CLI::IsMember(StatusNames()));
    }
    one->callback([=] {
      if (fault->device.count == 0 && fault->device.duration_ms == 0)
        throw CLI::ValidationError(name, "needs --count or --ms: a fault has an end");
      invocation->run = [=] {
        node::Fault what;
        what.kind = FaultKind::kDevice;
        what.device = fault->device;
        what.device.kind = kind;
        what.device.status = *rdma::FaultStatusFromName(fault->status);
        return Run(invocation->options, name, fault->node, "", what);
      };
    });
  };
  add(DeviceFaultKind::kFail, "Requests fail: queue pairs go to ERR and flush");
  add(DeviceFaultKind::kTear, "Of a WRITE only a part lands, then it fails");
  add(DeviceFaultKind::kFlip, "One bit of a WRITE of more than 64 bytes is wrong");
  add(DeviceFaultKind::kLate, "Completions come later");
  add(DeviceFaultKind::kNoMemory, "Memory is neither given nor registered");
  add(DeviceFaultKind::kNoQueuePair, "Queue pairs and completion queues are not made");
}

}  // namespace

void AddFault(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kFaultCommand);
  sub->require_subcommand(1);
  const auto fault = std::make_shared<FaultOptions>();
  AddNodeFaults(sub, invocation, fault);
  AddDeviceFaults(sub, invocation, fault);
  CLI::App* status = sub->add_subcommand("status", "Faults of its network device, and how often");
  status->add_option("NODE", fault->node, "Name or number")->required();
  status->callback(
      [=] { invocation->run = [=] { return ShowStatus(invocation->options, fault->node); }; });
}

}  // namespace ring::tools
