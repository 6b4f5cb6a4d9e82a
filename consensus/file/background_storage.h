// consensus/file/background_storage.h — a storage whose writes take no time of who asks for them.
//
// What:      BackgroundStorage: another storage, and a thread that waits for it. A voter serves
//            clients on the thread that drives its consensus; a write lasts as long as the disk
//            wants.
// Shape:     one request under way at a time, as Storage says.
// Ownership: owns the storage; the destructor waits for what is under way.
// Threads:   as Storage; `ended`, if any, is called on its own thread when an outcome is there.
// Errors:    the storage's.
// Cost:      Begin and TakeOutcome: a lock; HasOutcome: a load.
// Source:    docs/adr/0035-voters-write-in-the-background.md; rule 10.1.
#ifndef RING_CONSENSUS_FILE_BACKGROUND_STORAGE_H_
#define RING_CONSENSUS_FILE_BACKGROUND_STORAGE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "consensus/storage.h"
#include "ring/base/sync.h"

namespace ring::consensus {

class BackgroundStorage final : public Storage {
 public:
  BackgroundStorage(std::unique_ptr<Storage> storage, std::function<void()> ended);
  ~BackgroundStorage() override;

  absl::StatusOr<InitialState> Load() override { return storage_->Load(); }
  absl::Status Persist(const PersistRequest& request) override {
    return storage_->Persist(request);
  }
  void Begin(std::shared_ptr<const PersistRequest> request) override;
  bool HasOutcome() const override { return has_outcome_.load(std::memory_order_acquire); }
  std::optional<absl::Status> TakeOutcome() override;

 private:
  void Run();

  const std::unique_ptr<Storage> storage_;
  const std::function<void()> ended_;
  std::atomic<bool> has_outcome_ = false;
  Mutex mutex_;
  CondVar news_;
  std::shared_ptr<const PersistRequest> request_ ABSL_GUARDED_BY(mutex_);  // under way
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_FILE_BACKGROUND_STORAGE_H_
