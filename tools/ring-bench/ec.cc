// ring-bench ec: INEC's schemes and primitives, coherent and incoherent, over NICs with threads of
// their own.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/graph/threaded_run.h"
#include "ring/base/histogram.h"
#include "ring/base/random.h"
#include "ring/base/status.h"
#include "tools/common/progress.h"
#include "tools/common/size_option.h"
#include "tools/ring-bench/alpha_beta.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/ec_graphs.h"
#include "tools/ring-bench/rounds.h"

namespace ring::bench {
namespace {

using ec_offload::ChunkPlace;
using ec_offload::Graph;
using ec_offload::GraphLink;
using ec_offload::InecThresholds;
using ec_offload::InecWay;
using ec_offload::StripeMemory;
using ec_offload::ThreadedRun;
using ec_offload::ThreadedRunCounters;

constexpr std::uint64_t kRunTimeoutNs = 30'000'000'000;
constexpr std::uint64_t kRunsMax = 2000;  // of a round

struct EcOptions {
  EcWork work;
  std::vector<std::size_t> chunks;
  std::vector<std::string> modes = {"incoherent", "coherent"};
  std::string link = "local";
  bool busy = false;
  int busy_slice_us = 50;
  bool fit = false;
  Rounds rounds = {8, 50};
};

// A mode that takes part, and what its rounds found.
struct Entrant {
  std::string mode;
  std::unique_ptr<ThreadedRun> run;
  Histogram latency = {};
  std::vector<double> rounds_ns = {};  // of one operation, each
  ThreadedRunCounters before = {};
};

InecThresholds ThresholdsOf(const std::string& mode) {
  if (mode == "coherent") return InecThresholds::Always(InecWay::kCoherent);
  if (mode == "incoherent") return InecThresholds::Always(InecWay::kIncoherent);
  return ec_offload::MeasuredThresholds();
}

GraphLink LinkOf(const std::string& name) {
  if (name == "shm") return GraphLink::kShm;
  return name == "tcp" ? GraphLink::kTcp : GraphLink::kLocal;
}

class EcBench {
 public:
  EcBench(const EcOptions& options, Context* context) : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::Status RunChunk(std::size_t chunk);
  absl::Status Open(const Graph& graph);
  absl::Status Check(const Graph& graph, const StripeMemory& expected);
  absl::Status Measure();
  void Report(std::size_t chunk);
  void ReportFit();

  const EcOptions& options_;
  Context* context_;
  SeededRandom random_{1};
  std::vector<Entrant> entrants_;
  std::size_t node_count_ = 0;
  std::vector<Row> rows_;
  std::map<std::string, std::vector<SizeAndTime>> medians_;  // by mode
};

absl::Status EcBench::Open(const Graph& graph) {
  for (const std::string& mode : options_.modes) {
    ec_offload::ThreadedRunOptions options;
    options.link = LinkOf(options_.link);
    options.thresholds = ThresholdsOf(mode);
    if (options_.busy)
      options.busy_slice_ns = static_cast<std::uint64_t>(options_.busy_slice_us) * 1000;
    RING_ASSIGN_OR_RETURN(std::unique_ptr<ThreadedRun> run, ThreadedRun::Create(graph, options));
    node_count_ = run->node_count();
    entrants_.push_back({.mode = mode, .run = std::move(run)});
  }
  return absl::OkStatus();
}

absl::Status EcBench::Check(const Graph& graph, const StripeMemory& expected) {
  for (Entrant& entrant : entrants_) {
    for (const ChunkPlace& place : graph.sources())
      absl::c_copy(expected.at(place), entrant.run->chunk(place).begin());
    RING_RETURN_IF_ERROR(entrant.run->Run(kRunTimeoutNs).status());
    for (const ChunkPlace& place : graph.results()) {
      if (absl::c_equal(expected.at(place), entrant.run->chunk(place))) continue;
      return absl::DataLossError(absl::StrFormat("%s, %d bytes: chunk %d at node %d is wrong",
                                                 entrant.mode, graph.chunk_size(), place.chunk,
                                                 place.node));
    }
  }
  return absl::OkStatus();
}

// Rounds take turns: what slows a while slows all modes.
absl::Status EcBench::Measure() {
  std::vector<std::uint64_t> counts;
  for (Entrant& entrant : entrants_) {
    std::uint64_t runs = 0;
    std::uint64_t total_ns = 0;
    const std::uint64_t wanted_ns =
        static_cast<std::uint64_t>(options_.rounds.milliseconds) * 1'000'000;
    while (runs < 3 || (total_ns < wanted_ns / 4 && runs < kRunsMax)) {
      RING_ASSIGN_OR_RETURN(const std::uint64_t ns, entrant.run->Run(kRunTimeoutNs));
      total_ns += ns;
      ++runs;
    }
    counts.push_back(std::clamp<std::uint64_t>(wanted_ns * runs / total_ns, 1, kRunsMax));
    entrant.before = entrant.run->counters();
  }
  for (int round = 0; round < options_.rounds.count; ++round) {
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      std::uint64_t total_ns = 0;
      for (std::uint64_t run = 0; run < counts[i]; ++run) {
        RING_ASSIGN_OR_RETURN(const std::uint64_t ns, entrants_[i].run->Run(kRunTimeoutNs));
        entrants_[i].latency.Record(ns);
        total_ns += ns;
      }
      entrants_[i].rounds_ns.push_back(static_cast<double>(total_ns) /
                                       static_cast<double>(counts[i]));
    }
  }
  return absl::OkStatus();
}

void EcBench::Report(std::size_t chunk) {
  const auto baseline = absl::c_find_if(
      entrants_, [](const Entrant& entrant) { return entrant.mode == "incoherent"; });
  const auto generated = static_cast<double>(GeneratedChunks(options_.work) * chunk);
  for (const Entrant& entrant : entrants_) {
    const ThreadedRunCounters after = entrant.run->counters();
    const auto runs = static_cast<double>(after.runs - entrant.before.runs);
    const auto each = [&](std::uint64_t ThreadedRunCounters::*counter) {
      return static_cast<double>(after.*counter - entrant.before.*counter) / runs;
    };
    Row row;
    row["mode"] = entrant.mode;
    row["chunk_bytes"] = chunk;
    row["p50_ns"] = entrant.latency.Percentile(50);
    row["p99_ns"] = entrant.latency.Percentile(99);
    row["generated_bytes_per_second"] = generated / entrant.latency.Mean() * 1e9;
    row["interventions"] = each(&ThreadedRunCounters::interventions);
    row["submits"] = each(&ThreadedRunCounters::submits);
    row["posts"] = each(&ThreadedRunCounters::posts);
    row["polls"] = each(&ThreadedRunCounters::polls);
    row["wake-ups"] = each(&ThreadedRunCounters::wakeups);
    if (baseline != entrants_.end()) {
      row["to incoherent_ratio"] = RoundRatio(baseline->rounds_ns, entrant.rounds_ns);
    }
    row[".operations"] = runs;
    row[".mean_ns"] = entrant.latency.Mean();
    row[".p95_ns"] = entrant.latency.Percentile(95);
    row[".rounds_ns"] = entrant.rounds_ns;
    rows_.push_back(row);
    medians_[entrant.mode].push_back(
        {static_cast<double>(chunk), static_cast<double>(entrant.latency.Percentile(50))});
  }
}

absl::Status EcBench::RunChunk(std::size_t chunk) {
  RING_ASSIGN_OR_RETURN(const Graph graph, MakeEcGraph(options_.work, chunk));
  RING_RETURN_IF_ERROR(Open(graph));
  {
    StripeMemory expected;
    for (const ChunkPlace& place : graph.sources()) {
      std::vector<std::byte>& bytes = expected[place];
      bytes.resize(chunk);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.Next64());
    }
    RING_RETURN_IF_ERROR(RunInMemory(graph, expected));
    RING_RETURN_IF_ERROR(Check(graph, expected));
  }
  RING_RETURN_IF_ERROR(Measure());
  Report(chunk);
  return absl::OkStatus();
}

void EcBench::ReportFit() {
  std::vector<Row> rows;
  for (const std::string& mode : options_.modes) {
    const AlphaBeta fit = FitAlphaBeta(medians_.at(mode));
    Row row;
    row["mode"] = mode;
    row["beta_ns"] = fit.beta;
    row["alpha, ns a KiB"] = fit.alpha * 1024;
    row["bandwidth_bytes_per_second"] = 1e9 / fit.alpha;
    row["worst error_percent"] = fit.worst_error * 100;
    rows.push_back(row);
  }
  context_->report.AddSection("median latency = alpha c + beta, least squares of relative errors",
                              rows);
  rows.clear();
  for (const TableTerms& terms : TableTermsOf(options_.work)) {
    Row row;
    row["primitive"] = terms.primitive;
    row["operations, O of"] = terms.operations;
    row["communication"] = terms.communication;
    row["states, more"] = terms.states;
    row["CPU involvement, less"] = terms.cpu_involvement;
    row["DMA, less"] = terms.dma;
    rows.push_back(row);
  }
  context_->report.AddSection("what INEC's table I says of it", rows);
}

absl::Status EcBench::Run() {
  tools::Progress progress("coding", options_.chunks.size(), context_->progress);
  for (const std::size_t chunk : options_.chunks) {
    const absl::Status status = RunChunk(chunk);
    entrants_.clear();
    RING_RETURN_IF_ERROR(status);
    progress.Advance();
  }
  progress.Finish();
  context_->report.AddSection(
      absl::StrFormat("%s; %s link, %d nodes%s; sums over all nodes, of one operation",
                      EcWorkName(options_.work), options_.link, node_count_,
                      options_.busy ? ", whose hosts do other work" : ""),
      rows_);
  if (options_.fit) ReportFit();
  return absl::OkStatus();
}

// What no check of one option alone finds.
void CheckOptions(EcOptions* options) {
  EcWork& work = options->work;
  if (work.scheme.empty() && work.primitive.empty()) work.scheme = "rs";
  if (work.scheme == "lrc" && (work.l == 0 || work.k % work.l != 0)) {
    throw CLI::ValidationError(
        "--l", absl::StrFormat("%d groups do not divide %d data chunks", work.l, work.k));
  }
  if (options->fit && options->chunks.size() < 2)
    throw CLI::ValidationError("--fit", "wants two sizes at least (--chunk)");
}

std::vector<std::size_t> DefaultChunks() {
  std::vector<std::size_t> chunks;
  for (std::size_t size = 128; size <= std::size_t{16} << 20; size *= 2) chunks.push_back(size);
  return chunks;
}

void AddWorkOptions(CLI::App* command, EcWork* work) {
  CLI::Option* const scheme = command->add_option("--scheme", work->scheme, "Default: rs")
                                  ->check(CLI::IsMember({"rs", "lrc", "ppr", "ecpipe", "triec"}));
  command->add_option("--primitive", work->primitive, "One primitive alone: k chunks, m outputs")
      ->check(CLI::IsMember({"ec-send", "recv-ec-send", "recv-ec"}))
      ->excludes(scheme);
  command->add_option("--k", work->k, "Data chunks")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command->add_option("--m", work->m, "Parities; of lrc the global ones")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_option("--l", work->l, "lrc: groups")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_option("--op", work->operation, "encode, decode")
      ->check(CLI::IsMember({"encode", "decode"}))
      ->capture_default_str();
  command->add_option("--losses", work->losses, "decode: lost chunks, from the first one on")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  tools::AddSizeOption(command, "--slice", work->slice_size, "ecpipe: bytes of a slice")
      ->check(CLI::Range(64, 16 << 20))
      ->capture_default_str();
}

void AddMeasureOptions(CLI::App* command, EcOptions* options) {
  command->add_option("--mode", options->modes, "coherent, incoherent, hybrid")
      ->delimiter(',')
      ->check(CLI::IsMember({"coherent", "incoherent", "hybrid"}))
      ->capture_default_str();
  command->add_option("--link", options->link, "Between the nodes: local, shm, tcp")
      ->check(CLI::IsMember({"local", "shm", "tcp"}))
      ->capture_default_str();
  command->add_flag("--busy", options->busy, "Host threads do other work while they wait");
  command
      ->add_option("--busy-slice", options->busy_slice_us, "Microseconds of it between two looks")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_flag("--fit", options->fit, "Fit latency = alpha c + beta to each mode");
  AddRoundOptions(command, &options->rounds);
}

}  // namespace

void AddEcCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<EcOptions>();
  options->work.operation = "encode";
  options->chunks = DefaultChunks();
  CLI::App* command = app.add_subcommand(
      "ec", "INEC's schemes (RS, LRC, PPR, ECPipe, TriEC), coherent against incoherent");
  AddWorkOptions(command, &options->work);
  tools::AddSizeOption(command, "--chunk", options->chunks,
                       "Bytes of a chunk; default 128 to 16 MiB")
      ->delimiter(',')
      ->check(CLI::Range(1, 64 << 20));
  AddMeasureOptions(command, options.get());
  command->footer(
      "Every node is a host thread and a NIC with a thread of its own. Latency is from the first\n"
      "post to the last node's end; every mode's bytes are compared with a run in memory, once "
      "for\n"
      "each size. Generated bytes a second are INEC's bandwidth: of parities, or of what was\n"
      "lost. An intervention is a turn of a host without which the operation stands still.\n"
      "With --busy host threads compute something else for --busy-slice at a time, at the lowest\n"
      "priority: a real NIC shares no processor with its host.");
  command->callback([options, context] {
    CheckOptions(options.get());
    context->status = EcBench(*options, context).Run();
  });
}

}  // namespace ring::bench
