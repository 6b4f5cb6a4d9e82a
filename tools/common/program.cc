#include "tools/common/program.h"

#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ring::tools {
namespace {

constexpr char kReadOn[] = "Run with --help for more information.";

}  // namespace

void SetUpProgram(CLI::App& app) {
  app.set_version_flag("--version", app.get_name() + " " RING_VERSION);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return absl::StrCat(failed->get_name(), ": ", error.what(), "\n", kReadOn, "\n");
  });
}

std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitWrongUsage;
  }
  return std::nullopt;
}

void PrintError(absl::string_view program, absl::string_view message) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", absl::StrCat(program, ": ", message).c_str());
}

void PrintError(absl::string_view program, const absl::Status& status) {
  const std::string code = absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
  PrintError(program, absl::StrCat(status.message(), " (", code, ")"));
}

int PrintWrongUsage(absl::string_view program, absl::string_view message) {
  PrintError(program, absl::StrCat(message, "\n", kReadOn));
  return kExitWrongUsage;
}

}  // namespace ring::tools
