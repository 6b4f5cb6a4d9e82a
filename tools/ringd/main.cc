// ringd: one node of a Ring cluster, or a whole embedded one.
#include "CLI/CLI.hpp"
#include "tools/common/program.h"
#include "tools/ringd/daemon.h"

namespace {

constexpr char kDescription[] =
    "Runs one node of a Ring cluster, or a whole cluster in one process.\n\n"
    "  ringd --embedded           five nodes and a spare on loopback (s=3, d=2) with the memgests\n"
    "                             REP1 REP2 REP3 REP4 SRS21 SRS31 SRS32; for a first look, for\n"
    "                             tests of client programs, and for one machine\n"
    "  ringd --config FILE        the node that FILE's [node] names, of the cluster it describes\n"
    "  ringd --config FILE --node NAME\n"
    "  ringd --config FILE --node NAME --added\n"
    "                             a node that was added since (ringctl node add)\n\n"
    "Values live in memory only. When it serves, it prints one line on its standard output:\n"
    "  ready: seeds=HOST:PORT[,HOST:PORT...] admin=HOST:PORT\n"
    "seeds is for clients (RING_SEEDS), admin for ringctl and grpcurl (RING_ADMIN). Everything "
    "else\n"
    "goes to the standard error.";

constexpr char kFooter[] =
    "SIGNALS\n"
    "  SIGINT, SIGTERM  stop serving, and end with status 0. A second one ends it at once.\n\n"
    "EXIT STATUS\n"
    "  0  stopped by a signal\n"
    "  1  it could not start or serve: the reason is on the standard error\n"
    "  2  the command line or the configuration is wrong; every line names one problem\n\n"
    "FILES\n"
    "  " RING_DOC_DIR
    "/ring.toml.example\n"
    "      below where Ring is installed, or tools/ of its sources: every key of the\n"
    "      configuration file, with its default\n\n"
    "EXAMPLES\n"
    "  ringd --embedded --data-port 7800 --admin-port 7900\n"
    "  ringd --config /etc/ring/ring.toml --node n2\n\n"
    "SEE ALSO\n"
    "  ringctl --help, ring-bench --help";

}  // namespace

int main(int argc, char** argv) {
  ring::tools::DaemonOptions options;
  CLI::App app{kDescription, "ringd"};
  ring::tools::SetUpProgram(app);
  app.footer(kFooter);
  CLI::Option* embedded =
      app.add_flag("--embedded", options.embedded, "A whole cluster in this process, on loopback");
  CLI::Option* config =
      app.add_option("--config", options.config_path, "Configuration of the cluster (TOML)")
          ->type_name("FILE")
          ->excludes(embedded);
  CLI::Option* node =
      app.add_option("--node", options.node_name, "Which of FILE's [[nodes]] this is")
          ->type_name("NAME")
          ->needs(config);
  app.add_flag("--added", options.added,
               "NAME is not in FILE: ringctl node add told the cluster of it")
      ->needs(config)
      ->needs(node);
  app.add_option("--data-port", options.data_port,
                 "Embedded: the nodes listen for clients at PORT, PORT+1, ... (0: free ones)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65000))
      ->needs(embedded);
  app.add_option("--admin-port", options.admin_port,
                 "Embedded: the admin service listens at PORT (0: a free one)")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535))
      ->needs(embedded);
  app.add_option("--admin-token-file", options.admin_token_file,
                 "Embedded: what the admin service asks its callers for (default: nothing)")
      ->type_name("FILE")
      ->needs(embedded);
  app.add_option("--reactors", options.reactor_count,
                 "Threads that serve; the nodes are dealt out over them")
      ->type_name("N")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_flag("--hints", options.hints,
               "Print what to try next, also when the output is no terminal");
  if (const auto status = ring::tools::ParseArguments(app, argc, argv); status.has_value())
    return *status;
  if (!options.embedded && options.config_path.empty()) {
    return ring::tools::PrintWrongUsage("ringd", "give --embedded or --config FILE");
  }
  return ring::tools::RunDaemon(options);
}
