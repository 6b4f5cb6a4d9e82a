#include "tools/ringctl/folder_work.h"

#include <utility>

#include "ring/base/limits.h"
#include "tools/common/folder.h"
#include "tools/common/ticks.h"
#include "tools/ringctl/connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {

void FolderWork::Begin(std::uint64_t size) {
  while (under_way_ > 0 && under_way_ + size > kBytesUnderWayMax)
    client_.WaitForProgress(absl::Milliseconds(100));
  under_way_ += size;
}

void FolderWork::Ended(std::uint64_t size) {
  under_way_ -= size;
  progress_.Advance();
}

void FolderWork::Finish() {
  while (client_.outstanding() > 0) client_.WaitForProgress(absl::Milliseconds(100));
  progress_.Finish();
}

int RunFolderWork(
    const Options& options, const FolderCommand& command, const std::string& path,
    absl::FunctionRef<absl::Status(Client& client)> prepare,
    absl::FunctionRef<void(FolderWork& work, const FolderFile& file, std::string value)> start) {
  const auto folder = ListFolder(path);
  if (!folder.ok()) return Fail(options, In(command.name, folder.status()));
  auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, In(command.name, client.status()));
  if (const absl::Status status = prepare(**client); !status.ok())
    return Fail(options, In(command.name, status));
  const std::uint64_t start_ns = MonotonicNs();
  FolderWork work(client->get(), command.name, folder->files.size());
  for (const FolderFile& file : folder->files) {
    auto value = ReadWhole(file.path, kValueSizeMax);
    work.Begin(value.ok() ? value->size() : 0);
    if (value.ok()) {
      start(work, file, *std::move(value));
      (*client)->Poll();
    } else {
      work.report().Problem(command.unreadable, file.key, std::string(value.status().message()));
      work.Ended(0);
    }
  }
  work.Finish();
  const double seconds = static_cast<double>(MonotonicNs() - start_ns) * 1e-9;
  work.report().Print(command.done, *folder, seconds, options.json);
  return work.report().ok() ? kExitOk : kExitRefused;
}

}  // namespace ring::tools
