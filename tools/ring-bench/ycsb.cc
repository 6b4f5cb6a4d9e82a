// ring-bench ycsb: YCSB's workloads A, B and C with degraded reads, by repair scheme, in turn
// (A B A B).
//
// A share of the reads is decoded from the blocks of other nodes instead of read; which, a Weibull
// distribution says, as failures come (INEC, SC'20, section IV-B). Nodes count what they decoded.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "ring/base/status.h"
#include "tools/common/repair_names.h"
#include "tools/common/size_option.h"
#include "tools/ring-bench/cell.h"
#include "tools/ring-bench/client_loop.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/target.h"

namespace ring::bench {
namespace {

struct YcsbOptions {
  std::vector<std::string> workloads = {"A", "B", "C"};
  std::string memgest = "SRS32";
  std::vector<protocol::RepairScheme> repairs = {protocol::RepairScheme::kRs};
  DegradedOptions degraded = {.share = 0.01};
  std::size_t value_size = 8192;
  std::uint32_t block_size = 0;  // 0: the least that holds a value
  std::uint64_t key_count = 2000;
  std::size_t clients = 1;
  std::size_t pipeline = 1;
  double seconds = 1;
  int rounds = 5;
  TargetOptions target;
};

const std::map<std::string, double>& ReadRatios() {
  static const auto* const ratios =
      new std::map<std::string, double>{{"A", 0.5}, {"B", 0.95}, {"C", 1.0}};
  return *ratios;
}

// Its gets are YCSB's reads, its puts the updates.
struct YcsbCell : Cell {
  std::string workload;
  std::string repair;
  Histogram degraded;
  std::vector<double> degraded_p50s;  // by round
  std::vector<double> update_p50s;
  std::uint64_t answered = 0;  // degraded reads, to clients
  std::uint64_t counted = 0;   // ... as coordinators count
  std::uint64_t decoded = 0;   // blocks, as parity nodes count
};

class YcsbBench {
 public:
  YcsbBench(const YcsbOptions& options, Context* context) : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::StatusOr<protocol::MemgestDescriptor> Descriptor() const;
  absl::Status Prepare();
  absl::StatusOr<node::NodeStats> Counts();
  absl::Status RunCell(YcsbCell* cell, int round);
  void Report();
  absl::Status Verdict() const;

  const YcsbOptions& options_;
  Context* context_;
  std::unique_ptr<Target> target_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<YcsbCell> cells_;
};

// "SRS32": k = 3, m = 2.
absl::StatusOr<protocol::MemgestDescriptor> YcsbBench::Descriptor() const {
  absl::string_view digits = options_.memgest;
  const bool named = absl::ConsumePrefix(&digits, "SRS") && digits.size() == 2 &&
                     absl::ascii_isdigit(digits[0]) && absl::ascii_isdigit(digits[1]);
  if (!named) {
    return absl::InvalidArgumentError(
        absl::StrCat("memgest=", options_.memgest, " must be SRS and two digits, such as SRS32"));
  }
  protocol::MemgestDescriptor memgest;
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.r = 0;
  memgest.k = static_cast<std::uint8_t>(digits[0] - '0');
  memgest.m = static_cast<std::uint8_t>(digits[1] - '0');
  memgest.block_size = options_.block_size;
  if (memgest.block_size == 0) {
    memgest.block_size = protocol::kBlockSizeMin;
    while (memgest.block_size < options_.value_size) memgest.block_size *= 2;
  }
  if (memgest.block_size < options_.value_size)
    return absl::InvalidArgumentError("a value that is decoded must fit a block");
  return memgest;
}

// A memgest for each repair scheme, and keys of its own for each of its workloads.
absl::Status YcsbBench::Prepare() {
  RING_ASSIGN_OR_RETURN(protocol::MemgestDescriptor memgest, Descriptor());
  TargetOptions target = options_.target;
  target.in_process = true;  // whose nodes' counters are read
  target.fault_injection = true;
  target.s = std::max<int>(memgest.k, 3);
  target.d = std::max<int>(memgest.m, 2);
  RING_ASSIGN_OR_RETURN(target_, Target::Start(target));
  for (std::size_t i = 0; i < options_.clients; ++i) {
    RING_ASSIGN_OR_RETURN(auto client,
                          target_->NewClient(std::max<std::size_t>(options_.pipeline, 32)));
    clients_.push_back(std::move(client));
  }
  std::uint16_t space = 0;
  std::uint64_t seq = 0;
  for (const protocol::RepairScheme repair : options_.repairs) {
    memgest.repair = repair;
    memgest.name = absl::StrCat(options_.memgest, "-", protocol::RepairName(repair));
    RING_ASSIGN_OR_RETURN(const protocol::MemgestDescriptor made,
                          target_->admin()->CreateMemgest({"ring-bench", ++seq}, memgest));
    for (const std::string& workload : options_.workloads) {
      YcsbCell& cell = cells_.emplace_back();
      cell.workload = workload;
      cell.repair = std::string(protocol::RepairName(repair));
      cell.id = made.id;
      cell.key_space = ++space;
      const LoadOptions load{.memgest = cell.id,
                             .key_space = cell.key_space,
                             .key_count = options_.key_count,
                             .value_size = options_.value_size,
                             .progress = context_->progress};
      RING_RETURN_IF_ERROR(Load(clients_.front().get(), "loading", load));
    }
  }
  // Those of a workload side by side, so that each round runs them in turn.
  std::stable_sort(cells_.begin(), cells_.end(),
                   [](const YcsbCell& a, const YcsbCell& b) { return a.workload < b.workload; });
  return absl::OkStatus();
}

absl::StatusOr<node::NodeStats> YcsbBench::Counts() {
  RING_ASSIGN_OR_RETURN(const node::ClusterStats stats, target_->admin()->GetStats());
  node::NodeStats sum;
  for (const node::NodeStats& node : stats.nodes) {
    sum.degraded_gets += node.degraded_gets;
    sum.blocks_decoded += node.blocks_decoded;
  }
  return sum;
}

absl::Status YcsbBench::RunCell(YcsbCell* cell, int round) {
  LoopOptions loop;
  loop.memgest = cell->id;
  loop.key_space = cell->key_space;
  loop.key_count = options_.key_count;
  loop.value_size = options_.value_size;
  loop.read_ratio = ReadRatios().at(cell->workload);
  loop.distribution = Distribution::kZipfian;
  loop.degraded = options_.degraded;
  loop.pipeline = options_.pipeline;
  loop.seconds = options_.seconds;
  std::vector<std::unique_ptr<ClientLoop>> loops;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    loop.seed = static_cast<std::uint64_t>(round) * 1000 + i + 1;
    loops.push_back(std::make_unique<ClientLoop>(clients_[i].get(), loop));
  }
  RING_ASSIGN_OR_RETURN(const node::NodeStats before, Counts());
  const std::vector<LoopResult> results = ClientLoop::Run(loops);
  RING_ASSIGN_OR_RETURN(const node::NodeStats after, Counts());
  cell->counted += after.degraded_gets - before.degraded_gets;
  cell->decoded += after.blocks_decoded - before.blocks_decoded;
  Histogram degraded, updates;
  for (const LoopResult& result : results) {
    degraded.Merge(result.degraded);
    updates.Merge(result.puts);
    cell->answered += result.degraded_answered;
  }
  cell->AddRound(results, options_.seconds);
  cell->degraded.Merge(degraded);
  cell->degraded_p50s.push_back(static_cast<double>(degraded.Percentile(50)));
  cell->update_p50s.push_back(static_cast<double>(updates.Percentile(50)));
  return absl::OkStatus();
}

void YcsbBench::Report() {
  std::vector<Row> rows;
  for (const YcsbCell& cell : cells_) {
    Row row;
    row["workload"] = cell.workload;
    row["repair"] = cell.repair;
    row["ops_per_second"] = Median(cell.rates);
    const std::pair<const char*, const Histogram*> kinds[] = {
        {"read", &cell.gets}, {"degraded", &cell.degraded}, {"update", &cell.puts}};
    for (const auto& [name, histogram] : kinds) {
      for (const int percentile : {50, 99}) {
        Row& place = row[absl::StrCat(name, " p", percentile, "_ns")];
        if (histogram->count() > 0) place = histogram->Percentile(percentile);
      }
      row[absl::StrCat(".", name, "_mean_ns")] = histogram->Mean();
      row[absl::StrCat(".", name, "_count")] = histogram->count();
    }
    row["degraded reads"] = cell.answered;
    row["counted"] = cell.counted;
    row["blocks decoded"] = cell.decoded;
    row[".ops_per_second_by_round"] = cell.rates;
    row[".degraded_p50_ns_by_round"] = cell.degraded_p50s;
    row[".update_p50_ns_by_round"] = cell.update_p50s;
    rows.push_back(std::move(row));
  }
  context_->report.AddSection(
      absl::StrFormat("ycsb: %s, %d B values, %d keys, %d client(s), pipeline %d, zipfian, "
                      "transport %s; degraded reads %.4g of the reads, Weibull shape %.3g scale "
                      "%.4g reads",
                      options_.memgest, options_.value_size, options_.key_count, options_.clients,
                      options_.pipeline, Target::TransportInUse(*clients_.front()),
                      options_.degraded.share, options_.degraded.shape,
                      options_.degraded.share > 0 ? WeibullScale(options_.degraded) : 0.0),
      rows);
}

// Each degraded read is one that a coordinator answered with a block that a parity node decoded; it
// answers, and counts, a read again that is sent again.
absl::Status YcsbBench::Verdict() const {
  for (const YcsbCell& cell : cells_) {
    const std::string where = absl::StrCat("workload=", cell.workload, " repair=", cell.repair);
    RING_RETURN_IF_ERROR(cell.Verdict(where));
    if (cell.counted < cell.answered || cell.decoded < cell.answered) {
      return absl::InternalError(absl::StrCat(where, ": degraded reads=", cell.answered,
                                              " counted=", cell.counted,
                                              " blocks decoded=", cell.decoded));
    }
  }
  return absl::OkStatus();
}

absl::Status YcsbBench::Run() {
  if (!options_.target.seeds.empty()) {
    return absl::InvalidArgumentError(
        "--seeds: a cluster of its own is needed, whose nodes' counters can be read");
  }
  RING_RETURN_IF_ERROR(Prepare());
  for (int round = 0; round < options_.rounds; ++round) {
    for (YcsbCell& cell : cells_) RING_RETURN_IF_ERROR(RunCell(&cell, round));
  }
  Report();
  if (options_.target.pin) Target::Unpin();
  return Verdict();
}

void AddDegradedOptions(CLI::App* command, DegradedOptions* options) {
  command->add_option("--degraded", options->share, "Degraded reads, as a share of the reads")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--weibull-shape", options->shape,
                   "Of the distribution of the reads between two degraded ones")
      ->check(CLI::Range(0.1, 10.0))
      ->capture_default_str();
  command
      ->add_option("--weibull-scale", options->scale,
                   "... in reads of a client; 0: so that the share comes out")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void AddWorkOptions(CLI::App* command, YcsbOptions* options) {
  command->add_option("--workload", options->workloads, "A: half updates, B: 5 %, C: none")
      ->delimiter(',')
      ->check(CLI::IsMember({"A", "B", "C"}))
      ->capture_default_str();
  command->add_option("--memgest", options->memgest, "SRS and k and m, each one digit")
      ->capture_default_str();
  command->add_option("--repair", options->repairs, "Compared in this run, A B A B")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(tools::RepairNames()))
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(8u, protocol::kBlockSizeMax))
      ->capture_default_str();
  tools::AddSizeOption(command, "--block-size", options->block_size,
                       "Of the memgests; 0: the least that holds a value")
      ->check(CLI::Range(0u, protocol::kBlockSizeMax))
      ->capture_default_str();
  command->add_option("--key-count", options->key_count, "Keys of each workload and scheme")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--clients", options->clients, "Clients, on one thread")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--pipeline", options->pipeline, "Operations under way of each client")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Of each measurement")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace

void AddYcsbCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<YcsbOptions>();
  CLI::App* command = app.add_subcommand(
      "ycsb", "YCSB's workloads with degraded reads: values decoded from other nodes' blocks");
  AddWorkOptions(command, options.get());
  AddDegradedOptions(command, &options->degraded);
  AddTargetOptions(command, &options->target);
  command->footer("The cluster runs in this process, its clients speak the transport asked for.");
  command->callback([options, context] { context->status = YcsbBench(*options, context).Run(); });
}

}  // namespace ring::bench
