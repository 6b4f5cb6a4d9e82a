// ringctl node: adds, drains and removes nodes; a drain is waited for.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tools/common/format.h"
#include "tools/common/progress.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(100);

struct NodeOptions {
  std::string node;
  bool force = false;
  bool no_wait = false;
  double wait_s = 600;
};

// What is still to be done behind a drain, in words; empty: nothing. share: of the copies that
// should be there.
std::string Left(const cluster::Health& health, double* share) {
  *share = 1;
  std::string left;
  for (const cluster::MemgestHealth& memgest : health.memgests) {
    // A shard that nobody is there to mend hides others that recover.
    const bool degraded = memgest.condition == cluster::Condition::kDegraded;
    if (!degraded && memgest.condition != cluster::Condition::kRecovering) continue;
    *share = std::min(*share, memgest.recovered);
    if (!left.empty()) continue;
    left = absl::StrCat(
        "memgest ", memgest.name,
        degraded ? " is degraded, and no spare is there to mend it" : " is being re-protected");
  }
  if (!health.shards.empty()) {
    left = absl::StrCat("shards that do not serve yet: ", health.shards.size());
  }
  return left;
}

void PrintChange(const cluster::NodeInfo& node, const char* what, bool done) {
  nlohmann::json out = NodeJson(node);
  out[what] = done;
  PrintJson(out);
}

// Until the node's roles are others', and these have what they need.
int WaitDrained(const Options& options, const cluster::NodeInfo& node, double wait_s,
                admin::AdminClient& client) {
  const absl::Time end = absl::Now() + absl::Seconds(wait_s);
  Progress bar("drain", 100);
  std::string left = "the view that was agreed upon";
  for (;;) {
    const auto view = client.GetClusterView();
    const auto health = client.GetHealth();
    if (!view.ok()) left = std::string(view.status().message());
    if (!health.ok()) left = std::string(health.status().message());
    if (view.ok() && health.ok()) {
      double share = 0;
      left = view->HoldsRole(node.id) ? "it still holds roles" : Left(*health, &share);
      bar.Set(static_cast<std::uint64_t>(share * 100));
      if (left.empty()) {
        bar.Finish();
        if (options.json) {
          PrintChange(node, "drained", true);
        } else {
          std::printf("drained node %s: it can be removed\n", ShowNode(node).c_str());
        }
        return kExitOk;
      }
    }
    if (absl::Now() >= end) break;
    absl::SleepFor(kPollPeriod);
  }
  bar.Finish();
  return Fail(options, absl::DeadlineExceededError(
                           absl::StrCat("node drain: not done yet, it goes on: ", left)));
}

int RunDrain(const Options& options, const NodeOptions& node) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("node drain", client.status()));
  const auto info = FindNode(**client, node.node);
  if (!info.ok()) return Fail(options, In("node drain", info.status()));
  const absl::Status status = (*client)->DrainNode(info->name, node.force);
  if (!status.ok()) return Fail(options, In("node drain", status));
  if (!node.no_wait) return WaitDrained(options, *info, node.wait_s, **client);
  if (options.json) {
    PrintChange(*info, "draining", true);
  } else {
    std::printf("node %s gives its roles away\n", ShowNode(*info).c_str());
  }
  return kExitOk;
}

int RunAdd(const Options& options, const cluster::NodeInfo& info) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("node add", client.status()));
  const absl::StatusOr<NodeId> node = (*client)->AddNode(info);
  if (!node.ok()) return Fail(options, In("node add", node.status()));
  cluster::NodeInfo added = info;
  added.id = *node;
  if (options.json) {
    PrintJson(NodeJson(added));
  } else {
    std::printf(
        "added node %s: start it with the file of the other nodes:\n"
        "  ringd --config FILE --node %s --added\n",
        ShowNode(added).c_str(), ShowBytes(info.name).c_str());
  }
  return kExitOk;
}

int RunRemove(const Options& options, const NodeOptions& node) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("node remove", client.status()));
  const auto info = FindNode(**client, node.node);
  if (!info.ok()) return Fail(options, In("node remove", info.status()));
  const absl::Status status = (*client)->RemoveNode(info->name, node.force);
  if (!status.ok()) return Fail(options, In("node remove", status));
  if (options.json) {
    PrintChange(*info, "removed", true);
  } else {
    std::printf("removed node %s\n", ShowNode(*info).c_str());
  }
  return kExitOk;
}

// Addresses as a view has them.
void AddNodeAdd(CLI::App& node, Invocation* invocation) {
  struct Addresses {
    std::string name;
    std::string data;
    std::string shm;
    std::string rdma;
    std::string admin;
  };
  const auto given = std::make_shared<Addresses>();
  CLI::App* add = node.add_subcommand("add", "Name a node that the configuration does not have");
  add->add_option("NAME", given->name, "Its name, which no other node has")->required();
  add->add_option("--data", given->data, "Where the others and clients reach it by TCP")
      ->type_name("HOST:PORT");
  add->add_option("--shm", given->shm, "Socket where peers of the same host meet")
      ->type_name("PATH");
  add->add_option("--rdma", given->rdma, "Where the others reach it by RDMA")
      ->type_name("HOST:PORT");
  add->add_option("--admin", given->admin, "Where its admin service listens")
      ->type_name("HOST:PORT");
  add->callback([=] {
    cluster::NodeInfo info;
    info.name = given->name;
    if (!given->data.empty()) info.tcp_address = absl::StrCat("tcp:", given->data);
    if (!given->shm.empty()) info.shm_address = absl::StrCat("shm:", given->shm);
    if (!given->rdma.empty()) info.rdma_address = absl::StrCat("rdma:", given->rdma);
    info.admin_address = given->admin;
    invocation->run = [=] { return RunAdd(invocation->options, info); };
  });
}

}  // namespace

void AddNode(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kNodeCommand);
  sub->require_subcommand(1);
  const auto node = std::make_shared<NodeOptions>();
  CLI::App* drain = sub->add_subcommand("drain", "Give a living node's roles to spares, and wait");
  drain->add_option("NODE", node->node, "Name or number")->required();
  drain->add_flag("--force", node->force, "Also when values are lost by it");
  drain->add_flag("--no-wait", node->no_wait, "Return when it is agreed upon");
  drain->add_option("--wait", node->wait_s, "Wait at most so many seconds (default 600)")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS");
  drain->callback([=] { invocation->run = [=] { return RunDrain(invocation->options, *node); }; });
  AddNodeAdd(*sub, invocation);
  CLI::App* remove = sub->add_subcommand("remove", "Forget a node that holds nothing, or is dead");
  remove->add_option("NODE", node->node, "Name or number")->required();
  remove->add_flag("--force", node->force, "Count it as failed first, if it holds roles");
  remove->callback(
      [=] { invocation->run = [=] { return RunRemove(invocation->options, *node); }; });
}

}  // namespace ring::tools
