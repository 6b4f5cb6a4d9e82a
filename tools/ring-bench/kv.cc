// ring-bench kv: puts and gets; clusters, memgests and operations in turn (A B A B).
#include <cmath>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "api/admin/admin_client.h"
#include "ring/base/status.h"
#include "tools/common/admin_token_option.h"
#include "tools/ring-bench/cell.h"
#include "tools/ring-bench/client_loop.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/device_work.h"
#include "tools/ring-bench/kv_options.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/memory_work.h"
#include "tools/ring-bench/round_trip.h"
#include "tools/ring-bench/target.h"

namespace ring::bench {
namespace {

struct Cluster {
  std::string fence;  // and who encodes, if that is compared
  std::unique_ptr<Target> target;
  std::vector<std::unique_ptr<Client>> clients;
};

struct KvCell : Cell {
  const Cluster* cluster = nullptr;
  std::string memgest;
  std::string operation;
  std::vector<double> p50s;    // by round
  std::uint64_t answered = 0;  // those of the warm-up, too: what the nodes worked for
  std::uint64_t allocations = 0;
  std::uint64_t switches = 0;
  double cpu_seconds = 0;
  rdma::DeviceCounters calls;  // of the cluster's nodes
};

class KvBench {
 public:
  KvBench(const KvOptions& options, Context* context) : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status StartCluster(const std::string& fence, const std::string& encode);
  std::vector<LoopResult> RunLoops(const Cluster& cluster, LoopOptions loop, int round);
  absl::Status RunCell(KvCell* cell, int round);
  void Report();
  void ReportFences();
  void ReportFloor();
  void ReportCalls();
  absl::Status ReportWork();
  // What the nodes asked of the system so far; zeros where it is not counted.
  absl::StatusOr<rdma::DeviceCounters> NodeCalls(const Cluster& cluster);
  absl::StatusOr<rdma::DeviceCounters> NodeCallsSince(const Cluster& cluster,
                                                      const rdma::DeviceCounters& before);
  absl::Status Verdict() const;

  const KvOptions& options_;
  Context* context_;
  std::vector<std::unique_ptr<Cluster>> clusters_;  // those that are not measured idle
  std::vector<KvCell> cells_;
  std::unique_ptr<admin::AdminClient> admin_;  // null: the cluster is in this process
};

double RoundTripNs(std::size_t request_size, std::size_t reply_size) {
  return static_cast<double>(
      MeasureRoundTrip({.request_size = request_size, .reply_size = reply_size, .rounds = 50'000})
          .Percentile(50));
}

double ReadRatio(const std::string& operation, double mixed) {
  if (operation == "get") return 1;
  return operation == "put" ? 0 : mixed;
}

absl::Status KvBench::StartCluster(const std::string& fence, const std::string& encode) {
  TargetOptions options = options_.target;
  // All alike; and a ringd of its own has what is the default here.
  const bool is_default =
      options_.fences == KvOptions().fences && options_.encodes == KvOptions().encodes;
  options.in_process |= options_.count_calls || !is_default;
  if (!options_.admin.empty()) {
    admin::AdminClientOptions admin{.addresses = options_.admin};
    RING_ASSIGN_OR_RETURN(admin.token, tools::TokenOf(options_.admin_token_file));
    RING_ASSIGN_OR_RETURN(admin_, admin::AdminClient::Create(std::move(admin)));
  }
  options.fence = fence;
  options.encode = encode;
  Cluster& cluster = *clusters_.emplace_back(std::make_unique<Cluster>());
  cluster.fence = options_.encodes.size() == 1 ? fence : absl::StrCat(fence, " ", encode);
  RING_ASSIGN_OR_RETURN(cluster.target, Target::Start(options));
  for (std::size_t i = 0; i < options_.clients; ++i) {
    RING_ASSIGN_OR_RETURN(auto client,
                          cluster.target->NewClient(std::max<std::size_t>(options_.pipeline, 32)));
    cluster.clients.push_back(std::move(client));
  }
  return NodeCalls(cluster).status();  // what cannot be counted is told before anything is loaded
}

// Cells of the same work stand side by side, so that each round runs them in turn.
absl::Status KvBench::Prepare() {
  for (const std::string& fence : options_.fences) {
    for (const std::string& encode : options_.encodes)
      RING_RETURN_IF_ERROR(StartCluster(fence, encode));
  }
  std::uint16_t space = 0;
  for (const std::string& memgest : options_.memgests) {
    ++space;
    std::vector<MemgestId> ids;
    for (const std::unique_ptr<Cluster>& cluster : clusters_) {
      Client* const client = cluster->clients.front().get();
      RING_ASSIGN_OR_RETURN(const MemgestId id, client->ResolveMemgest(memgest));
      LoadOptions load{.memgest = id,
                       .key_space = space,
                       .key_count = options_.key_count,
                       .value_size = options_.value_size,
                       .progress = context_->progress};
      RING_RETURN_IF_ERROR(Load(client, absl::StrCat("loading ", memgest), load));
      ids.push_back(id);
    }
    for (const std::string& operation : options_.operations) {
      for (std::size_t i = 0; i < clusters_.size(); ++i) {
        KvCell& cell = cells_.emplace_back();
        cell.cluster = clusters_[i].get();
        cell.memgest = memgest;
        cell.operation = operation;
        cell.id = ids[i];
        cell.key_space = space;
      }
    }
  }
  return absl::OkStatus();
}

// Clients are dealt out over threads; the last thread is this one.
std::vector<LoopResult> KvBench::RunLoops(const Cluster& cluster, LoopOptions loop, int round) {
  const std::vector<std::unique_ptr<Client>>& clients = cluster.clients;
  const std::size_t thread_count = std::min(options_.threads, clients.size());
  std::vector<std::vector<std::unique_ptr<ClientLoop>>> loops(thread_count);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    loop.seed = static_cast<std::uint64_t>(round) * 1000 + i + 1;
    loops[i % thread_count].push_back(std::make_unique<ClientLoop>(clients[i].get(), loop));
  }
  std::vector<std::vector<LoopResult>> results(thread_count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i + 1 < thread_count; ++i) {
    threads.emplace_back([&results, &loops, i] { results[i] = ClientLoop::Run(loops[i]); });
  }
  results.back() = ClientLoop::Run(loops.back());
  for (std::thread& thread : threads) thread.join();
  std::vector<LoopResult> all;
  for (std::vector<LoopResult>& some : results) {
    for (LoopResult& result : some) all.push_back(std::move(result));
  }
  return all;
}

absl::Status KvBench::RunCell(KvCell* cell, int round) {
  LoopOptions loop;
  loop.memgest = cell->id;
  loop.key_space = cell->key_space;
  loop.key_count = options_.key_count;
  loop.value_size = options_.value_size;
  loop.read_ratio = ReadRatio(cell->operation, options_.read_ratio);
  loop.distribution =
      options_.distribution == "zipfian" ? Distribution::kZipfian : Distribution::kUniform;
  loop.pipeline = options_.pipeline;
  loop.rate = options_.rate / static_cast<double>(options_.clients);
  loop.seconds = options_.seconds;
  RING_ASSIGN_OR_RETURN(const rdma::DeviceCounters before, NodeCalls(*cell->cluster));
  std::vector<LoopResult> results = RunLoops(*cell->cluster, loop, round);
  RING_ASSIGN_OR_RETURN(const rdma::DeviceCounters calls, NodeCallsSince(*cell->cluster, before));
  for (const auto& [name, member] : rdma::kDeviceCounters) cell->calls.*member += calls.*member;
  Histogram all;
  for (const LoopResult& result : results) {
    all.Merge(result.gets);
    all.Merge(result.puts);
    cell->answered += result.answered;
  }
  cell->AddRound(results, options_.seconds);
  cell->p50s.push_back(static_cast<double>(all.Percentile(50)));
  const LoopResult& first = results.front();
  cell->allocations += first.after.allocations - first.before.allocations;
  cell->switches += first.after.voluntary_switches - first.before.voluntary_switches;
  cell->cpu_seconds += first.after.cpu_seconds - first.before.cpu_seconds;
  return absl::OkStatus();
}

void KvBench::Report() {
  std::vector<Row> rows;
  for (const KvCell& cell : cells_) {
    for (const bool gets : {false, true}) {
      const Histogram& histogram = gets ? cell.gets : cell.puts;
      if (histogram.count() == 0 && cell.operations != 0) continue;
      const auto operations = std::max(1.0, static_cast<double>(cell.operations));
      const auto [low, high] = std::minmax_element(cell.rates.begin(), cell.rates.end());
      const double rate = Median(cell.rates);
      Row row;
      row["memgest"] = cell.memgest;
      if (clusters_.size() > 1) row["fence"] = cell.cluster->fence;
      row["op"] =
          cell.operation == "mixed" ? absl::StrCat("mixed ", gets ? "get" : "put") : cell.operation;
      row["ops_per_second"] = rate * static_cast<double>(histogram.count()) / operations;
      row["spread_percent"] = rate == 0 ? 0 : (*high - *low) / rate * 100;
      AddLatency(histogram, &row);
      row["allocs/op"] = std::round(static_cast<double>(cell.allocations) / operations * 1e3) / 1e3;
      row["sleeps/op"] = std::round(static_cast<double>(cell.switches) / operations * 1e3) / 1e3;
      row[".cpu_ns_per_op"] = cell.cpu_seconds * 1e9 / operations;
      row[".failed"] = cell.failed;
      row[".wrong_values"] = cell.wrong_values;
      row[".p50_ns_by_round"] = cell.p50s;
      row[".ops_per_second_by_round"] = cell.rates;
      rows.push_back(row);
    }
  }
  context_->report.AddSection(
      absl::StrFormat("kv: %d B values, %d keys, %d client(s), pipeline %d, %s, transport %s%s%s",
                      options_.value_size, options_.key_count, options_.clients, options_.pipeline,
                      options_.distribution,
                      Target::TransportInUse(*clusters_.front()->clients.front()),
                      options_.target.seeds.empty() && clusters_.size() == 1
                          ? absl::StrCat(", fence ", clusters_.front()->fence)
                          : std::string(),
                      options_.rate > 0 ? absl::StrFormat(", open loop at %.0f/s", options_.rate)
                                        : std::string()),
      rows);
}

// Pair by pair: what a cell did in a round over what the first cluster's did in the same round.
void KvBench::ReportFences() {
  const auto ratios = [](const std::vector<double>& of, const std::vector<double>& over) {
    std::vector<double> all;
    for (std::size_t i = 0; i < of.size(); ++i) all.push_back(of[i] / std::max(over[i], 1.0));
    return all;
  };
  std::vector<Row> rows;
  const std::size_t count = clusters_.size();
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (i % count == 0) continue;
    const KvCell& cell = cells_[i];
    const KvCell& first = cells_[i - i % count];
    const std::vector<double> rates = ratios(cell.rates, first.rates);
    const std::vector<double> p50s = ratios(cell.p50s, first.p50s);
    Row row;
    row["memgest"] = cell.memgest;
    row["op"] = cell.operation;
    row["fence"] = absl::StrCat(cell.cluster->fence, " / ", first.cluster->fence);
    row["operations a second_ratio"] = Median(rates);
    row["least_ratio"] = *std::min_element(rates.begin(), rates.end());
    row["most_ratio"] = *std::max_element(rates.begin(), rates.end());
    row["p50_ratio"] = Median(p50s);
    row["p50 least_ratio"] = *std::min_element(p50s.begin(), p50s.end());
    row["p50 most_ratio"] = *std::max_element(p50s.begin(), p50s.end());
    rows.push_back(row);
  }
  context_->report.AddSection(
      absl::StrCat("cost of ", options_.encodes.size() > 1 ? "the encode path" : "fences",
                   ": medians of the ratios of each round"),
      rows);
}

void KvBench::ReportFloor() {
  const MemoryWorkOptions work{.key_count = options_.key_count, .value_size = options_.value_size};
  const double request = RoundTripNs(options_.value_size, 0);
  const double reply = RoundTripNs(0, options_.value_size);
  std::vector<Row> rows;
  for (const KvCell& cell : cells_) {
    const auto scheme = MemoryWorkOf(cell.memgest);
    if (cell.operation == "mixed" || (cell.operation == "put" && !scheme.has_value())) continue;
    const bool is_get = cell.operation == "get";
    const double memory = MeasureMemoryWork(is_get ? MemoryWork::kGet : *scheme, work);
    const double trip = is_get ? reply : request;
    Row row;
    row["memgest"] = cell.memgest;
    row["op"] = cell.operation;
    row["memory work_ns"] = memory;
    row["round trip_ns"] = trip;
    row["p50_ns"] = Median(cell.p50s);
    row["of the floor_ratio"] = Median(cell.p50s) / (memory + trip);
    rows.push_back(row);
  }
  context_->report.AddSection("floors, measured after the operations", rows);
}

absl::StatusOr<rdma::DeviceCounters> KvBench::NodeCalls(const Cluster& cluster) {
  rdma::DeviceCounters sum;
  if (!options_.count_calls) return sum;
  const absl::StatusOr<node::ClusterStats> stats =
      admin_ != nullptr ? admin_->GetStats() : cluster.target->admin()->GetStats();
  if (!stats.ok()) {
    return absl::Status(stats.status().code(),
                        absl::StrCat("--count-calls: ", stats.status().message()));
  }
  for (const node::NodeStats& node : stats->nodes) {
    for (const auto& [name, member] : rdma::kDeviceCounters)
      sum.*member += node.device_counters.*member;
  }
  return sum;
}

absl::StatusOr<rdma::DeviceCounters> KvBench::NodeCallsSince(const Cluster& cluster,
                                                             const rdma::DeviceCounters& before) {
  RING_ASSIGN_OR_RETURN(const rdma::DeviceCounters now, NodeCalls(cluster));
  for (const auto& [name, member] : rdma::kDeviceCounters) {
    if (now.*member >= before.*member) continue;
    return absl::FailedPreconditionError(
        "--count-calls: a node went away, or was started anew, while its calls were counted");
  }
  return Difference(now, before);
}

void KvBench::ReportCalls() {
  std::vector<Row> rows;
  for (const KvCell& cell : cells_) {
    const rdma::DeviceCounters& calls = cell.calls;
    Row row;
    row["memgest"] = cell.memgest;
    row["op"] = cell.operation;
    row["receives/batch"] = Per(calls.receives - calls.receives_in_vain, calls.batches_received);
    row["looks/batch"] = Per(calls.waits - calls.waits_in_vain, calls.batches_received);
    row["io_uring calls/batch"] = Per(calls.uring_enters, calls.batches_received);
    row["sends/batch"] = Per(calls.sends, calls.batches_sent);
    row["all calls/batch"] = Per(calls.sends + calls.receives + calls.waits + calls.uring_enters,
                                 calls.batches_sent + calls.batches_received);
    row["receives in vain/batch"] = Per(calls.receives_in_vain, calls.batches_received);
    row["looks in vain/batch"] = Per(calls.waits_in_vain, calls.batches_received);
    rows.push_back(row);
  }
  context_->report.AddSection(
      "system calls of the nodes; a batch is what goes one way over one connection in one turn, "
      "and calls in vain are mostly those of turns in which nothing came",
      rows);
}

absl::Status KvBench::ReportWork() {
  std::vector<Row> rows;
  for (const KvCell& cell : cells_)
    rows.push_back(WorkRow(cell.memgest, cell.operation, cell.calls, cell.answered));
  const Cluster& cluster = *clusters_.front();
  RING_ASSIGN_OR_RETURN(const rdma::DeviceCounters before, NodeCalls(cluster));
  absl::SleepFor(absl::Seconds(1));
  RING_ASSIGN_OR_RETURN(const rdma::DeviceCounters rest, NodeCallsSince(cluster, before));
  rows.push_back(WorkRow("-", "a second of rest", rest, 1));
  context_->report.AddSection(
      "work of all nodes' devices for an operation: what was posted and polled over whatever link, "
      "and what an RDMA card was asked for",
      rows);
  return absl::OkStatus();
}

absl::Status KvBench::Verdict() const {
  for (const KvCell& cell : cells_) {
    RING_RETURN_IF_ERROR(
        cell.Verdict(absl::StrCat("memgest=", cell.memgest, " op=", cell.operation)));
  }
  return absl::OkStatus();
}

absl::Status KvBench::Run() {
  RING_RETURN_IF_ERROR(Prepare());
  for (int round = 0; round < options_.rounds; ++round) {
    for (KvCell& cell : cells_) RING_RETURN_IF_ERROR(RunCell(&cell, round));
  }
  Report();
  if (clusters_.size() > 1) ReportFences();
  if (options_.target.pin) Target::Unpin();
  if (options_.target.transport != "tcp") {
    context_->report.AddNote(absl::StrFormat(
        "bare round trip between two threads: 64 B %.0f ns, 1 KiB request %.0f ns, 1 KiB reply "
        "%.0f ns",
        RoundTripNs(0, 0), RoundTripNs(1024, 0), RoundTripNs(0, 1024)));
  }
  if (options_.floor) ReportFloor();
  if (options_.count_calls) {
    ReportCalls();
    RING_RETURN_IF_ERROR(ReportWork());
  }
  return Verdict();
}

}  // namespace

void AddKvCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<KvOptions>();
  CLI::App* command = app.add_subcommand(
      "kv", "Puts and gets: throughput, latency, allocations and sleeps of an operation");
  AddKvOptions(command, options.get());
  command->callback([options, context] {
    CheckKvOptions(*options);
    context->status = KvBench(*options, context).Run();
  });
}

}  // namespace ring::bench
