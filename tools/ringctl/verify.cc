#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/progress.h"
#include "tools/common/ticks.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/folder.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

// Gets keys side by side and compares each value with its file, byte by byte.
class Verifier {
 public:
  Verifier(Client* client, std::size_t file_count)
      : client_(*client), progress_("verify", file_count) {}

  void Check(const FolderFile& file) {
    // Reading comes first, so that the file is as old as the comparison allows.
    auto read = ReadWhole(file.path, kValueSizeMax);
    if (!read.ok()) {
      report_.Problem("unreadable", file.key, std::string(read.status().message()));
      progress_.Advance();
      return;
    }
    const std::uint64_t size = read->size();
    while (under_way_ > 0 && under_way_ + size > kBytesUnderWayMax) {
      client_.WaitForProgress(absl::Milliseconds(100));
    }
    under_way_ += size;
    GetOptions options;
    options.value_size_hint = size;
    client_.GetAsync(
        file.key, options,
        [this, &file, expected = *std::move(read)](const absl::StatusOr<GetResult>& result) {
          under_way_ -= expected.size();
          progress_.Advance();
          Compare(file, expected, result);
        });
    client_.Poll();
  }

  void Finish() {
    while (client_.outstanding() > 0) client_.WaitForProgress(absl::Milliseconds(100));
    progress_.Finish();
  }
  const FolderReport& report() const { return report_; }

 private:
  void Compare(const FolderFile& file, const std::string& expected,
               const absl::StatusOr<GetResult>& result) {
    if (absl::IsNotFound(result.status())) {
      report_.Problem("missing", file.key, absl::StrCat("not stored, size=", expected.size()));
    } else if (!result.ok()) {
      report_.Problem("failed", file.key, std::string(result.status().message()));
    } else if (result->value.size() != expected.size()) {
      report_.Problem(
          "size", file.key,
          absl::StrCat("file size=", expected.size(), " stored size=", result->value.size()));
    } else if (result->value != expected) {
      const auto at = std::mismatch(expected.begin(), expected.end(), result->value.begin()).first;
      report_.Problem("different", file.key,
                      absl::StrCat("first different byte at offset=", at - expected.begin()));
    } else {
      report_.Done(expected.size());
    }
  }

  Client& client_;
  Progress progress_;
  FolderReport report_;
  std::uint64_t under_way_ = 0;
};

int Run(const Options& options, const std::string& path) {
  const auto folder = ListFolder(path);
  if (!folder.ok()) return Fail(options, In("verify", folder.status()));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In("verify", client.status()));
  const std::uint64_t start = MonotonicNs();
  Verifier verifier(client->get(), folder->files.size());
  for (const FolderFile& file : folder->files) verifier.Check(file);
  verifier.Finish();
  const double seconds = static_cast<double>(MonotonicNs() - start) * 1e-9;
  verifier.report().Print("verified", *folder, seconds, options.json);
  return verifier.report().ok() ? kExitOk : kExitRefused;
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
