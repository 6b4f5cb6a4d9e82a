// ring-demo: loads a folder into a Ring cluster and shows what memgests cost and give.
#include "CLI/CLI.hpp"
#include "tools/common/admin_token_option.h"
#include "tools/common/program.h"
#include "tools/ring-demo/demo.h"

int main(int argc, char** argv) {
  ring::tools::DemoOptions options;
  CLI::App app{
      "Puts every file below FOLDER into REP3 (key: its path, value: its bytes), moves a third of\n"
      "the keys to SRS32 and a third to REP1, reads everything back and compares every byte, "
      "scrubs\n"
      "the cluster, and prints memory and latency by memgest. Files above 16 MiB are left out;\n"
      "symbolic links are not followed. The keys stay in the cluster.",
      "ring-demo"};
  ring::tools::SetUpProgram(app);
  app.add_option("folder", options.folder, "The folder to load")->required()->type_name("FOLDER");
  app.add_option("--seeds", options.seeds, "The cluster: HOST:PORT[,HOST:PORT...]")
      ->delimiter(',')
      ->envname("RING_SEEDS")
      ->required();
  app.add_option("--admin", options.admin, "Its admin service: HOST:PORT[,HOST:PORT...]")
      ->delimiter(',')
      ->envname("RING_ADMIN")
      ->required();
  ring::tools::AddAdminTokenFile(app, &options.admin_token_file);
  app.add_flag_callback(
      "--no-progress", [&options] { options.progress = false; },
      "No progress bars (there are none without a terminal anyway)");
  app.footer(
      "EXIT STATUS\n  0 every byte and every copy is right; 1 something is not, or an error;\n"
      "  2 the command line is wrong.");
  if (const auto status = ring::tools::ParseArguments(app, argc, argv); status.has_value())
    return *status;
  if (const absl::Status status = ring::tools::RunDemo(options); !status.ok()) {
    ring::tools::PrintError("ring-demo", status);
    return absl::IsInvalidArgument(status) ? 2 : 1;
  }
  return 0;
}
