#include "ring/node/control/directory_storage.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "consensus/file/file_storage.h"
#include "consensus/memory_storage.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {

class DirectoryStorage final : public VoterStorage {
 public:
  DirectoryStorage(std::string directory, NodeId node)
      : directory_(std::move(directory)), node_(static_cast<std::uint16_t>(node.value())) {}

  // A directory in which nothing but an id is durable is no memory: no vote and no acknowledgement
  // left its server. If that start ended before it founded, this one may.
  bool HasMemory() const override {
    struct stat info {};
    if (stat(absl::StrCat(directory_, "/identity").c_str(), &info) != 0) return false;
    const absl::StatusOr<std::unique_ptr<consensus::FileStorage>> storage =
        consensus::FileStorage::Open(directory_, consensus::MakeServerId(node_, 1));
    if (!storage.ok()) return true;  // to begin with it says why it cannot be
    const absl::StatusOr<consensus::InitialState> initial = (*storage)->Load();
    return !initial.ok() || !consensus::IsEmpty(*initial);
  }

  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId* id) override {
    RING_ASSIGN_OR_RETURN(std::unique_ptr<consensus::FileStorage> storage,
                          consensus::FileStorage::Open(directory_, *id));
    *id = storage->id();
    return storage;
  }

 private:
  const std::string directory_;
  const std::uint16_t node_;
};

class NoDirectory final : public VoterStorage {
 public:
  bool HasMemory() const override { return false; }
  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId*) override {
    return std::make_unique<consensus::MemoryStorage>();
  }
};

}  // namespace

std::unique_ptr<VoterStorage> MakeVoterStorage(const NodeConfig& config, NodeId node,
                                               const std::string& name) {
  const bool is_voter = node.value() < static_cast<std::uint32_t>(config.voter_count());
  const std::string& folder = config.control.data_dir;
  if (!is_voter || folder.empty()) return std::make_unique<NoDirectory>();
  return std::make_unique<DirectoryStorage>(absl::StrCat(folder, "/", name), node);
}

}  // namespace ring::node
