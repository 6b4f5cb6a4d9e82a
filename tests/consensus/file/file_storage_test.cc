// What only files can do wrong (10.6, 10.7).
#include "consensus/file/file_storage.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/file/log_segment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "tests/consensus/file/temp_directory.h"
#include "tests/consensus/raft_net.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

namespace fs = std::filesystem;
using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

PersistRequest Entries(LogIndex first, LogIndex last, Term term = 1) {
  PersistRequest request;
  for (LogIndex index = first; index <= last; ++index) {
    request.entries.push_back({term, index, EntryKind::kCommand, std::string(40, 'x')});
  }
  return request;
}

// A sync that fails from the n-th call on, a number of times.
int syncs_before_failure = -1;
int sync_failures = 0;
std::set<ino_t> synced;
int FailingSync(int fd) {
  struct stat file {};
  if (fstat(fd, &file) == 0) synced.insert(file.st_ino);
  if (syncs_before_failure == 0 && sync_failures > 0) {
    --sync_failures;
    errno = EIO;
    return -1;
  }
  if (syncs_before_failure > 0) --syncs_before_failure;
  return ::fsync(fd);
}

// No file may grow beyond a size, as on a disk that gets full there.
class SizeLimit {
 public:
  explicit SizeLimit(std::size_t size) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = size;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  void (*const old_handler_)(int);
  rlimit before_{};
};

class FileStorageTest : public ::testing::Test {
 protected:
  absl::StatusOr<InitialState> Open(std::uint64_t segment_size_max = 1 << 20) {
    storage_.reset();
    auto storage = FileStorage::Open(directory_.path(), S(7),
                                     {.segment_size_max = segment_size_max, .sync = FailingSync});
    if (!storage.ok()) return storage.status();
    storage_ = *std::move(storage);
    return storage_->Load();
  }
  std::vector<std::string> Files(const std::string& prefix) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      if (entry.path().filename().string().starts_with(prefix)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static std::string Read(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  TempDirectory directory_;
  std::unique_ptr<FileStorage> storage_;
};

TEST_F(FileStorageTest, P106TheDirectoryKeepsItsId) {
  ASSERT_OK(Open().status());
  EXPECT_EQ(storage_->id(), S(7));
  storage_.reset();
  auto again = FileStorage::Open(directory_.path(), S(8));
  ASSERT_OK(again.status());
  EXPECT_EQ((*again)->id(), S(7));
  again->reset();
  EXPECT_THAT(FileStorage::Open(directory_.path(), MakeServerId(3, 7)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("node=0")));
}

TEST_F(FileStorageTest, TwoNeverShareADirectory) {
  ASSERT_OK(Open().status());
  EXPECT_THAT(FileStorage::Open(directory_.path(), S(7)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
}

TEST_F(FileStorageTest, P106ALogWithoutAnIdentityIsRefusedAndNobodysNumberIsPutThere) {
  EXPECT_THAT(FileStorage::HasIdentity(directory_.path() + "/none"), IsOkAndHolds(false));
  EXPECT_THAT(FileStorage::HasIdentity(directory_.path()), IsOkAndHolds(false));
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 1)));
  EXPECT_THAT(FileStorage::HasIdentity(directory_.path()), IsOkAndHolds(true));
  fs::remove(directory_.path() + "/identity");
  const auto is_refused = StatusIs(absl::StatusCode::kDataLoss,
                                   AllOf(HasSubstr("identity"), HasSubstr("remove the directory")));
  EXPECT_THAT(FileStorage::HasIdentity(directory_.path()), is_refused);
  EXPECT_THAT(Open(), is_refused);
  EXPECT_TRUE(Files("identity").empty());
}

TEST_F(FileStorageTest, ALogOfAnotherReleaseIsRefused) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 1)));
  storage_.reset();
  const std::string path = Files("log-").back();
  std::string bytes = Read(path);
  constexpr std::size_t kCrcAt = 4, kCheckedAt = 8;
  const std::size_t record_size = kRecordHeaderSize + 20;
  bytes[kRecordHeaderSize] = static_cast<char>(kSegmentVersion - 1);
  const std::uint32_t crc = Crc32c(bytes.data() + kCheckedAt, record_size - kCheckedAt);
  std::memcpy(bytes.data() + kCrcAt, &crc, sizeof(crc));
  Write(path, bytes);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("another release")));
}

TEST_F(FileStorageTest, ATornLastWriteIsForgottenWhereverItWasTorn) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 3)));
  const std::string path = Files("log-").back();
  const std::size_t durable = Read(path).size();
  ASSERT_OK(storage_->Persist(Entries(4, 5)));
  storage_.reset();
  const std::string whole = Read(path);
  for (std::size_t size = durable; size < whole.size(); ++size) {
    for (const auto& file : Files("log-")) fs::remove(file);
    Write(path, whole.substr(0, size));
    const auto state = Open();
    ASSERT_OK(state.status());
    EXPECT_GE(state->entries.size(), 3u) << size;
    EXPECT_LE(state->entries.size(), 4u) << size;
    // What follows is written behind what was whole.
    ASSERT_OK(storage_->Persist(Entries(state->entries.size() + 1, 6, 2)));
    const auto again = Open();
    ASSERT_OK(again.status());
    EXPECT_EQ(again->entries.size(), 6u);
    storage_.reset();
  }
}

TEST_F(FileStorageTest, CorruptionBeforeALaterWriteIsRefusedWhereverItIs) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 3)));
  const std::string path = Files("log-").back();
  const std::size_t durable = Read(path).size();
  ASSERT_OK(storage_->Persist(Entries(4, 5)));
  storage_.reset();
  const std::string whole = Read(path);
  for (std::size_t at = 0; at < durable; ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    Write(path, bad);
    EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path))) << at;
  }
}

// A backup would come back under the same identity without what was promised since.
TEST_F(FileStorageTest, P106WhoseLogIsCorruptIsToldToJoinAnewAndNotToRestoreACopy) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 3)));
  const std::string path = Files("log-").back();
  const std::size_t durable = Read(path).size();
  ASSERT_OK(storage_->Persist(Entries(4, 5)));
  storage_.reset();
  std::string bad = Read(path);
  bad[durable - 1] = static_cast<char>(bad[durable - 1] ^ 4);
  Write(path, bad);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss,
                               AllOf(HasSubstr("remove the directory"), HasSubstr("a new server"),
                                     Not(HasSubstr("restore")))));
}

TEST_F(FileStorageTest, CorruptionInAnOlderFileIsRefused) {
  ASSERT_OK(Open(200).status());
  for (LogIndex index = 1; index <= 10; ++index) {
    ASSERT_OK(storage_->Persist(Entries(index, index)));
  }
  storage_.reset();
  const std::vector<std::string> files = Files("log-");
  ASSERT_GE(files.size(), 3u);
  const std::string whole = Read(files[1]);
  Write(files[1], whole.substr(0, whole.size() - 1));
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(files[1])));
  fs::remove(files[1]);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("missing")));
}

TEST_F(FileStorageTest, ACorruptSnapshotOrIdentityIsRefused) {
  ASSERT_OK(Open().status());
  ASSERT_OK(Bootstrap(Voters({1, 2, 3}), *storage_));
  storage_.reset();
  for (const std::string& path : {Files("snapshot-").back(), directory_.path() + "/identity"}) {
    const std::string whole = Read(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      Write(path, bad);
      EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
    }
    Write(path, whole);
  }
  EXPECT_OK(Open().status());
}

TEST_F(FileStorageTest, ASnapshotThatWasBeingWrittenIsForgotten) {
  ASSERT_OK(Open().status());
  ASSERT_OK(Bootstrap(Voters({1, 2, 3}), *storage_));
  Write(directory_.path() + "/snapshot-0000000000000009.tmp", "half");
  const auto state = Open();
  ASSERT_OK(state.status());
  EXPECT_EQ(state->snapshot->index, 0u);
  EXPECT_EQ(Files("snapshot-").size(), 1u);
}

TEST_F(FileStorageTest, ALogFileThatWasBeingCreatedIsForgotten) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 2)));
  storage_.reset();
  Write(directory_.path() + "/log-0000000000000002", "RLO");
  const auto state = Open();
  ASSERT_OK(state.status());
  EXPECT_EQ(state->entries.size(), 2u);
  ASSERT_OK(storage_->Persist(Entries(3, 3)));
  EXPECT_EQ(Open()->entries.size(), 3u);
}

TEST_F(FileStorageTest, SnapshotsLetTheFilesBeforeThemGo) {
  ASSERT_OK(Open(200).status());
  for (LogIndex index = 1; index <= 100; ++index) {
    ASSERT_OK(storage_->Persist(Entries(index, index)));
    if (index % 10 != 0) continue;
    PersistRequest request;
    request.snapshot =
        std::make_shared<const Snapshot>(Snapshot{index - 2, 1, Voters({1}), "state"});
    ASSERT_OK(storage_->Persist(request));
    EXPECT_LE(Files("log-").size(), 3u);
    EXPECT_EQ(Files("snapshot-").size(), 1u);
  }
  const auto state = Open(200);
  ASSERT_OK(state.status());
  EXPECT_EQ(state->entries.size(), 2u);
}

// A crash between a leader's snapshot and the end of the old log, at any file operation: the old
// log's entries behind the snapshot's index must not come back as this log's.
TEST_F(FileStorageTest, ALogThatASnapshotReplacedNeverComesBack) {
  for (int calls = 0; calls < 12; ++calls) {
    for (const auto& entry : fs::directory_iterator(directory_.path())) fs::remove(entry.path());
    syncs_before_failure = -1;
    ASSERT_OK(Open(200).status());
    for (LogIndex index = 1; index <= 30; ++index) {
      ASSERT_OK(storage_->Persist(Entries(index, index)));
    }
    PersistRequest request = Entries(21, 21, 3);
    request.hard_state = HardState{3, kNoServer};
    request.snapshot = std::make_shared<const Snapshot>(Snapshot{20, 2, Voters({1}), "state"});
    request.snapshot_replaces_log = true;
    syncs_before_failure = calls;
    sync_failures = 1000;
    const bool done = storage_->Persist(request).ok();
    sync_failures = 0;
    const auto state = Open(200);
    ASSERT_OK(state.status());
    if (state->snapshot == nullptr) {
      EXPECT_EQ(state->entries.size(), 30u);
      EXPECT_FALSE(done);
      continue;
    }
    EXPECT_EQ(state->hard_state.term, 3u);
    for (const Entry& entry : state->entries) EXPECT_EQ(entry.term, 3u) << entry.index;
    if (done) {
      EXPECT_EQ(state->entries.size(), 1u);
    }
  }
}

TEST_F(FileStorageTest, P107AFailedSyncIsAFailedPersistAndNeverTakenForDone) {
  for (int calls = 0; calls < 6; ++calls) {
    for (const auto& entry : fs::directory_iterator(directory_.path())) fs::remove(entry.path());
    syncs_before_failure = -1;
    ASSERT_OK(Open(250).status());
    ASSERT_OK(storage_->Persist(Entries(1, 2)));
    syncs_before_failure = calls;
    sync_failures = 1;
    LogIndex durable = 2;
    for (LogIndex index = 3; index <= 8; ++index) {
      // The same request again until it succeeds, as Raft does.
      int attempts = 1;
      while (!storage_->Persist(Entries(durable + 1, index)).ok()) ASSERT_LT(++attempts, 4);
      durable = index;
    }
    EXPECT_EQ(sync_failures, 0);
    const auto state = Open(250);
    ASSERT_OK(state.status());
    EXPECT_EQ(state->entries.size(), 8u) << "the sync that failed: " << calls;
  }
}

// The process may have ended between a write and its fsync: a server that acknowledged what it only
// found in the system's memory would forget it with the machine.
TEST_F(FileStorageTest, P107WhatALaterStartFindsIsDurableBeforeItCounts) {
  const auto inode = [](const std::string& path) {
    struct stat file {};
    EXPECT_EQ(stat(path.c_str(), &file), 0) << path;
    return file.st_ino;
  };
  ASSERT_OK(Open(/*segment_size_max=*/256).status());
  for (LogIndex index = 1; index <= 12; ++index)
    ASSERT_OK(storage_->Persist(Entries(index, index)));
  storage_.reset();
  const std::vector<std::string> files = Files("log-");
  ASSERT_GT(files.size(), 1u);
  const std::string last = Read(files.back());
  const fs::file_time_type long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(files.back(), long_ago);
  synced.clear();
  {
    ASSERT_OK_AND_ASSIGN(const auto looks, FileStorage::Open(directory_.path(), S(7)));
    ASSERT_OK_AND_ASSIGN(const InitialState seen, looks->Read());
    EXPECT_EQ(seen.entries.size(), 12u);
    EXPECT_EQ(fs::last_write_time(files.back()), long_ago) << "who only looks writes nothing";
  }
  for (int failed = 0; failed < 3; ++failed) {
    syncs_before_failure = failed;
    sync_failures = 1;
    EXPECT_FALSE(Open().ok()) << "the sync that failed: " << failed;
  }
  syncs_before_failure = -1;
  synced.clear();
  fs::last_write_time(files.back(), long_ago);
  ASSERT_OK_AND_ASSIGN(const InitialState state, Open());
  EXPECT_EQ(state.entries.size(), 12u);
  EXPECT_EQ(Files("log-"), files);
  EXPECT_EQ(Read(files.back()), last);
  EXPECT_TRUE(synced.contains(inode(files.back())));
  EXPECT_TRUE(synced.contains(inode(directory_.path())));
  // An fsync behind one that failed has nothing to write, unless somebody wrote it again.
  EXPECT_GT(fs::last_write_time(files.back()), long_ago);
}

TEST_F(FileStorageTest, P107AFullDiskIsAFailedPersist) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 2)));
  {
    // A write that the file system takes only a part of.
    const SizeLimit limit(Read(Files("log-").back()).size() + 100);
    EXPECT_FALSE(storage_->Persist(Entries(3, 6)).ok());
    EXPECT_FALSE(storage_->Persist(Entries(3, 6)).ok());
  }
  EXPECT_OK(storage_->Persist(Entries(3, 6)));
  EXPECT_EQ(Open()->entries.size(), 6u);
}

TEST_F(FileStorageTest, P107ASnapshotThatDoesNotFitLeavesTheRoomToTheLog) {
  ASSERT_OK(Open().status());
  ASSERT_OK(storage_->Persist(Entries(1, 2)));
  PersistRequest request = Entries(3, 3);
  request.snapshot =
      std::make_shared<const Snapshot>(Snapshot{2, 1, Voters({1}), std::string(1 << 16, 's')});
  {
    const SizeLimit limit(Read(Files("log-").back()).size() + 1000);
    EXPECT_FALSE(storage_->Persist(request).ok());
    EXPECT_TRUE(Files("snapshot-").empty()) << Files("snapshot-").front();
    EXPECT_OK(storage_->Persist(Entries(3, 4)));
  }
  ASSERT_OK_AND_ASSIGN(const InitialState state, Open());
  EXPECT_EQ(state.snapshot, nullptr);
  EXPECT_EQ(state.entries.size(), 4u);
}

// Nobody may ask for the newer one again.
TEST_F(FileStorageTest, P107AnOlderSnapshotGoesWhateverFailsBehindANewerOne) {
  ASSERT_OK(Open().status());
  ASSERT_OK(Bootstrap(Voters({1}), *storage_));
  ASSERT_OK(storage_->Persist(Entries(1, 2)));
  PersistRequest request = Entries(3, 3);
  request.snapshot = std::make_shared<const Snapshot>(Snapshot{2, 1, Voters({1}), "state"});
  syncs_before_failure = 2;  // of the snapshot and of its name: the new log file's fails
  sync_failures = 1;
  EXPECT_FALSE(storage_->Persist(request).ok());
  EXPECT_EQ(sync_failures, 0);
  EXPECT_EQ(Files("snapshot-").size(), 1u);
  syncs_before_failure = -1;
  EXPECT_OK(storage_->Persist(Entries(3, 4)));
  ASSERT_OK_AND_ASSIGN(const InitialState state, Open());
  EXPECT_EQ(state.snapshot->index, 2u);
  EXPECT_EQ(state.entries.size(), 2u);
}

}  // namespace
}  // namespace ring::consensus
