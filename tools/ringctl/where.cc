// ringctl where: memgest, group, shard and coordinator of a key.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

std::string NodeName(const Client& client, NodeId node) {
  for (const NodeConnection& connection : client.Connections()) {
    if (connection.node == node) return connection.name;
  }
  return "";
}

int Run(const Options& options, const std::string& key) {
  const std::string context = absl::StrCat("where key=", ShowKey(key));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const auto result = (*client)->Where(key);
  if (!result.ok()) return Fail(options, In(context, result.status()));
  const std::string memgest = (*client)->MemgestName(result->memgest);
  const std::string node = NodeName(**client, result->node);
  if (options.json) {
    nlohmann::json out = {{"node", result->node.value()},
                          {"group", result->group.value()},
                          {"shard", result->shard.value()},
                          {"version", ToString(result->version)},
                          {"memgest", memgest},
                          {"size", result->value_size}};
    SetBytes(&out, "node_name", node);
    SetBytes(&out, "key", key);
    PrintJson(out);
    return kExitOk;
  }
  Table table({"KEY", "MEMGEST", "SIZE", "VERSION", "GROUP", "SHARD", "COORDINATOR"});
  table.AlignLeft(1);
  table.AlignLeft(6);
  table.AddRow({ShowKey(key), memgest, absl::StrCat(result->value_size), ToString(result->version),
                absl::StrCat(result->group.value()), absl::StrCat(result->shard.value()),
                absl::StrCat(result->node.value(), node.empty() ? "" : " ", ShowBytes(node))});
  std::printf("%s", table.ToString().c_str());
  return kExitOk;
}

}  // namespace

void AddWhere(CLI::App& app, Invocation* invocation) {
  auto key = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("where", "Tell where a key lives, and in which memgest");
  sub->add_option("key", *key, "The key")->required()->type_name("KEY");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *key); }; });
}

}  // namespace ring::tools
