#include "ring/node/control/directory_storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "consensus/file/background_storage.h"
#include "consensus/file/file_io.h"
#include "consensus/file/file_storage.h"
#include "consensus/memory_storage.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {

class DirectoryStorage final : public VoterStorage {
 public:
  DirectoryStorage(std::string folder, const std::string& name, NodeId node)
      : folder_(std::move(folder)),
        directory_(absl::StrCat(folder_, "/", name)),
        node_(static_cast<std::uint16_t>(node.value())) {}

  absl::Status Check() const override {
    const absl::Status usable = Use();
    if (usable.ok()) return absl::OkStatus();
    return absl::Status(usable.code(), absl::StrCat("data_dir=", folder_, ": ", usable.message()));
  }

  bool HasMemory() const override {
    const absl::StatusOr<Content> content = Look();
    // What cannot be read may be one; Open says why it cannot.
    comes_back_ = !content.ok() || *content == Content::kMemory;
    return comes_back_;
  }

  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId* id,
                                                           std::function<void()> ended) override {
    RING_ASSIGN_OR_RETURN(const Content content, Look());
    // The id given is the founder's then: under it this node may have voted from another directory.
    if (comes_back_ && content != Content::kMemory) {
      return absl::AbortedError(absl::StrCat(directory_, ": could not be read when the node ",
                                             "started, and has no memory: start the node again"));
    }
    // Whoever has nothing but an id is nobody yet. A founder that ended before its configuration
    // was durable would be one that nobody adds: the others have it in theirs. Files that it began
    // to write, on a disk that was full, would keep every later one out.
    if (content == Content::kId) RING_RETURN_IF_ERROR(consensus::FileStorage::Forget(directory_));
    RING_ASSIGN_OR_RETURN(std::unique_ptr<consensus::FileStorage> storage,
                          consensus::FileStorage::Open(directory_, *id));
    *id = storage->id();
    return std::make_unique<consensus::BackgroundStorage>(std::move(storage), std::move(ended));
  }

 private:
  // A directory in which nothing but an id is durable is no memory: no vote and no acknowledgement
  // left its server. If that start ended before it founded, this one may.
  enum class Content : std::uint8_t { kNothing, kId, kMemory };

  absl::StatusOr<Content> Look() const {
    RING_ASSIGN_OR_RETURN(const bool has_id, consensus::FileStorage::HasIdentity(directory_));
    if (!has_id) return Content::kNothing;
    RING_ASSIGN_OR_RETURN(const consensus::InitialState initial, Read());
    return consensus::IsEmpty(initial) ? Content::kId : Content::kMemory;
  }

  absl::StatusOr<consensus::InitialState> Read() const {
    RING_ASSIGN_OR_RETURN(
        const std::unique_ptr<consensus::FileStorage> storage,
        consensus::FileStorage::Open(directory_, consensus::MakeServerId(node_, 1)));
    return storage->Read();
  }

  // The lock is a file: who can take it can write there. The user that is root may everywhere, so
  // rights are not asked for.
  absl::Status Use() const {
    struct stat info {};
    if (stat(folder_.c_str(), &info) != 0 && errno == ENOENT) {
      return absl::NotFoundError(
          "there is no such folder: create it, or mount it, writable for the user of ringd");
    }
    RING_RETURN_IF_ERROR(consensus::MakeDirectory(directory_, ::fsync));
    RING_RETURN_IF_ERROR(consensus::LockFile(absl::StrCat(directory_, "/lock")).status());
    return Look().status();
  }

  const std::string folder_;
  const std::string directory_;  // in it
  const std::uint16_t node_;
  mutable bool comes_back_ = false;  // what HasMemory said: the node acts upon it
};

class NoDirectory final : public VoterStorage {
 public:
  absl::Status Check() const override { return absl::OkStatus(); }
  bool HasMemory() const override { return false; }
  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId*,
                                                           std::function<void()>) override {
    return std::make_unique<consensus::MemoryStorage>();
  }
};

}  // namespace

std::unique_ptr<VoterStorage> MakeVoterStorage(const NodeConfig& config, NodeId node,
                                               const std::string& name) {
  const bool is_voter = node.value() < static_cast<std::uint32_t>(config.voter_count());
  const std::string& folder = config.control.data_dir;
  if (!is_voter || folder.empty()) return std::make_unique<NoDirectory>();
  return std::make_unique<DirectoryStorage>(folder, name, node);
}

}  // namespace ring::node
