// ringctl put: stores the argument, a file, or the standard input.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "ring/base/limits.h"
#include "tools/common/folder.h"
#include "tools/common/format.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct PutCommand {
  std::string key;
  std::optional<std::string> value;
  std::string file;
  std::string memgest;
  std::string if_version;
  bool if_absent = false;
};

int Run(const Options& options, const PutCommand& command) {
  if (command.value.has_value() && !command.file.empty()) {
    return FailUsage("give VALUE or --file, not both");
  }
  if (!command.if_version.empty() && command.if_absent) {
    return FailUsage("give --if-version or --if-absent, not both");
  }
  const bool from_stdin = !command.value.has_value() && command.file.empty();
  if (from_stdin && isatty(STDIN_FILENO) != 0) {
    return FailUsage("no value: give VALUE, --file FILE, or pipe it in");
  }
  PutOptions put;
  put.memgest = command.memgest;
  if (command.if_absent) put.if_version = Version();
  if (!command.if_version.empty()) {
    const auto version = ParseVersion(command.if_version);
    if (!version.ok()) return FailUsage(version.status().message());
    put.if_version = *version;
  }
  std::string value;
  if (command.value.has_value()) {
    value = *command.value;
  } else {
    auto read = ReadWhole(from_stdin ? "-" : command.file, kValueSizeMax);
    if (!read.ok()) return Fail(options, read.status());
    value = *std::move(read);
  }
  const std::string context =
      absl::StrCat("put key=", ShowKey(command.key),
                   command.memgest.empty() ? "" : absl::StrCat(" memgest=", command.memgest));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(context, client.status()));
  const auto result = (*client)->Put(command.key, value, put);
  if (!result.ok()) return Fail(options, In(context, result.status()));
  const std::string memgest = (*client)->MemgestName(result->memgest);
  if (options.json) {
    nlohmann::json out = {
        {"version", ToString(result->version)}, {"memgest", memgest}, {"size", value.size()}};
    SetBytes(&out, "key", command.key);
    PrintJson(out);
  } else {
    std::printf("stored key=%s size=%zu memgest=%s version=%s\n", ShowKey(command.key).c_str(),
                value.size(), ShowBytes(memgest).c_str(), ToString(result->version).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddPut(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<PutCommand>();
  CLI::App* sub = app.add_subcommand("put", "Store a value: the argument, a file, or stdin");
  sub->add_option("key", command->key, "The key")->required()->type_name("KEY");
  sub->add_option_function<std::string>(
         "value", [command](const std::string& value) { command->value = value; }, "The value")
      ->type_name("VALUE");
  sub->add_option("--file,-f", command->file, "Take the value from FILE; - is stdin")
      ->type_name("FILE");
  sub->add_option("--memgest,-m", command->memgest,
                  "Memgest to store it in (default: the cluster's)")
      ->type_name("NAME");
  sub->add_option("--if-version", command->if_version, "Only if this version is there")
      ->type_name("V");
  sub->add_flag("--if-absent", command->if_absent, "Only if the key does not exist");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *command); }; });
}

}  // namespace ring::tools
