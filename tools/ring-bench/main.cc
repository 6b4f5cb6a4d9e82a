// ring-bench: measures a Ring cluster, the floors under it, and its peers.
#include <fstream>
#include <string>

#include "CLI/CLI.hpp"
#include "tools/common/program.h"
#include "tools/ring-bench/context.h"

int main(int argc, char** argv) {
  ring::bench::Context context{
      .report = ring::bench::Report(argc, argv), .json_path = {}, .progress = true, .status = {}};
  CLI::App app{
      "Measures a Ring cluster, the floors under it, and its peers.\n\n"
      "Without --seeds it starts a cluster of its own: five nodes and a spare, in this process\n"
      "(--transport local) or in a ringd beside it (shm, tcp), whatever RING_SEEDS says: it\n"
      "writes keys, and measures another cluster only where --seeds names it. Compare figures of\n"
      "one run only: shared machines are noisy. docs/BENCHMARKS.md has the commands behind the\n"
      "published tables. A SIZE is bytes, or has a unit: 4k, 16MiB.",
      "ring-bench"};
  ring::tools::SetUpProgram(app);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--json", context.json_path, "Write everything that was found to FILE, as JSON")
      ->type_name("FILE")
      ->check([](const std::string& path) {  // before hours of measuring
        return std::ofstream(path, std::ios::app) ? "" : "cannot write " + path;
      });
  app.add_flag_callback(
      "--no-progress", [&context] { context.progress = false; },
      "No progress bars (there are none without a terminal anyway)");
  ring::bench::AddKvCommand(app, &context);
  ring::bench::AddYcsbCommand(app, &context);
  ring::bench::AddMoveCommand(app, &context);
  ring::bench::AddMemoryCommand(app, &context);
  ring::bench::AddLimitsCommand(app, &context);
  ring::bench::AddRecoveryCommand(app, &context);
  ring::bench::AddEcCommand(app, &context);
  ring::bench::AddEcApiCommand(app, &context);
  ring::bench::AddEcSendCommand(app, &context);
  ring::bench::AddPeersCommand(app, &context);
  app.footer(
      "EXIT STATUS\n  0 measured; 1 an error, or an operation failed or gave a wrong value;\n"
      "  2 the command line is wrong.\n\nEXAMPLES\n"
      "  ring-bench kv --memgest REP1,REP3,SRS32 --op put,get\n"
      "  ring-bench kv --memgest REP3 --op put --pipeline 16 --transport shm --json put.json\n"
      "  ring-bench kv --memgest REP3 --op mixed --read-ratio 0.95 --distribution zipfian "
      "--rate 100000\n"
      "  ring-bench ycsb --workload A,B,C --degraded 0.01 --memgest SRS32 --repair rs,ppr\n"
      "  ring-bench limits\n"
      "  ring-bench ec --scheme triec --k 6 --m 3 --op encode --fit\n"
      "  ring-bench ec-api --k 10 --m 4 --chunk 65536 --api sync,async,eco");
  if (const auto status = ring::tools::ParseArguments(app, argc, argv); status.has_value())
    return *status;
  // What was found before an error is there, too.
  if (!context.json_path.empty() && !absl::IsInvalidArgument(context.status)) {
    if (!context.status.ok()) context.report.SetError(context.status);
    context.status.Update(context.report.WriteJson(context.json_path));
  }
  if (!context.status.ok()) {
    ring::tools::PrintError("ring-bench", context.status);
    return absl::IsInvalidArgument(context.status) ? 2 : 1;
  }
  return 0;
}
