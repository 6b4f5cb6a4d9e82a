// ringctl move: a key goes into another memgest, its value stays within the cluster.
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

struct MoveCommand {
  std::string key;
  std::string memgest;
};

int Run(const Options& options, const MoveCommand& command) {
  const std::string context =
      absl::StrCat("move key=", ShowKey(command.key), " memgest=", ShowBytes(command.memgest));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const auto result = (*client)->Move(command.key, command.memgest);
  if (!result.ok()) return Fail(options, In(context, result.status()));
  const std::string memgest = (*client)->MemgestName(result->memgest);
  if (options.json) {
    nlohmann::json out = {{"version", ToString(result->version)}, {"memgest", memgest}};
    SetBytes(&out, "key", command.key);
    PrintJson(out);
  } else {
    std::printf("moved key=%s memgest=%s version=%s\n", ShowKey(command.key).c_str(),
                ShowBytes(memgest).c_str(), ToString(result->version).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddMove(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<MoveCommand>();
  CLI::App* sub =
      app.add_subcommand("move", "Change a key's memgest; its value does not cross the network");
  sub->add_option("key", command->key, "The key")->required()->type_name("KEY");
  sub->add_option("memgest", command->memgest, "Where it goes")->required()->type_name("MEMGEST");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *command); }; });
}

}  // namespace ring::tools
