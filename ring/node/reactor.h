// ring/node/reactor.h — the loop that drives nodes: one thread, batches over all its nodes.
//
// What:      A turn gathers up to 16 requests over all nodes, prefetches by stage, executes in
//            arrival order, flushes logs, acts on commits, answers behind one fence, then folds
//            within a budget. While nodes change epochs or recover it does so between the parts of
//            its nodes, too. Without work it polls for a while, then arms everything and sleeps
//            until a peer, a socket or a posted call wakes it. While the thread waits for a
//            processor, recovery in the background slows down (pace_keeper.h).
// Ownership: owns its nodes. Thread and lifetime are the host's.
// Threads:   Run is the nodes' thread. Post and Stop may be called from any.
// Errors:    none of its own.
// Cost:      after poll_ns without work it sleeps in the kernel, unless it was told never to: the
//            host sees to it that there is a processor for that (ring/base/processors.h).
// Source:    docs/ARCHITECTURE.md "The loop".
#ifndef RING_NODE_REACTOR_H_
#define RING_NODE_REACTOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "ring/base/clock.h"
#include "ring/base/run_delay.h"
#include "ring/base/sync.h"
#include "ring/node/node.h"
#include "ring/node/pace_keeper.h"

struct pollfd;

namespace ring::node {

struct ReactorOptions {
  const Clock* clock = nullptr;
  std::uint64_t poll_ns = 50'000;
  bool sleeps = true;
  std::uint64_t sleep_ns_max = 20'000'000;
};

class Reactor {
 public:
  explicit Reactor(const ReactorOptions& options);
  ~Reactor();

  // Before Run, or on its thread.
  Node* AddNode(std::unique_ptr<Node> node);
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  void DropNodes() { nodes_.clear(); }
  // Ends one node, with its memory. On the reactor's thread, between turns.
  void DropNode(NodeId id) {
    std::erase_if(nodes_, [id](const std::unique_ptr<Node>& node) { return node->id() == id; });
    first_node_ = fold_node_ = 0;
    round_ = false;
  }

  // Until Stop.
  void Run();
  void Stop();
  // Runs the call on the reactor's thread, between turns.
  void Post(absl::AnyInvocable<void()> call);

  // One turn; for tests that own the clock. Gives whether anything was done.
  bool Turn();
  // Around the sleep of who drives the turns: arms everything and looks once more. False: there is
  // work, do not sleep. WakeUp follows in either case.
  bool PrepareSleep();
  void WakeUp();
  // A sleeping reactor looks around by itself this often: connection retries, commits that were
  // told without a doorbell, heartbeats and leases.
  std::uint64_t sleep_ns_max() const { return options_.sleep_ns_max; }
  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kBatchMax = 16;
  // Rings of each node that a turn looks at: few, since a request that comes meanwhile waits.
  static constexpr int kRingsPerTurn = 2;
  // Entries folded in a turn with requests, over all nodes: what may stand before the next one.
  static constexpr int kFoldBudgetMin = 8;
  static constexpr int kFoldPerRequest = 3;  // faster than they come, with up to three members
  // After a request the next one is expected for so many turns: control words and entries that wait
  // would stand in front of it.
  static constexpr int kQuietTurns = 32;
  // Under requests without a gap, what waits for a quiet turn gets one this often (E5).
  static constexpr std::uint64_t kQuietDueNs = 1'000'000;

  std::size_t Serve();
  bool FinishAll(bool busy);
  void PollAllClients();
  std::size_t GatherBatch();
  void ExecuteBatch(std::size_t count);
  bool FoldTurn(std::size_t request_count);
  int FoldOfRound();
  bool ShareCredits();
  bool LookedAtAllRings() const;
  void RunPosted();
  bool HasWork() const;
  void KeepPace(const RunDelay& delay, PaceKeeper& keeper);
  bool LooksIdle();
  void Sleep();

  ReactorOptions options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::array<BatchItem, kBatchMax> batch_;
  std::array<Node*, kBatchMax> batch_nodes_;
  std::size_t first_node_ = 0;
  bool busy_ = false;              // the last turn had requests
  int quiet_turns_ = kQuietTurns;  // since the last request, at most kQuietTurns
  std::uint64_t quiet_ns_ = 0;     // of the last quiet turn
  std::size_t fold_node_ = 0;
  bool round_ = false;  // over all rings, one in each turn: no quiet turn came in time
  std::size_t round_node_ = 0;
  std::size_t round_ring_ = 0;
  std::uint32_t turns_ = 0;
  std::uint64_t now_ns_ = 0;  // read once in some turns
  bool credit_due_ = false;   // something was folded since the members last told
  int idle_rings_ = 0;        // of each node, looked at since something was folded
  std::atomic<bool> stopping_{false};
  std::atomic<bool> has_posted_{false};
  std::atomic<std::uint64_t> wakeups_{0};
  Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  int wake_fd_ = -1;
  std::vector<pollfd> poll_fds_;
};

}  // namespace ring::node

#endif  // RING_NODE_REACTOR_H_
