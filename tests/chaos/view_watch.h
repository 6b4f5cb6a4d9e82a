// tests/chaos/view_watch.h — the cluster's views as they go by, and what they say was lost.
//
// What:      ViewWatch asks the nodes for their views, keeps the newest, and notes when a shard got
//            another coordinator: what the former one held in memgests of f = 0 is gone then (G6).
// Shape:     a thread of its own, one node asked at a time.
// Units:     nanoseconds of CLOCK_MONOTONIC.
// Ownership: owns its thread.
// Threads:   thread-safe.
// Errors:    a node that does not answer is asked again in its turn.
// Source:    rule G6.
#ifndef RING_TESTS_CHAOS_VIEW_WATCH_H_
#define RING_TESTS_CHAOS_VIEW_WATCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/admin/admin_client.h"
#include "ring/base/sync.h"
#include "ring/cluster/view.h"
#include "tests/chaos/verdict.h"

namespace ring::chaos {

class ViewWatch {
 public:
  // How late a view that says so may be behind what happened.
  static constexpr std::uint64_t kLateMaxNs = 10'000'000'000;

  // time_factor: so many times longer a node may take to answer.
  explicit ViewWatch(const std::vector<std::string>& admin_addresses, int time_factor = 1);
  ~ViewWatch();

  std::shared_ptr<const cluster::View> view() const;
  std::vector<OwnerLoss> losses() const;
  // What keeps the cluster from being protected, as an operator is told; empty: nothing.
  std::string Unprotected() const;
  absl::Status WaitProtected(absl::Duration timeout) const;
  // Who leads the consensus; kNoNode: nobody said.
  NodeId Leader() const;

 private:
  void Run();
  void Take(cluster::View view);

  const std::uint64_t late_max_ns_;
  std::vector<std::unique_ptr<admin::AdminClient>> admins_;
  std::unique_ptr<admin::AdminClient> any_;  // of the nodes
  mutable Mutex mutex_;
  std::shared_ptr<const cluster::View> view_ ABSL_GUARDED_BY(mutex_);
  std::vector<OwnerLoss> losses_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ring::chaos

#endif  // RING_TESTS_CHAOS_VIEW_WATCH_H_
