// consensus/file/file_storage.h — a server's term, vote, log and snapshot in one directory.
//
// What:      FileStorage: log files with a CRC for each record, one write and one fsync for each
//            Persist; snapshots by rename; the server's id; a lock that is held for life.
// Shape:     <directory>/{lock, identity, log-<number>, snapshot-<index>}; byte tables in
//            docs/PROTOCOL.md, "Files of a voter".
// Ownership: owns the directory while it lives.
// Threads:   thread-compatible; blocks in Open, Load and Persist.
// Errors:    Open: kFailedPrecondition (in use by another process; another node's), kDataLoss (its
//            id is lost). Load: kDataLoss with file and offset for anything but a torn last write,
//            which was never acknowledged.
//            Persist: of the operating system (disk full, failed fsync); the next call first puts
//            the file back to what was durable, so a failed fsync is never taken for done. Nor is
//            one that never came: what Load gives is durable.
// Cost:      one pwrite and one fsync a Persist; a new file every segment_size_max bytes. The first
//            Load writes the last log file once more.
// Source:    rules 10.6, 10.7; Rebello et al., "Can Applications Recover from fsync
//            Failures?" (ATC 2020).
#ifndef RING_CONSENSUS_FILE_FILE_STORAGE_H_
#define RING_CONSENSUS_FILE_FILE_STORAGE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/file/file_io.h"
#include "consensus/file/log_segment.h"
#include "consensus/storage.h"

namespace ring::consensus {

struct FileStorageOptions {
  std::uint64_t segment_size_max = 1024 * 1024;
  SyncFunction sync = nullptr;  // nullptr: ::fsync
};

class FileStorage final : public Storage {
 public:
  // `fresh` becomes the id of a directory that has none yet; another keeps its own (10.6).
  static absl::StatusOr<std::unique_ptr<FileStorage>> Open(const std::string& directory,
                                                           ServerId fresh,
                                                           const FileStorageOptions& options = {});
  // Whether a server has its id there; not if there is no such directory. kDataLoss, with what to
  // do: there is what a server wrote, and not which one.
  static absl::StatusOr<bool> HasIdentity(const std::string& directory);
  // Removes what is left of a server that never promised anything, its id at last: of that alone,
  // the next Open makes another one. Nobody has the directory open.
  static absl::Status Forget(const std::string& directory);

  ServerId id() const { return id_; }
  absl::StatusOr<InitialState> Load() override;
  // The same for who only looks: it may not be durable.
  absl::StatusOr<InitialState> Read();
  // REQUIRES: Load succeeded.
  absl::Status Persist(const PersistRequest& request) override;

 private:
  struct Segment {
    std::uint64_t number;
    LogIndex last_index;
  };

  FileStorage(std::string directory, ServerId id, File lock, const FileStorageOptions& options);

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  absl::StatusOr<SnapshotRef> LoadSnapshot();
  absl::Status LoadSegments(LogContent& content);
  absl::Status MakeDurable();
  absl::Status Mend();
  absl::Status Roll();
  absl::Status Append(const std::string& bytes, LogIndex last_index);
  absl::Status PersistSnapshot(const PersistRequest& request);
  void RemoveCovered(LogIndex snapshot_index);

  const std::string directory_;
  const ServerId id_;
  const File lock_;
  const FileStorageOptions options_;
  bool loaded_ = false;
  bool durable_ = false;          // what this start found
  std::uint64_t valid_size_ = 0;  // of the last file that it found
  HardState hard_state_;          // durable
  LogIndex snapshot_index_ = 0;   // of the durable snapshot
  std::deque<Segment> segments_;  // the last one is written to, when active_ is open
  File active_;
  std::uint64_t durable_size_ = 0;  // of the active file
  bool torn_ = false;               // the active file may hold more: a write or fsync failed
  std::uint64_t half_made_ = 0;     // number of a file whose creation failed; 0: none
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_FILE_FILE_STORAGE_H_
