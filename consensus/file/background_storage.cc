#include "consensus/file/background_storage.h"

#include <utility>

#include "ring/base/check.h"

namespace ring::consensus {

BackgroundStorage::BackgroundStorage(std::unique_ptr<Storage> storage, std::function<void()> ended)
    : storage_(std::move(storage)), ended_(std::move(ended)), thread_([this] { Run(); }) {}

BackgroundStorage::~BackgroundStorage() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  news_.NotifyAll();
  thread_.join();
}

void BackgroundStorage::Begin(std::shared_ptr<const PersistRequest> request) {
  {
    MutexLock lock(mutex_);
    RING_CHECK(request_ == nullptr && !outcome_.has_value()) << "a write is under way";
    request_ = std::move(request);
  }
  news_.NotifyAll();
}

std::optional<absl::Status> BackgroundStorage::TakeOutcome() {
  if (!HasOutcome()) return std::nullopt;
  MutexLock lock(mutex_);
  has_outcome_.store(false, std::memory_order_relaxed);
  return std::exchange(outcome_, std::nullopt);
}

void BackgroundStorage::Run() {
  for (;;) {
    std::shared_ptr<const PersistRequest> request;
    {
      MutexLock lock(mutex_);
      while (request_ == nullptr && !stopping_) news_.Wait(mutex_);
      if (stopping_) return;  // of what was not begun nobody was told anything
      request = request_;
    }
    absl::Status status = storage_->Persist(*request);
    {
      MutexLock lock(mutex_);
      request_ = nullptr;
      outcome_ = std::move(status);
      has_outcome_.store(true, std::memory_order_release);
    }
    if (ended_ != nullptr) ended_();
  }
}

}  // namespace ring::consensus
