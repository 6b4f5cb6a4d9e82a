// ringctl verify: compares every file below a folder with what is stored.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/ringctl/folder_work.h"
#include "tools/ringctl/options.h"

namespace ring::tools {
namespace {

void Compare(const FolderFile& file, const std::string& expected,
             const absl::StatusOr<GetResult>& result, FolderReport* report) {
  if (absl::IsNotFound(result.status())) {
    report->Problem("missing", file.key, absl::StrCat("not stored, size=", expected.size()));
  } else if (!result.ok()) {
    report->Problem("failed", file.key, std::string(result.status().message()));
  } else if (result->value.size() != expected.size()) {
    report->Problem(
        "size", file.key,
        absl::StrCat("file size=", expected.size(), " stored size=", result->value.size()));
  } else if (result->value != expected) {
    const auto at = std::mismatch(expected.begin(), expected.end(), result->value.begin()).first;
    report->Problem("different", file.key,
                    absl::StrCat("first different byte at offset=", at - expected.begin()));
  } else {
    report->Done(expected.size());
  }
}

// Each file is read right before its key is asked for: it is as old as the comparison allows.
int Run(const Options& options, const std::string& path) {
  return RunFolderWork(
      options, {"verify", "verified", "unreadable"}, path, [](Client&) { return absl::OkStatus(); },
      [](FolderWork& work, const FolderFile& file, std::string value) {
        GetOptions get;
        get.value_size_hint = value.size();
        work.client().GetAsync(file.key, get,
                               [&work, &file, expected = std::move(value)](const auto& result) {
                                 work.Ended(expected.size());
                                 Compare(file, expected, result, &work.report());
                               });
      });
}

}  // namespace

void AddVerify(CLI::App& app, Invocation* invocation) {
  auto folder = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand(
      "verify", "Compare every file below a folder with what is stored, byte by byte");
  sub->add_option("folder", *folder, "The folder")->required()->type_name("DIR");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *folder); }; });
}

}  // namespace ring::tools
