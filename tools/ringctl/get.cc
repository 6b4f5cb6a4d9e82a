// ringctl get: the bytes of a value, to the standard output or a file.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/folder.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct GetCommand {
  std::string key;
  std::string file;
};

int Run(const Options& options, const GetCommand& command) {
  const std::string context = absl::StrCat("get key=", ShowKey(command.key));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const auto result = (*client)->Get(command.key);
  if (!result.ok()) return Fail(options, In(context, result.status()));
  const bool to_file = !command.file.empty() && command.file != "-";
  if (to_file || !options.json) {
    const absl::Status written = WriteWhole(to_file ? command.file : "-", result->value);
    if (!written.ok()) return Fail(options, In(context, written));
  }
  if (options.json) {
    nlohmann::json out = {{"version", ToString(result->version)},
                          {"memgest", (*client)->MemgestName(result->memgest)},
                          {"size", result->value.size()}};
    SetBytes(&out, "key", command.key);
    if (to_file) {
      SetBytes(&out, "file", command.file);
    } else {
      SetBytes(&out, "value", result->value);
    }
    PrintJson(out);
  } else if (!to_file && isatty(STDOUT_FILENO) != 0 && !result->value.empty() &&
             result->value.back() != '\n') {
    std::printf("\n");  // for the prompt; a pipe gets the value's bytes and nothing else
  }
  return kExitOk;
}

}  // namespace

void AddGet(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<GetCommand>();
  CLI::App* sub = app.add_subcommand("get", "Print a value, byte by byte, or write it to a file");
  sub->add_option("key", command->key, "The key")->required()->type_name("KEY");
  sub->add_option("--file,-f", command->file, "Write the value to FILE; - is stdout")
      ->type_name("FILE");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *command); }; });
}

}  // namespace ring::tools
