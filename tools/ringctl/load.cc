#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/progress.h"
#include "tools/common/ticks.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/folder.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct LoadCommand {
  std::string folder;
  std::string memgest;
};

// Puts files side by side: as many as the client's window and the bytes under way allow.
class Loader {
 public:
  Loader(Client* client, const LoadCommand& command, std::size_t file_count)
      : client_(*client), command_(command), progress_("load", file_count) {}

  void Put(const FolderFile& file) {
    auto value = ReadWhole(file.path, kValueSizeMax);
    if (!value.ok()) {
      report_.Problem("failed", file.key, std::string(value.status().message()));
      progress_.Advance();
      return;
    }
    while (under_way_ > 0 && under_way_ + value->size() > kBytesUnderWayMax) {
      client_.WaitForProgress(absl::Milliseconds(100));
    }
    const std::uint64_t size = value->size();
    under_way_ += size;
    PutOptions options;
    options.memgest = command_.memgest;
    client_.PutAsync(
        file.key, *value, options, [this, size, &file](const absl::StatusOr<WriteResult>& result) {
          under_way_ -= size;
          progress_.Advance();
          if (result.ok()) {
            report_.Done(size);
          } else {
            report_.Problem("failed", file.key, std::string(result.status().message()));
          }
        });
    client_.Poll();
  }

  // Waits for what is under way; every put ends by its own deadline.
  void Finish() {
    while (client_.outstanding() > 0) client_.WaitForProgress(absl::Milliseconds(100));
    progress_.Finish();
  }
  const FolderReport& report() const { return report_; }

 private:
  Client& client_;
  const LoadCommand& command_;
  Progress progress_;
  FolderReport report_;
  std::uint64_t under_way_ = 0;
};

int Run(const Options& options, const LoadCommand& command) {
  const auto folder = ListFolder(command.folder);
  if (!folder.ok()) return Fail(options, In("load", folder.status()));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In("load", client.status()));
  if (!command.memgest.empty()) {
    // Asked once here, or a wrong name would be refused once a file.
    const auto memgest = (*client)->ResolveMemgest(command.memgest);
    if (!memgest.ok()) return Fail(options, In("load", memgest.status()));
  }
  const std::uint64_t start = MonotonicNs();
  Loader loader(client->get(), command, folder->files.size());
  for (const FolderFile& file : folder->files) loader.Put(file);
  loader.Finish();
  const double seconds = static_cast<double>(MonotonicNs() - start) * 1e-9;
  loader.report().Print("loaded", *folder, seconds, options.json);
  return loader.report().ok() ? kExitOk : kExitRefused;
}

}  // namespace

void AddLoad(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<LoadCommand>();
  CLI::App* sub =
      app.add_subcommand("load", "Store every file below a folder; keys are their paths");
  sub->add_option("folder", command->folder, "The folder")->required()->type_name("DIR");
  sub->add_option("--memgest,-m", command->memgest, "Memgest to store them in")->type_name("NAME");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *command); }; });
}

}  // namespace ring::tools
