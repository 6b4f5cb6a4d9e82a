// tools/ringctl/options.h — what all commands of ringctl share: options, dispatch, exit codes.
//
// What:      Options; Invocation: the command that the command line chose; AddOptions, ParseAndRun.
// Shape:     exit status 0 done, 1 refused, not found or different, 2 the command line is wrong; of
//            health, which has levels there, 3 nobody answered, 4 the command line is wrong.
// Threads:   one.
// Errors:    none: they are printed and become exit codes.
#ifndef RING_TOOLS_RINGCTL_OPTIONS_H_
#define RING_TOOLS_RINGCTL_OPTIONS_H_

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/common/program.h"

namespace ring::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitUsage = kExitWrongUsage;
// Of health 0 to 2 are levels: what tells none must not look like one.
inline constexpr int kExitHealthUnknown = 3;
inline constexpr int kExitHealthUsage = 4;

struct Options {
  std::string seeds;  // of the data path
  std::string admin;  // of the admin service
  std::string admin_token_file;
  bool json = false;
  double timeout_s = 10;
  bool timeout_given = false;  // a scrub waits for its end unless told otherwise
  absl::Duration timeout() const { return absl::Seconds(timeout_s); }
};

struct Invocation {
  Options options;
  std::function<int()> run;  // set by the chosen command
};

// Of --timeout: the most that the program's commands wait, and what the help says of that, and of
// how long they wait if they are not told.
struct TimeoutRule {
  double max_s;
  const char* standard;
};

// --seeds, --admin, --admin-token-file, --json, --timeout, --version; the first three also from
// RING_SEEDS, RING_ADMIN and RING_ADMIN_TOKEN_FILE.
void AddOptions(CLI::App& app, const TimeoutRule& timeout, Options* options);

// Parses, runs the chosen command, and gives the exit status.
int ParseAndRun(CLI::App& app, int argc, char** argv, Invocation* invocation);

// Prints "ringctl: message" to stderr, or {"error": ...} to stdout with --json, and gives
// kExitRefused.
int Fail(const Options& options, const absl::Status& status);
// The same; kExitUsage if the given seeds or admin addresses are none.
int FailToConnect(const Options& options, const absl::Status& status);
// The same for a command line that only the command can judge; gives kExitUsage.
int FailUsage(absl::string_view message);

// The non-empty parts of a list with commas.
std::vector<std::string> SplitList(absl::string_view list);

// --- The commands of the data path, one file each ---
void AddPut(CLI::App& app, Invocation* invocation);
void AddGet(CLI::App& app, Invocation* invocation);
void AddDelete(CLI::App& app, Invocation* invocation);
void AddMove(CLI::App& app, Invocation* invocation);
void AddWhere(CLI::App& app, Invocation* invocation);
void AddLoad(CLI::App& app, Invocation* invocation);
void AddVerify(CLI::App& app, Invocation* invocation);
// Of this machine; asks nobody.
void AddDoctor(CLI::App& app, Invocation* invocation);

// --- The commands of operators, in ringctl-admin ---
struct AdminCommand {
  const char* name;
  const char* help;
};
inline constexpr AdminCommand kMemgestCommand = {
    "memgest", "List, show, create, delete memgests; choose the default one"};
inline constexpr AdminCommand kClusterCommand = {"cluster", "Show nodes, roles and groups"};
inline constexpr AdminCommand kHealthCommand = {
    "health",
    "Show what is protected, at risk, or does not serve. Exit status: 0 OK, 1 WARN, 2 FAIL, "
    "3 nobody answered, 4 the command line is wrong"};
inline constexpr AdminCommand kEventsCommand = {"events",
                                                "Show what happened to nodes and roles, and when"};
inline constexpr AdminCommand kNodeCommand = {"node", "Add, drain or remove a node"};
inline constexpr AdminCommand kFaultCommand = {
    "fault", "Make a node fail on purpose (its configuration must allow it: fault_injection)"};
inline constexpr AdminCommand kStatsCommand = {"stats",
                                               "Show what memgests hold and what nodes did"};
inline constexpr AdminCommand kScrubCommand = {"scrub",
                                               "Compare all replicas and parities with the data"};
inline constexpr AdminCommand kAcceptLossCommand = {
    "accept-loss", "Show the shards that stopped; with --yes they go on without what is lost"};
// In the order of --help.
inline constexpr std::array kAdminCommands = {kMemgestCommand, kClusterCommand, kHealthCommand,
                                              kEventsCommand,  kNodeCommand,    kFaultCommand,
                                              kStatsCommand,   kScrubCommand,   kAcceptLossCommand};
CLI::App* AddAdminCommand(CLI::App& app, const AdminCommand& command);
void AddMemgest(CLI::App& app, Invocation* invocation);
void AddCluster(CLI::App& app, Invocation* invocation);
void AddHealth(CLI::App& app, Invocation* invocation);
void AddEvents(CLI::App& app, Invocation* invocation);
void AddNode(CLI::App& app, Invocation* invocation);
void AddFault(CLI::App& app, Invocation* invocation);
void AddStats(CLI::App& app, Invocation* invocation);
void AddScrub(CLI::App& app, Invocation* invocation);
void AddAcceptLoss(CLI::App& app, Invocation* invocation);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_OPTIONS_H_
