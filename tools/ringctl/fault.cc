#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

using node::FaultKind;

struct FaultOptions {
  std::string node;
  std::uint32_t peer = 0;
  std::uint32_t ms = 0;
};

int Run(const Options& options, const std::string& what, const std::string& node,
        const node::Fault& fault) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return Fail(options, In("fault", client.status()));
  const absl::Status status = (*client)->InjectFault(node, fault);
  if (!status.ok()) return Fail(options, In("fault", status));
  if (options.json) {
    PrintJson({{"fault", what}, {"node", node}});
  } else {
    std::printf("fault %s: node %s\n", what.c_str(), ShowBytes(node).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddFault(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = app.add_subcommand(
      "fault", "Make a node fail on purpose (its configuration must allow it: fault_injection)");
  sub->require_subcommand(1);
  const auto fault = std::make_shared<FaultOptions>();
  const auto add = [=](const char* name, const char* help, FaultKind kind, bool peer, bool ms) {
    CLI::App* one = sub->add_subcommand(name, help);
    one->add_option("NODE", fault->node, "Name or number")->required();
    if (peer) one->add_option("PEER", fault->peer, "Number of the other node")->required();
    if (ms) {
      one->add_option("--ms", fault->ms, "For so many milliseconds")
          ->check(CLI::Range(1u, node::kFaultMsMax))
          ->required();
    }
    one->callback([=] {
      invocation->run = [=] {
        const node::Fault what{kind, peer ? NodeId(fault->peer) : cluster::kNoNode, fault->ms};
        return Run(invocation->options, name, fault->node, what);
      };
    });
  };
  add("kill", "It ends at once, with its memory", FaultKind::kKill, false, false);
  add("pause", "It stands still", FaultKind::kPause, false, true);
  add("drop", "Control messages between it and PEER are lost", FaultKind::kDrop, true, true);
  add("break", "Its control connection to PEER ends, and is made again", FaultKind::kBreak, true,
      false);
}

}  // namespace ring::tools
