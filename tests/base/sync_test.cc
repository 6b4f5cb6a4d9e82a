#include "ring/base/sync.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace ring {
namespace {

class Turnstile {
 public:
  void Add(int n) {
    MutexLock lock(mu_);
    count_ += n;
    changed_.NotifyAll();
  }
  void WaitUntilAtLeast(int n) {
    MutexLock lock(mu_);
    while (count_ < n) changed_.Wait(mu_);
  }
  // False when the time passed first.
  bool WaitUntilAtLeast(int n, std::chrono::nanoseconds time_max) {
    MutexLock lock(mu_);
    while (count_ < n) {
      if (!changed_.WaitFor(mu_, time_max)) return count_ >= n;
    }
    return true;
  }
  int count() {
    MutexLock lock(mu_);
    return count_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST(Sync, AMutexGuardsACounterOfManyThreads) {
  Turnstile turnstile;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) turnstile.Add(1);
    });
  }
  turnstile.WaitUntilAtLeast(4000);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turnstile.count(), 4000);
}

TEST(Sync, WaitForGivesUpWhenNothingHappens) {
  Turnstile turnstile;
  EXPECT_FALSE(turnstile.WaitUntilAtLeast(1, std::chrono::milliseconds(1)));
}

TEST(Sync, WaitForSeesANotification) {
  Turnstile turnstile;
  std::thread thread([&] { turnstile.Add(1); });
  EXPECT_TRUE(turnstile.WaitUntilAtLeast(1, std::chrono::hours(1)));
  thread.join();
}

}  // namespace
}  // namespace ring
