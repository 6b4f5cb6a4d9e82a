#include "consensus/file/file_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "consensus/message.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::consensus {
namespace {

constexpr absl::string_view kLogPrefix = "log-";
constexpr absl::string_view kSnapshotPrefix = "snapshot-";
constexpr absl::string_view kTemporarySuffix = ".tmp";
constexpr char kIdentityName[] = "identity";
constexpr std::uint64_t kIdentityMagic = 0x3144494352474e52;  // "RNGRCID1"
constexpr std::uint64_t kSnapshotMagic = 0x31504e5352474e52;  // "RNGRSNP1"

std::string NameOf(absl::string_view prefix, std::uint64_t number) {
  return absl::StrFormat("%s%016x", prefix, number);
}

std::optional<std::uint64_t> NumberOf(absl::string_view prefix, absl::string_view name) {
  std::uint64_t number = 0;
  if (!absl::StartsWith(name, prefix) || name.size() != prefix.size() + 16 ||
      !absl::SimpleHexAtoi(name.substr(prefix.size()), &number)) {
    return std::nullopt;
  }
  return number;
}

// {magic u64, crc u32 of the body, zero u32} and the body.
std::string Sealed(std::uint64_t magic, absl::string_view body) {
  ByteWriter out;
  out.Put(magic);
  out.Put(Crc32c(body.data(), body.size()));
  out.Put(std::uint32_t{0});
  out.PutBytes(body);
  return out.Take();
}

absl::StatusOr<std::string> ReadSealed(const std::string& path, std::uint64_t magic) {
  RING_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ByteReader in(bytes);
  const std::uint64_t its_magic = in.Get<std::uint64_t>();
  const std::uint32_t crc = in.Get<std::uint32_t>();
  const std::uint32_t zero = in.Get<std::uint32_t>();
  const absl::string_view body = *in.rest();
  if (!in.ok() || its_magic != magic || zero != 0 || crc != Crc32c(body.data(), body.size())) {
    return absl::DataLossError(absl::StrFormat("%s: size=%d: corrupt", path, bytes.size()));
  }
  return std::string(body);
}

// The id of a directory; writes `fresh` into one that is new.
absl::StatusOr<ServerId> ReadIdentity(const std::string& directory, ServerId fresh,
                                      SyncFunction sync) {
  RING_ASSIGN_OR_RETURN(const bool has_one, FileStorage::HasIdentity(directory));
  if (!has_one) {
    ByteWriter body;
    body.Put(fresh.value());
    RING_RETURN_IF_ERROR(
        WriteFile(directory, kIdentityName, Sealed(kIdentityMagic, body.bytes()), sync));
    return fresh;
  }
  const std::string path = directory + "/" + kIdentityName;
  RING_ASSIGN_OR_RETURN(const std::string body, ReadSealed(path, kIdentityMagic));
  ByteReader in(body);
  const ServerId id(in.Get<std::uint64_t>());
  if (!in.finished() || id == kNoServer) {
    return absl::DataLossError(absl::StrFormat("%s: corrupt", path));
  }
  if (NodeOf(id) != NodeOf(fresh)) {
    return absl::FailedPreconditionError(absl::StrFormat("%s: belongs to node=%d, this is node=%d",
                                                         directory, NodeOf(id), NodeOf(fresh)));
  }
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStorage>> FileStorage::Open(const std::string& directory,
                                                               ServerId fresh,
                                                               const FileStorageOptions& options) {
  FileStorageOptions chosen = options;
  if (chosen.sync == nullptr) chosen.sync = ::fsync;
  RING_RETURN_IF_ERROR(MakeDirectory(directory, chosen.sync));
  RING_ASSIGN_OR_RETURN(File lock, LockFile(directory + "/lock"));
  RING_ASSIGN_OR_RETURN(const ServerId id, ReadIdentity(directory, fresh, chosen.sync));
  return std::unique_ptr<FileStorage>(new FileStorage(directory, id, std::move(lock), chosen));
}

// Only where the system says that there is none may another one be written: a directory that cannot
// be listed at this moment may well have one.
absl::StatusOr<bool> FileStorage::HasIdentity(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kIdentityName);
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno != ENOENT) return ErrnoStatus("stat", path);
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return false;
  RING_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kLogPrefix) && !absl::StartsWith(name, kSnapshotPrefix)) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s: has %s but no %s; remove the directory, and the node joins as a new server (never put "
        "a backup in its place)",
        directory, name, kIdentityName));
  }
  return false;
}

absl::Status FileStorage::Forget(const std::string& directory) {
  RING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kLogPrefix) && !absl::StartsWith(name, kSnapshotPrefix)) continue;
    RING_RETURN_IF_ERROR(RemoveFile(absl::StrCat(directory, "/", name)));
  }
  RING_RETURN_IF_ERROR(SyncDirectory(directory, ::fsync));
  return RemoveFile(absl::StrCat(directory, "/", kIdentityName));
}

FileStorage::FileStorage(std::string directory, ServerId id, File lock,
                         const FileStorageOptions& options)
    : directory_(std::move(directory)), id_(id), lock_(std::move(lock)), options_(options) {}

absl::StatusOr<InitialState> FileStorage::Load() {
  RING_ASSIGN_OR_RETURN(InitialState state, Read());
  RING_RETURN_IF_ERROR(MakeDurable());
  loaded_ = true;
  return state;
}

absl::StatusOr<InitialState> FileStorage::Read() {
  InitialState state;
  RING_ASSIGN_OR_RETURN(state.snapshot, LoadSnapshot());
  LogContent content;
  RING_RETURN_IF_ERROR(LoadSegments(content));
  state.hard_state = hard_state_ = content.hard_state;
  state.entries = std::move(content.entries);
  snapshot_index_ = 0;
  if (state.snapshot != nullptr) {
    snapshot_index_ = state.snapshot->index;
    DropCoveredEntries(*state.snapshot, state.entries);
  }
  if (!state.entries.empty() && state.entries.front().index != snapshot_index_ + 1) {
    return absl::DataLossError(
        absl::StrFormat("%s: the log begins with index=%d, but the snapshot ends with index=%d",
                        directory_, state.entries.front().index, snapshot_index_));
  }
  return state;
}

// What was found may have come no further than the system's memory when the process before ended,
// or its fsync may have failed, behind which another one has nothing to write. So the bytes of the
// last file that count from now on are written once more, where they are: a full disk has room for
// that, and it does not matter how far that comes. The files before it were durable when it was
// made. Names of files, that of a snapshot too, are durable with the directory.
absl::Status FileStorage::MakeDurable() {
  if (durable_ && !torn_) return absl::OkStatus();  // all since came by Persist
  if (!segments_.empty()) {
    const std::string path = PathOf(NameOf(kLogPrefix, segments_.back().number));
    RING_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    RING_ASSIGN_OR_RETURN(File file, File::Open(path, O_WRONLY));
    RING_RETURN_IF_ERROR(file.WriteAt(0, absl::string_view(bytes).substr(0, valid_size_)));
    RING_RETURN_IF_ERROR(file.Truncate(valid_size_));
    RING_RETURN_IF_ERROR(file.Sync(options_.sync));
  }
  RING_RETURN_IF_ERROR(SyncDirectory(directory_, options_.sync));
  durable_ = true;
  torn_ = false;
  return absl::OkStatus();
}

absl::StatusOr<SnapshotRef> FileStorage::LoadSnapshot() {
  RING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  SnapshotRef newest;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (absl::EndsWith(*name, kTemporarySuffix)) {
      RING_RETURN_IF_ERROR(RemoveFile(PathOf(*name)));  // its rename never happened
      continue;
    }
    const std::optional<std::uint64_t> index = NumberOf(kSnapshotPrefix, *name);
    if (!index.has_value()) continue;
    if (newest != nullptr) {
      RING_RETURN_IF_ERROR(RemoveFile(PathOf(*name)));
      continue;
    }
    RING_ASSIGN_OR_RETURN(const std::string bytes, ReadSealed(PathOf(*name), kSnapshotMagic));
    absl::StatusOr<Snapshot> snapshot = DecodeSnapshot(bytes);
    if (!snapshot.ok() || snapshot->index != *index) {
      return absl::DataLossError(
          absl::StrFormat("%s: %s", PathOf(*name),
                          snapshot.ok() ? "another index in it" : snapshot.status().message()));
    }
    newest = std::make_shared<const Snapshot>(*std::move(snapshot));
  }
  return newest;
}

absl::Status FileStorage::LoadSegments(LogContent& content) {
  RING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (const auto number = NumberOf(kLogPrefix, name)) numbers.push_back(*number);
  }
  segments_.clear();
  active_ = File();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string path = PathOf(NameOf(kLogPrefix, numbers[i]));
    if (i > 0 && numbers[i] != numbers[i - 1] + 1) {
      return absl::DataLossError(
          absl::StrFormat("%s: the file before it, number=%x, is missing", path, numbers[i] - 1));
    }
    const bool is_last = i + 1 == numbers.size();
    RING_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    RING_ASSIGN_OR_RETURN(const SegmentInfo info,
                          ReadSegment(bytes, path, numbers[i], id_, is_last, content));
    if (info.valid_size == 0) {  // it was being created
      RING_RETURN_IF_ERROR(RemoveFile(path));
      continue;
    }
    segments_.push_back({numbers[i], info.last_index});
    valid_size_ = info.valid_size;
  }
  return absl::OkStatus();
}

absl::Status FileStorage::Persist(const PersistRequest& request) {
  RING_CHECK(loaded_);
  RING_RETURN_IF_ERROR(Mend());
  if (!active_.is_open() || durable_size_ >= options_.segment_size_max) {
    RING_RETURN_IF_ERROR(Roll());
  }
  std::string bytes;
  if (request.hard_state.has_value()) {
    PutHardStateRecord(*request.hard_state, durable_size_, bytes);
    if (request.snapshot != nullptr) {  // which may not become durable before it
      RING_RETURN_IF_ERROR(Append(bytes, 0));
      bytes.clear();
    }
    hard_state_ = *request.hard_state;
  }
  if (request.snapshot != nullptr) {
    RING_RETURN_IF_ERROR(PersistSnapshot(request));
  }
  for (const Entry& entry : request.entries) PutEntryRecord(entry, durable_size_, bytes);
  if (bytes.empty()) return absl::OkStatus();
  return Append(bytes, request.entries.empty() ? 0 : request.entries.back().index);
}

// After a failure the file is cut back to what was durable: nothing of the failed write may come to
// light later as if it had succeeded.
absl::Status FileStorage::Mend() {
  if (half_made_ != 0) {
    const std::string path = PathOf(NameOf(kLogPrefix, half_made_));
    if (const absl::Status status = RemoveFile(path); !absl::IsNotFound(status)) {
      RING_RETURN_IF_ERROR(status);
    }
    RING_RETURN_IF_ERROR(SyncDirectory(directory_, options_.sync));
    half_made_ = 0;
  }
  if (!torn_) return absl::OkStatus();
  RING_RETURN_IF_ERROR(active_.Truncate(durable_size_));
  RING_RETURN_IF_ERROR(active_.Sync(options_.sync));
  torn_ = false;
  return absl::OkStatus();
}

absl::Status FileStorage::Roll() {
  const std::uint64_t number = segments_.empty() ? 1 : segments_.back().number + 1;
  half_made_ = number;  // a torn write in the file before it would not be the log's last
  RING_ASSIGN_OR_RETURN(
      File file, File::Open(PathOf(NameOf(kLogPrefix, number)), O_WRONLY | O_CREAT | O_TRUNC));
  std::string bytes;
  PutSegmentRecord(number, id_, 0, bytes);
  PutHardStateRecord(hard_state_, 0, bytes);
  RING_RETURN_IF_ERROR(file.WriteAt(0, bytes));
  RING_RETURN_IF_ERROR(file.Sync(options_.sync));
  RING_RETURN_IF_ERROR(SyncDirectory(directory_, options_.sync));
  active_ = std::move(file);
  durable_size_ = bytes.size();
  segments_.push_back({number, 0});
  half_made_ = 0;
  return absl::OkStatus();
}

absl::Status FileStorage::Append(const std::string& bytes, LogIndex last_index) {
  torn_ = true;
  RING_RETURN_IF_ERROR(active_.WriteAt(durable_size_, bytes));
  RING_RETURN_IF_ERROR(active_.Sync(options_.sync));
  torn_ = false;
  durable_size_ += bytes.size();
  segments_.back().last_index = std::max(segments_.back().last_index, last_index);
  return absl::OkStatus();
}

absl::Status FileStorage::PersistSnapshot(const PersistRequest& request) {
  const Snapshot& snapshot = *request.snapshot;
  RING_RETURN_IF_ERROR(WriteFile(directory_, NameOf(kSnapshotPrefix, snapshot.index),
                                 Sealed(kSnapshotMagic, EncodeSnapshot(snapshot)), options_.sync));
  const LogIndex before = std::exchange(snapshot_index_, snapshot.index);
  if (before != snapshot.index) {
    // Also when what follows fails: this snapshot may not be asked for again. Left over when the
    // removal fails: Load does it.
    RemoveFile(PathOf(NameOf(kSnapshotPrefix, before))).IgnoreError();
  }
  // A new file, so that those before it can go.
  if (segments_.back().last_index > 0) RING_RETURN_IF_ERROR(Roll());
  if (request.snapshot_replaces_log) {
    // Before any file goes: what is left of the old log must not look like this one's.
    std::string bytes;
    PutResetRecord(durable_size_, bytes);
    RING_RETURN_IF_ERROR(Append(bytes, 0));
  }
  RemoveCovered(request.snapshot_replaces_log ? ~LogIndex{0} : snapshot.index);
  return absl::OkStatus();
}

// Files whose entries a durable snapshot stands for; the oldest first, so that no gap arises.
void FileStorage::RemoveCovered(LogIndex snapshot_index) {
  while (segments_.size() > 1 && segments_.front().last_index <= snapshot_index) {
    if (!RemoveFile(PathOf(NameOf(kLogPrefix, segments_.front().number))).ok()) return;
    segments_.pop_front();
  }
}

}  // namespace ring::consensus
