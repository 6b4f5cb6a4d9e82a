// tools/ring-bench/context.h — what the subcommands share.
//
// What:      Context: the report, and the options of every subcommand. Add...Command registers one
//            with the command line; it runs when chosen and leaves its status in the context.
// Threads:   the main thread.
// Errors:    status.
#ifndef RING_TOOLS_RING_BENCH_CONTEXT_H_
#define RING_TOOLS_RING_BENCH_CONTEXT_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/ring-bench/report.h"

namespace ring::bench {

struct Context {
  Report report;
  std::string json_path;
  bool progress = true;
  absl::Status status;
};

void AddKvCommand(CLI::App& app, Context* context);
void AddYcsbCommand(CLI::App& app, Context* context);
void AddMoveCommand(CLI::App& app, Context* context);
void AddMemoryCommand(CLI::App& app, Context* context);
void AddLimitsCommand(CLI::App& app, Context* context);
void AddRecoveryCommand(CLI::App& app, Context* context);
void AddEcCommand(CLI::App& app, Context* context);
void AddEcSendCommand(CLI::App& app, Context* context);
void AddEcApiCommand(CLI::App& app, Context* context);
void AddPeersCommand(CLI::App& app, Context* context);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_CONTEXT_H_
