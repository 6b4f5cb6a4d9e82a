#include "tools/ringctl/options.h"

#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tools/common/admin_token_option.h"
#include "tools/common/program.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

bool IsHealth(const CLI::App& app) {
  const auto health = app.get_subcommands(
      [](const CLI::App* sub) { return sub->get_name() == kHealthCommand.name && sub->parsed(); });
  return !health.empty();
}

}  // namespace

void AddOptions(CLI::App& app, const TimeoutRule& timeout, Options* options) {
  SetUpProgram(app);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--seeds", options->seeds,
                 "Nodes to begin with: HOST:PORT, tcp:HOST:PORT, rdma:HOST:PORT or shm:PATH, with "
                 "commas")
      ->envname("RING_SEEDS")
      ->type_name("LIST");
  app.add_option("--admin", options->admin, "Admin addresses: HOST:PORT, with commas")
      ->envname("RING_ADMIN")
      ->type_name("LIST");
  AddAdminTokenFile(app, &options->admin_token_file);
  app.add_flag("--json", options->json, "Print one JSON object");
  app.add_option("--timeout", options->timeout_s,
                 absl::StrCat("Give up after SECONDS. ", timeout.standard))
      ->check(CLI::Range(0.001, timeout.max_s))
      ->type_name("SECONDS");
}

CLI::App* AddAdminCommand(CLI::App& app, const AdminCommand& command) {
  return app.add_subcommand(command.name, command.help);
}

int ParseAndRun(CLI::App& app, int argc, char** argv, Invocation* invocation) {
  // Here and not before: subcommands would inherit it.
  app.footer(
      "EXIT STATUS\n  0 done; 1 refused, not found or different; 2 the command line is wrong. "
      "health has\n  its own: ringctl health --help.\n\n"
      "EXAMPLES\n"
      "  export RING_SEEDS=127.0.0.1:7800 RING_ADMIN=127.0.0.1:7900\n"
      "  ringctl put user:1 Ada --memgest SRS32\n"
      "  ringctl get user:1 --file ada.txt\n"
      "  ringctl move user:1 REP3\n"
      "  ringctl load ./photos --memgest SRS32 && ringctl verify ./photos\n"
      "  ringctl memgest create --srs 3,2 --name cold\n"
      "A key that begins with '-' stands behind '--': ringctl get -- -key");
  if (const std::optional<int> status = ParseArguments(app, argc, argv); status.has_value())
    return *status == kExitUsage && IsHealth(app) ? kExitHealthUsage : *status;
  invocation->options.timeout_given = app.count("--timeout") > 0;
  const int status = invocation->run();
  // Output that could not be written is not done work.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written && status == kExitOk) {
    PrintError("ringctl", "cannot write to stdout");
    return IsHealth(app) ? kExitHealthUnknown : kExitRefused;
  }
  return status;
}

int Fail(const Options& options, const absl::Status& status) {
  if (options.json) {
    nlohmann::json error = {{"code", absl::StatusCodeToString(status.code())}};
    SetBytes(&error, "message", status.message());
    PrintJson({{"error", error}});
  } else {
    PrintError("ringctl", status);
  }
  return kExitRefused;
}

int FailToConnect(const Options& options, const absl::Status& status) {
  Fail(options, status);
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitRefused;
}

int FailUsage(absl::string_view message) { return PrintWrongUsage("ringctl", message); }

std::vector<std::string> SplitList(absl::string_view list) {
  return absl::StrSplit(list, ',', absl::SkipWhitespace());
}

}  // namespace ring::tools
