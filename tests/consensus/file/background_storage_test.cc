// A storage whose writes take no time of who asks for them (10.1, 10.7).
#include "consensus/file/background_storage.h"

#include <memory>
#include <optional>
#include <utility>

#include "consensus/memory_storage.h"
#include "gtest/gtest.h"
#include "ring/base/sync.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

using ::ring::testing::StatusIs;

// What two threads tell each other: a count that only rises.
class Signal {
 public:
  void Raise() {
    {
      MutexLock lock(mutex_);
      ++count_;
    }
    raised_.NotifyAll();
  }
  void Await(int count) {
    MutexLock lock(mutex_);
    while (count_ < count) raised_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar raised_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct Disk {
  MemoryStorage content;
  Signal begun;
  Signal may_end;
  int writes = 0;  // begun; of the thread that writes
};

// Writes end when the disk lets them.
class SlowStorage final : public Storage {
 public:
  explicit SlowStorage(Disk* disk) : disk_(disk) {}
  absl::StatusOr<InitialState> Load() override { return disk_->content.Load(); }
  absl::Status Persist(const PersistRequest& request) override {
    disk_->begun.Raise();
    disk_->may_end.Await(++disk_->writes);
    return disk_->content.Persist(request);
  }

 private:
  Disk* disk_;
};

std::shared_ptr<const PersistRequest> WriteOf(std::uint64_t term) {
  auto request = std::make_shared<PersistRequest>();
  request->id = term;
  request->hard_state = HardState{term, kNoServer};
  return request;
}

TEST(BackgroundStorage, P101AWriteHoldsNobodyUpAndIsDoneOnceItIsDurable) {
  Disk disk;
  Signal ended;
  BackgroundStorage storage(std::make_unique<SlowStorage>(&disk), [&ended] { ended.Raise(); });
  for (int n = 1; n <= 3; ++n) {
    storage.Begin(WriteOf(static_cast<std::uint64_t>(n)));
    disk.begun.Await(n);
    EXPECT_FALSE(storage.HasOutcome());
    EXPECT_EQ(storage.TakeOutcome(), std::nullopt);
    disk.may_end.Raise();
    ended.Await(n);
    ASSERT_TRUE(storage.HasOutcome());
    EXPECT_EQ(disk.content.state().hard_state.term, static_cast<std::uint64_t>(n));
    EXPECT_EQ(storage.TakeOutcome(), std::optional<absl::Status>(absl::OkStatus()));
    EXPECT_FALSE(storage.HasOutcome()) << "once";
  }
}

TEST(BackgroundStorage, P107AFailedWriteIsToldAsOne) {
  Disk disk;
  Signal ended;
  BackgroundStorage storage(std::make_unique<SlowStorage>(&disk), [&ended] { ended.Raise(); });
  disk.content.FailNext(1);
  disk.may_end.Raise();
  storage.Begin(WriteOf(1));
  ended.Await(1);
  const std::optional<absl::Status> outcome = storage.TakeOutcome();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(*outcome, StatusIs(absl::StatusCode::kResourceExhausted));
}

// Whoever opens the directory next must not meet a write of this one.
TEST(BackgroundStorage, WhatIsUnderWayEndsBeforeTheStorageDoes) {
  Disk disk;
  auto storage = std::make_unique<BackgroundStorage>(std::make_unique<SlowStorage>(&disk), nullptr);
  storage->Begin(WriteOf(1));
  disk.begun.Await(1);
  disk.may_end.Raise();
  storage.reset();
  EXPECT_EQ(disk.content.state().hard_state.term, std::uint64_t{1});
}

}  // namespace
}  // namespace ring::consensus
