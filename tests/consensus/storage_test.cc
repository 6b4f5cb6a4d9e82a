// One suite over both storages: what every Storage must do.
#include "consensus/storage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "consensus/file/file_storage.h"
#include "consensus/memory_storage.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/consensus/file/temp_directory.h"
#include "tests/consensus/raft_net.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

using ::ring::testing::StatusIs;

Entry Command(LogIndex index, Term term, std::string data) {
  return {term, index, EntryKind::kCommand, std::move(data)};
}

PersistRequest Entries(std::vector<Entry> entries) {
  PersistRequest request;
  request.entries = std::move(entries);
  return request;
}

PersistRequest WithSnapshot(LogIndex index, Term term, bool replaces_log) {
  PersistRequest request;
  Snapshot snapshot{index, term, Voters({1, 2, 3}), "state " + std::to_string(index)};
  request.snapshot = std::make_shared<const Snapshot>(std::move(snapshot));
  request.snapshot_replaces_log = replaces_log;
  return request;
}

// A storage that can be closed and opened again.
class StorageTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Reopen(); }
  // As after a crash of the process.
  void Reopen() {
    if (!GetParam()) return;
    file_.reset();
    auto file = FileStorage::Open(directory_.path(), S(1), {.segment_size_max = 400});
    ASSERT_OK(file.status());
    file_ = *std::move(file);
    ASSERT_OK(file_->Load().status());
  }
  Storage& storage() { return GetParam() ? static_cast<Storage&>(*file_) : memory_; }
  InitialState Reloaded() {
    Reopen();
    absl::StatusOr<InitialState> state = storage().Load();
    EXPECT_OK(state.status());
    return *std::move(state);
  }

 private:
  TempDirectory directory_;
  std::unique_ptr<FileStorage> file_;
  MemoryStorage memory_;
};

TEST_P(StorageTest, ANewOneIsEmpty) { EXPECT_TRUE(IsEmpty(Reloaded())); }

TEST_P(StorageTest, BootstrapWritesTheFirstConfigurationOnce) {
  ASSERT_OK(Bootstrap(Voters({1, 2, 3}, {4}), storage()));
  const InitialState state = Reloaded();
  ASSERT_NE(state.snapshot, nullptr);
  EXPECT_EQ(state.snapshot->configuration, Voters({1, 2, 3}, {4}));
  EXPECT_EQ(state.snapshot->index, 0u);
  EXPECT_THAT(Bootstrap(Voters({1}), storage()), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(StorageTest, P106WhatWasPersistedIsThereAfterARestart) {
  PersistRequest request = Entries({Command(1, 1, "a"), Command(2, 1, std::string("\0b", 2))});
  request.hard_state = HardState{1, S(2)};
  ASSERT_OK(storage().Persist(request));
  const InitialState state = Reloaded();
  EXPECT_EQ(state.hard_state, (HardState{1, S(2)}));
  EXPECT_EQ(state.entries, request.entries);
}

TEST_P(StorageTest, AnEntryEndsTheLogBeforeIt) {
  ASSERT_OK(
      storage().Persist(Entries({Command(1, 1, "a"), Command(2, 1, "b"), Command(3, 1, "c")})));
  ASSERT_OK(storage().Persist(Entries({Command(2, 2, "B")})));
  EXPECT_EQ(Reloaded().entries, (std::vector<Entry>{Command(1, 1, "a"), Command(2, 2, "B")}));
}

TEST_P(StorageTest, ALogLastsOverManyFiles) {
  for (LogIndex index = 1; index <= 100; ++index) {
    PersistRequest request = Entries({Command(index, index, std::string(50, 'x'))});
    request.hard_state = HardState{index, S(index)};
    ASSERT_OK(storage().Persist(request));
  }
  const InitialState state = Reloaded();
  ASSERT_EQ(state.entries.size(), 100u);
  EXPECT_EQ(state.entries.back(), Command(100, 100, std::string(50, 'x')));
  EXPECT_EQ(state.hard_state, (HardState{100, S(100)}));
}

TEST_P(StorageTest, AnOwnSnapshotStandsForTheEntriesUpToIt) {
  for (LogIndex index = 1; index <= 30; ++index) {
    ASSERT_OK(storage().Persist(Entries({Command(index, 1, std::string(50, 'x'))})));
  }
  PersistRequest request = WithSnapshot(20, 1, false);
  request.entries = {Command(31, 1, "y")};
  request.hard_state = HardState{2, kNoServer};
  ASSERT_OK(storage().Persist(request));
  const InitialState state = Reloaded();
  EXPECT_EQ(*state.snapshot, *request.snapshot);
  EXPECT_EQ(state.hard_state.term, 2u);
  ASSERT_EQ(state.entries.size(), 11u);
  EXPECT_EQ(state.entries.front().index, 21u);
  EXPECT_EQ(state.entries.back(), Command(31, 1, "y"));
}

TEST_P(StorageTest, ALeadersSnapshotReplacesTheLog) {
  for (LogIndex index = 1; index <= 30; ++index) {
    ASSERT_OK(storage().Persist(Entries({Command(index, 1, std::string(50, 'x'))})));
  }
  // The log goes beyond the snapshot, but is another one.
  PersistRequest request = WithSnapshot(20, 2, true);
  request.entries = {Command(21, 3, "y")};
  ASSERT_OK(storage().Persist(request));
  const InitialState state = Reloaded();
  EXPECT_EQ(state.snapshot->index, 20u);
  EXPECT_EQ(state.entries, std::vector<Entry>{Command(21, 3, "y")});
}

TEST_P(StorageTest, ASecondSnapshotTakesThePlaceOfTheFirst) {
  ASSERT_OK(storage().Persist(WithSnapshot(20, 2, true)));
  ASSERT_OK(storage().Persist(Entries({Command(21, 2, "a"), Command(22, 2, "b")})));
  ASSERT_OK(storage().Persist(WithSnapshot(21, 2, false)));
  const InitialState state = Reloaded();
  EXPECT_EQ(state.snapshot->index, 21u);
  EXPECT_EQ(state.entries, std::vector<Entry>{Command(22, 2, "b")});
}

TEST_P(StorageTest, AnyHistoryReadsBackAsTheOtherStorageHasIt) {
  SeededRandom random(ring::testing::SeedFor("storage"));
  MemoryStorage model;
  Term term = 1;
  for (int step = 0; step < 300; ++step) {
    PersistRequest request;
    if (random.Below(3) == 0) request.hard_state = HardState{++term, S(random.Below(5))};
    const LogIndex base = model.state().snapshot == nullptr ? 0 : model.state().snapshot->index;
    LogIndex next = model.last_index() + 1;
    if (random.Below(10) == 0 && model.last_index() > base) {
      const LogIndex index = base + 1 + random.Below(model.last_index() - base);
      request.snapshot = WithSnapshot(index, model.TermAt(index), false).snapshot;
    } else if (random.Below(20) == 0) {
      request.snapshot = WithSnapshot(model.last_index() + 5, ++term, true).snapshot;
      request.snapshot_replaces_log = true;
      next = model.last_index() + 6;
    } else if (random.Below(4) == 0 && next > base + 1) {
      next = base + 1 + random.Below(next - base - 1);  // truncates
    }
    if (request.snapshot != nullptr) next = std::max(next, request.snapshot->index + 1);
    for (std::uint64_t n = random.Below(4); n > 0; --n) {
      request.entries.push_back(Command(next++, term, std::string(random.Below(60), 'z')));
    }
    ASSERT_OK(storage().Persist(request));
    ASSERT_OK(model.Persist(request));
    if (random.Below(5) != 0) continue;
    const InitialState state = Reloaded();
    EXPECT_EQ(state.hard_state, model.state().hard_state);
    ASSERT_EQ(state.entries, model.state().entries) << "step " << step;
    ASSERT_EQ(state.snapshot == nullptr, model.state().snapshot == nullptr);
    if (state.snapshot != nullptr) {
      EXPECT_EQ(*state.snapshot, *model.state().snapshot);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, StorageTest, ::testing::Bool(),
                         [](const auto& storage) { return storage.param ? "File" : "Memory"; });

}  // namespace
}  // namespace ring::consensus
