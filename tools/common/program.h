// tools/common/program.h — what every program does alike.
//
// What:      SetUpProgram: --version, which prints "NAME 0.1.0". ParseArguments: what a wrong
//            command line ends with. PrintError: the line that says why a program failed.
// Shape:     "NAME: message", of a status "NAME: message (code)", on the standard error. NAME is
//            that of the application.
// Threads:   one.
// Errors:    none: they are printed.
#ifndef RING_TOOLS_COMMON_PROGRAM_H_
#define RING_TOOLS_COMMON_PROGRAM_H_

#include <optional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ring::tools {

inline constexpr int kExitWrongUsage = 2;

// Before anything is parsed; subcommands that are added later behave the same.
void SetUpProgram(CLI::App& app);
// Nothing: go on. Else the exit status: 0 behind --help or --version, or kExitWrongUsage.
std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv);

void PrintError(absl::string_view program, absl::string_view message);
void PrintError(absl::string_view program, const absl::Status& status);
// ... and where to read on; gives kExitWrongUsage.
int PrintWrongUsage(absl::string_view program, absl::string_view message);

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_PROGRAM_H_
