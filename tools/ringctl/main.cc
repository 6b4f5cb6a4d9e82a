// ringctl: keys and values for people. It links only the client, so that a command costs a few
// milliseconds; what needs gRPC is done by ringctl-admin, which takes its place (execv).
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/common/format.h"
#include "tools/common/program.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

// The command: the first word that is neither an option nor an option's value.
absl::string_view FindCommand(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    if (word == "--seeds" || word == "--admin" || word == "--admin-token-file" ||
        word == "--timeout") {
      ++i;
    } else if (!absl::StartsWith(word, "-")) {
      return word;
    }
  }
  return {};
}

// Where ringctl-admin is: beside this program, or in ../libexec/ring.
std::vector<std::string> AdminPrograms() {
  std::string self(PATH_MAX, '\0');
  const ssize_t size = readlink("/proc/self/exe", self.data(), self.size());
  self.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  return {folder + "ringctl-admin", folder + "../libexec/ring/ringctl-admin"};
}

int ExecuteAdmin(absl::string_view command, char** argv) {
  std::string tried;
  for (const std::string& program : AdminPrograms()) {
    execv(program.c_str(), argv);
    absl::StrAppend(&tried, "\n  ", program, ": ", std::strerror(errno));
  }
  PrintError("ringctl",
             absl::StrCat("cannot start ringctl-admin, which this command needs; tried", tried));
  return command == kHealthCommand.name ? kExitHealthUnknown : kExitRefused;
}

int Main(int argc, char** argv) {
  const absl::string_view command = FindCommand(argc, argv);
  for (const AdminCommand& one : kAdminCommands) {
    if (command == one.name) return ExecuteAdmin(command, argv);
  }
  Invocation invocation;
  CLI::App app{"Puts, gets and moves keys of a Ring cluster, and runs the cluster.", "ringctl"};
  AddOptions(app,
             {3600,
              "Default 10, at most 3600; of commands that need --admin 30 (memgest delete --force "
              "60, scrub without end), at most 60"},
             &invocation.options);
  AddPut(app, &invocation);
  AddGet(app, &invocation);
  AddDelete(app, &invocation);
  AddMove(app, &invocation);
  AddWhere(app, &invocation);
  AddLoad(app, &invocation);
  AddVerify(app, &invocation);
  AddDoctor(app, &invocation);
  // For --help; the words above have taken the others already.
  for (const AdminCommand& one : kAdminCommands) AddAdminCommand(app, one);
  const auto named = app.get_subcommands(
      [command](CLI::App* sub) { return absl::string_view(sub->get_name()) == command; });
  if (!command.empty() && named.empty())
    return FailUsage(absl::StrCat("no such command: ", ShowBytes(command)));
  return ParseAndRun(app, argc, argv, &invocation);
}

}  // namespace
}  // namespace ring::tools

int main(int argc, char** argv) { return ring::tools::Main(argc, argv); }
