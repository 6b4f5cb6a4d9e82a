// ringctl delete: deletes a key. (`delete` is a keyword of C++, so the file is called remove.)
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct DeleteCommand {
  std::string key;
  std::string if_version;
};

int Run(const Options& options, const DeleteCommand& command) {
  const std::string context = absl::StrCat("delete key=", ShowKey(command.key));
  DeleteOptions remove;
  if (!command.if_version.empty()) {
    const auto version = ParseVersion(command.if_version);
    if (!version.ok()) return FailUsage(version.status().message());
    remove.if_version = *version;
  }
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const auto result = (*client)->Delete(command.key, remove);
  if (!result.ok()) return Fail(options, In(context, result.status()));
  if (options.json) {
    nlohmann::json out = {{"version", ToString(result->version)}};
    SetBytes(&out, "key", command.key);
    PrintJson(out);
  } else {
    std::printf("deleted key=%s version=%s\n", ShowKey(command.key).c_str(),
                ToString(result->version).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddDelete(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<DeleteCommand>();
  CLI::App* sub = app.add_subcommand("delete", "Delete a key");
  sub->add_option("key", command->key, "The key")->required()->type_name("KEY");
  sub->add_option("--if-version", command->if_version, "Only if this version is there")
      ->type_name("V");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *command); }; });
}

}  // namespace ring::tools
