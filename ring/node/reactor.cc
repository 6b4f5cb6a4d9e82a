#include "ring/node/reactor.h"

#include <immintrin.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "ring/base/check.h"

namespace ring::node {
namespace {
// Reading the clock costs a good part of an idle turn: once in so many. What looks at it counts
// milliseconds.
constexpr std::uint32_t kTurnsPerClock = 16;
// Who waits for connections and epochs always has work, and not all of that rings a bell. On a busy
// machine who never sleeps waits for the processor longest, and looks silent to the others. What
// waits for its pace rings none either.
constexpr std::uint64_t kUnreadySleepNs = 1'000'000;
}  // namespace

Reactor::Reactor(const ReactorOptions& options)
    : options_(options), wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  RING_CHECK(wake_fd_ >= 0) << "eventfd";
}

Reactor::~Reactor() { close(wake_fd_); }

Node* Reactor::AddNode(std::unique_ptr<Node> node) {
  node->set_wakeups(&wakeups_);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Reactor::Stop() {
  Post([this] { stopping_.store(true, std::memory_order_relaxed); });
}

void Reactor::Post(absl::AnyInvocable<void()> call) {
  {
    MutexLock lock(mutex_);
    posted_.push_back(std::move(call));
  }
  has_posted_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void Reactor::RunPosted() {
  if (!has_posted_.load(std::memory_order_acquire)) return;
  std::uint64_t drained = 0;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &drained, sizeof(drained));
  has_posted_.store(false, std::memory_order_relaxed);
  std::vector<absl::AnyInvocable<void()>> calls;
  {
    MutexLock lock(mutex_);
    calls.swap(posted_);
  }
  for (absl::AnyInvocable<void()>& call : calls) call();
}

void Reactor::Run() {
  std::uint64_t idle_since_ns = options_.clock->NowNs();
  std::uint32_t idle_turns = 0;
  const RunDelay delay;
  PaceKeeper keeper;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (Turn()) {
      if (keeper.Due(now_ns_)) KeepPace(delay, keeper);
      idle_turns = 0;
      continue;
    }
    _mm_pause();
    if (++idle_turns % kTurnsPerClock != 0) continue;
    const std::uint64_t now_ns = options_.clock->NowNs();
    if (idle_turns == kTurnsPerClock) idle_since_ns = now_ns;
    if (!options_.sleeps || now_ns - idle_since_ns < options_.poll_ns) continue;
    Sleep();
    idle_turns = 0;
  }
}

// Only here, and not in a turn: who owns the turns owns time, and what it is measured by.
void Reactor::KeepPace(const RunDelay& delay, PaceKeeper& keeper) {
  bool asked = false;
  // Values come back behind an epoch change: how many want the processor then shows in it already.
  for (const std::unique_ptr<Node>& node : nodes_)
    asked |= node->pace().WasAsked() || !node->ready();
  if (!asked) return;
  const std::optional<std::uint64_t> waited_ns = delay.ReadNs();
  if (!waited_ns.has_value()) return;
  const double share = keeper.Look(now_ns_, *waited_ns);
  for (const std::unique_ptr<Node>& node : nodes_) node->pace().Slow(share);
}

bool Reactor::Turn() {
  RunPosted();
  if (turns_++ % kTurnsPerClock == 0) now_ns_ = options_.clock->NowNs();
  const bool expected = quiet_turns_ < kQuietTurns;
  bool did = false;
  bool occupied = false;
  std::size_t count = 0;
  for (const std::unique_ptr<Node>& node : nodes_) {
    did |= node->Progress(now_ns_, busy_);
    occupied |= node->occupied();
    // Epoch changes and recovery keep several nodes at once: nobody's request waits for all.
    if (!node->occupied() || node == nodes_.back()) continue;
    count += Serve();
    did |= FinishAll(expected || count > 0);
    PollAllClients();
  }
  count += Serve();
  quiet_turns_ = count > 0 ? 0 : std::min(quiet_turns_ + 1, kQuietTurns);
  const bool expecting = quiet_turns_ < kQuietTurns;
  const bool overdue = expecting && now_ns_ - quiet_ns_ >= kQuietDueNs;
  if (overdue || !expecting) quiet_ns_ = now_ns_;
  did |= FinishAll(expecting && !overdue);
  if (occupied) {
    PollAllClients();
    turns_ = 0;  // the clock went on meanwhile
  }
  if (overdue && !round_) {
    round_ = true;
    round_node_ = round_ring_ = 0;
  }
  const bool folded = FoldTurn(std::min(count, kBatchMax));
  busy_ = count > 0;
  return did || folded || expecting;
}

std::size_t Reactor::Serve() {
  const std::size_t count = GatherBatch();
  ExecuteBatch(count);
  return count;
}

bool Reactor::FinishAll(bool busy) {
  bool did = false;
  for (const std::unique_ptr<Node>& node : nodes_) did |= node->Finish(now_ns_, busy);
  return did;
}

void Reactor::PollAllClients() {
  for (const std::unique_ptr<Node>& node : nodes_) node->PollClients();
}

std::size_t Reactor::GatherBatch() {
  std::size_t count = 0;
  const std::size_t node_count = nodes_.size();
  for (std::size_t i = 0; i < node_count && count < kBatchMax; ++i) {
    Node* const node = nodes_[(first_node_ + i) % node_count].get();
    const std::size_t got = node->Gather(absl::MakeSpan(batch_).subspan(count));
    for (std::size_t j = 0; j < got; ++j) batch_nodes_[count + j] = node;
    count += got;
  }
  if (node_count > 0) first_node_ = (first_node_ + 1) % node_count;
  return count;
}

void Reactor::ExecuteBatch(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) batch_nodes_[i]->Route(&batch_[i]);
  // Hints only: the operations look everything up again, so what a batch does to its own keys is
  // right (V5).
  for (std::size_t i = 0; i < count; ++i) batch_nodes_[i]->Prefetch(batch_[i]);
  for (std::size_t i = 0; i < count; ++i) batch_nodes_[i]->Execute(batch_[i]);
}

bool Reactor::FoldTurn(std::size_t request_count) {
  int folded = FoldOfRound();
  if (request_count > 0) {
    const int budget = std::max(kFoldBudgetMin, kFoldPerRequest * static_cast<int>(request_count));
    for (std::size_t i = 0; i < nodes_.size() && folded < budget; ++i) {
      fold_node_ = (fold_node_ + 1) % nodes_.size();
      folded += nodes_[fold_node_]->Fold(kRingsPerTurn, budget - folded);
    }
    credit_due_ = true;
    idle_rings_ = 0;
    return folded > 0;
  }
  if (quiet_turns_ < kQuietTurns) return folded > 0;
  for (const std::unique_ptr<Node>& node : nodes_)
    folded += node->Fold(kRingsPerTurn, MemberPort::kNoBudget);
  if (folded > 0) {
    credit_due_ = true;
    idle_rings_ = 0;
  } else if (credit_due_) {
    idle_rings_ += kRingsPerTurn;
    if (!LookedAtAllRings()) return false;
    credit_due_ = ShareCredits();
  }
  return folded > 0;
}

// A turn of its own for each ring, since a request that comes meanwhile waits. With a place of its
// own: turns with requests go round the rings, too, leave most entries alone, and in step with
// these would look at the same part of them each time.
int Reactor::FoldOfRound() {
  if (!round_) return 0;
  for (; round_node_ < nodes_.size(); ++round_node_, round_ring_ = 0) {
    Node& node = *nodes_[round_node_];
    if (round_ring_ < node.members().held_shards().size()) return node.FoldRing(round_ring_++);
  }
  round_ = false;
  return 0;
}

bool Reactor::ShareCredits() {
  bool due = false;
  for (const std::unique_ptr<Node>& node : nodes_) due |= node->ShareCredits();
  return due;
}

bool Reactor::LookedAtAllRings() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [this](const std::unique_ptr<Node>& node) {
    return static_cast<std::size_t>(idle_rings_) >= node->members().held_shards().size();
  });
}

bool Reactor::HasWork() const {
  if (has_posted_.load(std::memory_order_acquire)) return true;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (node->HasWork()) return true;
  }
  return false;
}

bool Reactor::PrepareSleep() {
  return LooksIdle() &&
         std::none_of(nodes_.begin(), nodes_.end(),
                      [](const std::unique_ptr<Node>& node) { return node->connecting(); });
}

bool Reactor::LooksIdle() {
  for (const std::unique_ptr<Node>& node : nodes_) {
    node->SetSleeping(true);
    node->Arm();
  }
  // What came before the flag was up rang no bell: look once more.
  bool work = HasWork();
  for (const std::unique_ptr<Node>& node : nodes_)
    work |= node->Progress(options_.clock->NowNs(), false);
  return !work && !HasWork();
}

void Reactor::WakeUp() {
  for (const std::unique_ptr<Node>& node : nodes_) node->SetSleeping(false);
  turns_ = 0;  // the clock went on meanwhile
}

void Reactor::Sleep() {
  if (LooksIdle()) {
    bool unready = false;
    for (const std::unique_ptr<Node>& node : nodes_)
      unready |= node->pace().Waits() || node->connecting() || !node->ready();
    poll_fds_.clear();
    poll_fds_.push_back({wake_fd_, POLLIN, 0});
    for (const std::unique_ptr<Node>& node : nodes_)
      poll_fds_.push_back({node->event_fd(), POLLIN, 0});
    const std::uint64_t limit_ns =
        unready ? std::min(options_.sleep_ns_max, kUnreadySleepNs) : options_.sleep_ns_max;
    const timespec limit{static_cast<time_t>(limit_ns / 1'000'000'000),
                         static_cast<long>(limit_ns % 1'000'000'000)};
    ppoll(poll_fds_.data(), poll_fds_.size(), &limit, nullptr);
    wakeups_.fetch_add(1, std::memory_order_relaxed);
  }
  WakeUp();
}

}  // namespace ring::node
