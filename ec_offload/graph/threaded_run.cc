#include "ec_offload/graph/threaded_run.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

constexpr int kSleepMsMax = 100;
constexpr int kLowestPriority = 19;
constexpr std::uint64_t kArenaSlack = std::uint64_t{64} << 20;

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

std::string FreshName() {
  static std::atomic<std::uint64_t> counter{0};
  return absl::StrCat("ring-graph-", getpid(), "-", counter.fetch_add(1));
}

std::string AddressOf(GraphLink link) {
  switch (link) {
    case GraphLink::kLocal:
      break;
    case GraphLink::kShm:
      return absl::StrCat("shm:/tmp/", FreshName());
    case GraphLink::kTcp:
      return "tcp:127.0.0.1:0";
  }
  return absl::StrCat("local:", FreshName());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadedRun>> ThreadedRun::Create(
    const Graph& graph, const ThreadedRunOptions& options) {
  std::unique_ptr<ThreadedRun> run(new ThreadedRun(graph, options));
  std::set<NodeId> nodes;
  for (const Vertex& vertex : graph.vertices()) nodes.insert(vertex.node);
  for (const NodeId node : nodes) {
    run->workers_.push_back(std::make_unique<Worker>());
    run->workers_.back()->node = node;
  }
  for (auto& worker : run->workers_) {
    worker->thread = std::thread([raw = run.get(), at = worker.get()] { raw->Work(*at); });
  }
  RING_RETURN_IF_ERROR(run->CommandAll(Command::kOpen));
  RING_RETURN_IF_ERROR(run->CommandAll(Command::kConnect));
  return run;
}

ThreadedRun::~ThreadedRun() {
  static_cast<void>(CommandAll(Command::kStop));
  for (auto& worker : workers_) worker->thread.join();
}

absl::Status ThreadedRun::CommandAll(Command command) {
  busy_workers_.store(static_cast<std::uint32_t>(workers_.size()));
  for (auto& worker : workers_) {
    worker->command.store(command, std::memory_order_release);
    worker->command.notify_one();
  }
  if (command == Command::kRun) {
    for (std::uint32_t left = unprepared_.load(); left != 0; left = unprepared_.load())
      unprepared_.wait(left);
    started_.store(run_number_);
    started_.notify_all();
  }
  for (std::uint32_t left = busy_workers_.load(); left != 0; left = busy_workers_.load())
    busy_workers_.wait(left);
  return FirstError();
}

absl::Status ThreadedRun::FirstError() const {
  const std::vector<absl::Status> all = errors();
  if (all.empty()) return absl::OkStatus();
  // The cause, rather than what others saw of it.
  const auto cause = std::find_if(all.begin(), all.end(), [](const absl::Status& status) {
    return status.code() != absl::StatusCode::kUnavailable &&
           status.code() != absl::StatusCode::kAborted;
  });
  const absl::Status& told = cause != all.end() ? *cause : all.front();
  if (all.size() == 1) return told;
  return {told.code(),
          absl::StrCat(told.message(), "; ", all.size(), " of ", workers_.size(), " nodes failed")};
}

std::vector<absl::Status> ThreadedRun::errors() const {
  std::vector<absl::Status> errors;
  for (const auto& worker : workers_) {
    if (!worker->status.ok()) errors.push_back(worker->status);
  }
  return errors;
}

absl::Span<std::byte> ThreadedRun::chunk(const ChunkPlace& place) {
  for (auto& worker : workers_) {
    if (worker->node == place.node) return worker->run->chunk(place.chunk);
  }
  RING_CHECK(false) << "node " << place.node << " has no part in the graph";
  return {};
}

absl::StatusOr<std::uint64_t> ThreadedRun::Run(std::uint64_t timeout_ns) {
  deadline_ns_ = NowNs() + timeout_ns;
  ++run_number_;
  unprepared_.store(static_cast<std::uint32_t>(workers_.size()));
  RING_RETURN_IF_ERROR(CommandAll(Command::kRun));
  std::uint64_t started_ns = ~std::uint64_t{0};
  std::uint64_t ended_ns = 0;
  for (const auto& worker : workers_) {
    if (worker->run->plan().has_source) started_ns = std::min(started_ns, worker->started_ns);
    ended_ns = std::max(ended_ns, worker->ended_ns);
  }
  return ended_ns - started_ns;
}

absl::Status ThreadedRun::Reconnect() {
  RING_RETURN_IF_ERROR(CommandAll(Command::kDisconnect));
  return CommandAll(Command::kConnect);
}

ThreadedRunCounters ThreadedRun::counters() const {
  ThreadedRunCounters sum;
  sum.runs = run_number_;
  for (const auto& worker : workers_) {
    const InecCounters& inec = worker->run->inec_counters();
    sum.interventions += worker->run->counters().interventions;
    sum.submits += inec.submits;
    sum.posts += inec.posts;
    sum.polls += inec.polls;
    sum.wakeups += inec.wakeups;
    sum.busy_slices += worker->busy_slices;
  }
  return sum;
}

void ThreadedRun::Work(Worker& worker) {
  // Of this thread alone, on Linux.
  if (options_.busy_slice_ns > 0) setpriority(PRIO_PROCESS, 0, kLowestPriority);
  for (bool stopped = false; !stopped;) {
    worker.command.wait(Command::kNone);
    switch (worker.command.exchange(Command::kNone, std::memory_order_acquire)) {
      case Command::kNone:
        continue;
      case Command::kOpen:
        worker.status = Open(worker);
        break;
      case Command::kConnect:
        worker.status = Connect(worker);
        break;
      case Command::kRun:
        worker.status = RunOnce(worker);
        break;
      case Command::kDisconnect:
        worker.run->Disconnect();
        worker.status = absl::OkStatus();
        break;
      case Command::kStop:
        worker.run.reset();
        worker.device.reset();
        worker.status = absl::OkStatus();
        stopped = true;
        break;
    }
    if (busy_workers_.fetch_sub(1) == 1) busy_workers_.notify_one();
  }
}

absl::Status ThreadedRun::Open(Worker& worker) {
  RING_ASSIGN_OR_RETURN(const NodePlan plan, PlanNode(graph_, worker.node));
  std::size_t deepest = 1;
  for (const PlannedLane& lane : plan.in) deepest = std::max(deepest, lane.messages.size());
  rdma::EngineDeviceOptions device;
  device.soft.name = absl::StrCat("node ", worker.node);
  device.soft.arena_size_max = plan.memory_size + kArenaSlack;
  device.soft.shareable = options_.link == GraphLink::kShm;
  device.soft.qp_count_max = static_cast<std::uint32_t>(2 * (plan.in.size() + plan.out.size()) + 8);
  device.soft.recv_depth_max = static_cast<std::uint32_t>(deepest);
  device.soft.rnr_timeout_ms = 60'000;  // a run has a deadline of its own
  device.spin_turns = options_.nic_spin_turns;
  RING_ASSIGN_OR_RETURN(worker.device, rdma::OpenEngineDevice(device));
  RING_ASSIGN_OR_RETURN(const std::string address, worker.device->Listen(AddressOf(options_.link)));
  RING_ASSIGN_OR_RETURN(const std::string loop_address,
                        worker.device->Listen(AddressOf(GraphLink::kLocal)));
  RING_ASSIGN_OR_RETURN(worker.run,
                        NodeRun::Create(graph_, worker.node,
                                        {.device = worker.device.get(),
                                         .loop_address = loop_address,
                                         .thresholds = options_.thresholds,
                                         .calculate_on_host = options_.calculate_on_host,
                                         .replace_calculator = options_.replace_calculator}));
  const MutexLock lock(addresses_mutex_);
  addresses_[worker.node] = address;
  return absl::OkStatus();
}

absl::Status ThreadedRun::Connect(Worker& worker) {
  {
    const MutexLock lock(addresses_mutex_);
    RING_RETURN_IF_ERROR(worker.run->Connect(addresses_));
  }
  const std::uint64_t until_ns = NowNs() + options_.connect_timeout_ns;
  while (!worker.run->connected()) {
    RING_RETURN_IF_ERROR(worker.run->connect_status());
    if (NowNs() > until_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat("node ", worker.node, ": not connected with all of its peers in time"));
    }
    if (!worker.run->Progress(NowNs())) std::this_thread::yield();
  }
  return absl::OkStatus();
}

absl::Status ThreadedRun::RunOnce(Worker& worker) {
  NodeRun& run = *worker.run;
  const absl::Status prepared = run.Prepare(deadline_ns_);
  const std::uint32_t number = run_number_;
  if (unprepared_.fetch_sub(1) == 1) unprepared_.notify_one();
  RING_RETURN_IF_ERROR(prepared);
  if (run.plan().has_source) {
    for (std::uint32_t last = started_.load(); last != number; last = started_.load())
      started_.wait(last);
    worker.started_ns = NowNs();
    static_cast<void>(run.Start());  // status() has it
  }
  std::uint32_t idle = 0;
  while (!run.done()) {
    if (run.Progress(NowNs())) {
      idle = 0;
    } else if (options_.busy_slice_ns > 0) {
      DoOtherWork(worker);
    } else if (++idle < options_.host_spin_turns) {
      std::this_thread::yield();
    } else {
      Wait(worker, deadline_ns_);
    }
  }
  worker.ended_ns = NowNs();
  return run.status();
}

void ThreadedRun::Wait(Worker& worker, std::uint64_t until_ns) {
  worker.device->SetSleeping(true);
  worker.run->Arm();
  if (!worker.run->Progress(NowNs()) && !worker.run->done()) {
    const std::uint64_t now_ns = NowNs();
    const std::uint64_t left_ms = now_ns < until_ns ? (until_ns - now_ns) / 1'000'000 + 1 : 0;
    pollfd entry{worker.device->event_fd(), POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(std::min<std::uint64_t>(left_ms, kSleepMsMax))) > 0)
      worker.run->CountWakeup();
  }
  worker.device->SetSleeping(false);
}

void ThreadedRun::DoOtherWork(Worker& worker) {
  constexpr std::uint64_t kMultiplier = 6364136223846793005ULL;
  const std::uint64_t until_ns = NowNs() + options_.busy_slice_ns;
  while (NowNs() < until_ns) {
    for (int i = 0; i < 1000; ++i) worker.busy_value = worker.busy_value * kMultiplier + 1;
  }
  ++worker.busy_slices;
}

}  // namespace ring::ec_offload
