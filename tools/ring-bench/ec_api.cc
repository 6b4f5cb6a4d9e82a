// ring-bench ec-api: the interfaces of erasure coding, beside ISA-L and Jerasure.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/status.h"
#include "tools/common/progress.h"
#include "tools/common/size_option.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/ec_coder.h"
#include "tools/ring-bench/ec_stripe.h"
#include "tools/ring-bench/rounds.h"

namespace ring::bench {
namespace {

struct EcApiOptions {
  std::size_t k = 6;
  std::size_t m = 3;
  std::vector<int> widths = {8};
  std::vector<std::string> matrices = {"vandermonde"};
  std::vector<std::size_t> chunks = {4096, 65536};
  std::vector<std::string> apis = {"sync", "async", "eco"};
  std::vector<std::string> peers = {"isal", "jerasure"};
  bool peers_named = false;  // on the command line: then one that is not there is an error
  int max_inflight = 32;
  Rounds rounds = {15, 10};
};

// A coder that takes part, and what its rounds found.
struct Entrant {
  std::string name;
  EcCode code;
  std::unique_ptr<EcCoder> coder;
  std::vector<double> rounds_ns = {};  // of one operation
  int count = 1;                       // operations of a round
};

using Operation = absl::Status (EcCoder::*)(int);

absl::StatusOr<double> TimeNs(Entrant& entrant, Operation operation) {
  const std::uint64_t start = tools::MonotonicNs();
  RING_RETURN_IF_ERROR((entrant.coder.get()->*operation)(entrant.count));
  return static_cast<double>(tools::MonotonicNs() - start);
}

class EcApiBench {
 public:
  EcApiBench(const EcApiOptions& options, Context* context)
      : options_(options), context_(context) {}
  absl::Status Run();

 private:
  bool Has(const std::vector<std::string>& list, const std::string& name) const {
    return absl::c_linear_search(list, name);
  }
  absl::Status RunSection(int w, EcMatrix matrix, tools::Progress* progress);
  absl::Status RunChunk(const EcCode& code, std::size_t chunk, std::vector<Row>* rows);
  absl::Status RunStripe(const EcCode& code, EcStripe* stripe, std::vector<Row>* rows);
  absl::Status AddPeers(const EcCode& code, EcStripe* stripe);
  absl::Status AddApis(const EcCode& code, EcStripe* stripe);
  absl::Status Check(EcStripe* stripe);
  // Operations of a round that take about options.rounds.milliseconds, found by trying.
  absl::Status Calibrate(Operation operation);
  absl::Status Measure(Operation operation);
  void Report(absl::string_view operation, std::size_t chunk, std::vector<Row>* rows) const;

  const EcApiOptions& options_;
  Context* context_;
  std::unique_ptr<EcDevice> device_;
  bool jerasure_missing_ = false;
  std::vector<Entrant> entrants_;
  std::optional<std::size_t> isal_, jerasure_;  // which entrant
};

absl::Status EcApiBench::AddPeers(const EcCode& code, EcStripe* stripe) {
  if (Has(options_.peers, "isal")) {
    // ISA-L has no other field: the same code shape over GF(2^8), which is the same work.
    RING_ASSIGN_OR_RETURN(EcCode isal_code, EcCode::Create(code.k, code.m, 8, code.matrix));
    isal_ = entrants_.size();
    std::unique_ptr<EcCoder> coder = MakeIsalCoder(isal_code, stripe);
    entrants_.push_back({.name = code.w == 8 ? "ISA-L" : "ISA-L, tables of w = 8",
                         .code = std::move(isal_code),
                         .coder = std::move(coder)});
  }
  if (Has(options_.peers, "jerasure") && !jerasure_missing_) {
    auto coder = MakeJerasureCoder(code, stripe);
    if (absl::IsNotFound(coder.status()) && !options_.peers_named) {
      jerasure_missing_ = true;
      context_->report.AddNote(absl::StrCat(coder.status().message(), ": it is left out"));
      return absl::OkStatus();
    }
    RING_RETURN_IF_ERROR(coder.status());
    jerasure_ = entrants_.size();
    entrants_.push_back({.name = code.w == 8 ? "Jerasure" : "GF-Complete, Jerasure's matrix",
                         .code = code,
                         .coder = *std::move(coder)});
  }
  return absl::OkStatus();
}

absl::Status EcApiBench::AddApis(const EcCode& code, EcStripe* stripe) {
  const auto add_verbs = [&](std::string name, EcManner manner) -> absl::Status {
    RING_ASSIGN_OR_RETURN(
        auto coder, MakeVerbsCoder(code, stripe, device_.get(), manner, options_.max_inflight));
    entrants_.push_back({.name = std::move(name), .code = code, .coder = std::move(coder)});
    return absl::OkStatus();
  };
  for (const std::string& api : options_.apis) {
    if (api == "sync") {
      RING_RETURN_IF_ERROR(add_verbs("ibv_exp_ec sync", EcManner::kSync));
    } else if (api == "async") {
      RING_RETURN_IF_ERROR(add_verbs("ibv_exp_ec async, thread", EcManner::kThread));
      RING_RETURN_IF_ERROR(add_verbs("ibv_exp_ec async, polling", EcManner::kPoll));
    } else {
      RING_ASSIGN_OR_RETURN(auto coder, MakeEcoCoder(code, stripe));
      entrants_.push_back({.name = "mlx_eco", .code = code, .coder = std::move(coder)});
    }
  }
  return absl::OkStatus();
}

absl::Status EcApiBench::Check(EcStripe* stripe) {
  for (Entrant& entrant : entrants_) {
    absl::Status status =
        stripe->CheckEncode(entrant.code, [&] { return entrant.coder->Encode(1); });
    const char* what = "encode";
    if (status.ok()) {
      status = stripe->CheckDecode(entrant.code, [&] { return entrant.coder->Decode(1); });
      what = "decode";
    }
    if (!status.ok()) {
      return {status.code(), absl::StrCat(entrant.name, ", ", what, ": ", status.message())};
    }
  }
  return absl::OkStatus();
}

absl::Status EcApiBench::Calibrate(Operation operation) {
  constexpr int kCountMax = 1 << 24;
  const double wanted_ns = options_.rounds.milliseconds * 1e6;
  for (Entrant& entrant : entrants_) {
    entrant.rounds_ns.clear();
    entrant.count = 1;
    for (;;) {
      RING_ASSIGN_OR_RETURN(const double ns, TimeNs(entrant, operation));
      const double each_ns = std::max(1.0, ns) / entrant.count;
      if (ns >= wanted_ns / 4 || entrant.count >= kCountMax / 2) {
        const double count = std::clamp(wanted_ns / each_ns, 1.0, double{kCountMax});
        entrant.count = static_cast<int>(std::lround(count));
        break;
      }
      entrant.count *= 2;
    }
  }
  return absl::OkStatus();
}

absl::Status EcApiBench::Measure(Operation operation) {
  RING_RETURN_IF_ERROR(Calibrate(operation));
  for (int round = 0; round < options_.rounds.count; ++round) {
    for (Entrant& entrant : entrants_) {
      RING_ASSIGN_OR_RETURN(const double ns, TimeNs(entrant, operation));
      entrant.rounds_ns.push_back(ns / entrant.count);
    }
  }
  return absl::OkStatus();
}

void EcApiBench::Report(absl::string_view operation, std::size_t chunk,
                        std::vector<Row>* rows) const {
  for (const Entrant& entrant : entrants_) {
    const double median = Median(entrant.rounds_ns);
    Row row;
    row["interface"] = entrant.name;
    row["op"] = std::string(operation);
    row["block_bytes"] = chunk;
    row["time_ns"] = median;
    row["lowest_ns"] = *absl::c_min_element(entrant.rounds_ns);
    row["highest_ns"] = *absl::c_max_element(entrant.rounds_ns);
    row["data_bytes_per_second"] = static_cast<double>(options_.k * chunk) / median * 1e9;
    if (isal_.has_value())
      row["to ISA-L_ratio"] = RoundRatio(entrants_[*isal_].rounds_ns, entrant.rounds_ns);
    if (jerasure_.has_value()) {
      row["to Jerasure_ratio"] = RoundRatio(entrants_[*jerasure_].rounds_ns, entrant.rounds_ns);
    }
    row[".rounds_ns"] = entrant.rounds_ns;
    row[".operations_a_round"] = entrant.count;
    rows->push_back(row);
  }
}

absl::Status EcApiBench::RunChunk(const EcCode& code, std::size_t chunk, std::vector<Row>* rows) {
  EcStripe stripe(code, chunk);
  const absl::Status status = RunStripe(code, &stripe, rows);
  // Whatever came of it: their regions are of the stripe's memory.
  entrants_.clear();
  return status;
}

absl::Status EcApiBench::RunStripe(const EcCode& code, EcStripe* stripe, std::vector<Row>* rows) {
  isal_.reset();
  jerasure_.reset();
  RING_RETURN_IF_ERROR(AddPeers(code, stripe));
  RING_RETURN_IF_ERROR(AddApis(code, stripe));
  RING_RETURN_IF_ERROR(Check(stripe));
  RING_RETURN_IF_ERROR(Measure(&EcCoder::Encode));
  Report("encode", stripe->block_size(), rows);
  RING_RETURN_IF_ERROR(Measure(&EcCoder::Decode));
  Report("decode", stripe->block_size(), rows);
  return absl::OkStatus();
}

absl::Status EcApiBench::RunSection(int w, EcMatrix matrix, tools::Progress* progress) {
  RING_ASSIGN_OR_RETURN(const EcCode code, EcCode::Create(options_.k, options_.m, w, matrix));
  std::vector<Row> rows;
  for (const std::size_t chunk : options_.chunks) {
    RING_RETURN_IF_ERROR(RunChunk(code, chunk, &rows));
    progress->Advance();
  }
  context_->report.AddSection(
      absl::StrFormat("%d + %d blocks, w = %d, %s; decode of the first %d data blocks", options_.k,
                      options_.m, w, matrix == EcMatrix::kVandermonde ? "Vandermonde" : "Cauchy",
                      code.erased_count),
      rows);
  return absl::OkStatus();
}

absl::Status EcApiBench::Run() {
  if (Has(options_.apis, "sync") || Has(options_.apis, "async")) {
    RING_ASSIGN_OR_RETURN(device_, OpenEcDevice());
    context_->report.AddNote(absl::StrFormat("ibv_exp_ec on device %s; async: %d under way",
                                             device_->name(), options_.max_inflight));
  }
  tools::Progress progress(
      "coding", options_.widths.size() * options_.matrices.size() * options_.chunks.size(),
      context_->progress);
  for (const int w : options_.widths) {
    for (const std::string& name : options_.matrices) {
      const EcMatrix matrix = name == "cauchy" ? EcMatrix::kCauchy : EcMatrix::kVandermonde;
      RING_RETURN_IF_ERROR(RunSection(w, matrix, &progress));
    }
  }
  return absl::OkStatus();
}

// What no check of one option alone finds.
void CheckOptions(const EcApiOptions& options) {
  for (const std::size_t chunk : options.chunks) {
    if (chunk % 64 != 0) {
      throw CLI::ValidationError("--chunk", absl::StrCat(chunk, " is no multiple of 64"));
    }
  }
  for (const int w : options.widths) {
    if (options.k + options.m > (std::size_t{1} << w)) {
      throw CLI::ValidationError(
          "--k, --m", absl::StrFormat("%d + %d blocks are more than w = %d has elements, %d",
                                      options.k, options.m, w, 1 << w));
    }
  }
}

void AddMeasureOptions(CLI::App* command, EcApiOptions* options) {
  command
      ->add_option("--max-inflight", options->max_inflight,
                   "Operations under way of an asynchronous interface")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddRoundOptions(command, &options->rounds);
}

}  // namespace

void AddEcApiCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<EcApiOptions>();
  CLI::App* command = app.add_subcommand(
      "ec-api", "The interfaces of erasure coding (ibv_exp_ec, mlx_eco) against ISA-L, Jerasure");
  command->add_option("--k", options->k, "Data blocks")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  command->add_option("--m", options->m, "Parity blocks")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  command->add_option("--w", options->widths, "Fields GF(2^w)")
      ->delimiter(',')
      ->check(CLI::IsMember({4, 8}))
      ->capture_default_str();
  command->add_option("--matrix", options->matrices, "Jerasure's vandermonde, cauchy")
      ->delimiter(',')
      ->check(CLI::IsMember({"vandermonde", "cauchy"}))
      ->capture_default_str();
  tools::AddSizeOption(command, "--chunk", options->chunks, "Bytes of a block, multiples of 64")
      ->delimiter(',')
      ->check(CLI::Range(64, 16 << 20))
      ->capture_default_str();
  command->add_option("--api", options->apis, "Interfaces: sync, async (thread and polling), eco")
      ->delimiter(',')
      ->check(CLI::IsMember({"sync", "async", "eco"}))
      ->capture_default_str();
  CLI::Option* const peers = command->add_option("--vs", options->peers, "Peers: isal, jerasure")
                                 ->delimiter(',')
                                 ->check(CLI::IsMember({"isal", "jerasure"}))
                                 ->capture_default_str();
  AddMeasureOptions(command, options.get());
  command->footer(
      "Every interface's bytes are compared with sums made one byte at a time before anything is\n"
      "measured. With w = 4, ISA-L runs the same code shape over its own field, GF(2^8), and\n"
      "Jerasure's part is GF-Complete's region multiply. Jerasure is loaded when the program\n"
      "runs: where it is not installed it is left out, or an error where --vs names it.");
  command->callback([options, context, peers] {
    CheckOptions(*options);
    options->peers_named = peers->count() > 0;
    context->status = EcApiBench(*options, context).Run();
  });
}

}  // namespace ring::bench
