// ringctl load: every file below a folder becomes a key.
#include <memory>
#include <string>

#include "tools/ringctl/folder_work.h"
#include "tools/ringctl/options.h"

namespace ring::tools {
namespace {

struct LoadCommand {
  std::string folder;
  std::string memgest;
};

int Run(const Options& options, const LoadCommand& command) {
  PutOptions put;
  put.memgest = command.memgest;
  return RunFolderWork(
      options, {"load", "loaded", "failed"}, command.folder,
      // Asked once here, or a wrong name would be refused once a file.
      [&](Client& client) {
        return command.memgest.empty() ? absl::OkStatus()
                                       : client.ResolveMemgest(command.memgest).status();
      },
      [&](FolderWork& work, const FolderFile& file, const std::string& value) {
        work.client().PutAsync(
            file.key, value, put, [&work, &file, size = value.size()](const auto& result) {
              work.Ended(size);
              if (result.ok()) {
                work.report().Done(size);
              } else {
                work.report().Problem("failed", file.key, std::string(result.status().message()));
              }
            });
      });
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
