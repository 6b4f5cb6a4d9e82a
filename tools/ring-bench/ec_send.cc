// ring-bench ec-send: INEC's ec-send against the bare calculation, by ISA-L and Jerasure.
//
// One thread is host and NIC: a queue pair over the local link, WRITEs into another device's
// memory. So what a NIC moves by itself elsewhere is copied by the processor that calculates, and
// ISA-L with a memcpy of the same bytes behind it is the floor here.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ec_offload/block_calculator.h"
#include "ec_offload/inec/primitives.h"
#include "rdma/soft/soft_device.h"
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

using ec_offload::InecPrimitives;
using ec_offload::InecThresholds;
using ec_offload::InecWay;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct EcSendOptions {
  std::size_t k = 6;
  std::size_t m = 3;
  std::vector<std::size_t> chunks = {4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288};
  Rounds rounds = {15, 20};
};

// The agent and who is written to, on this thread.
class SendPair {
 public:
  static absl::StatusOr<std::unique_ptr<SendPair>> Open(std::size_t bytes) {
    std::unique_ptr<SendPair> pair(new SendPair);
    RING_RETURN_IF_ERROR(pair->OpenSide(bytes, rdma::kLocalOnly, &pair->agent_));
    RING_RETURN_IF_ERROR(pair->OpenSide(bytes, rdma::kRemoteWrite, &pair->sink_));
    RING_ASSIGN_OR_RETURN(pair->idle_cq_, pair->agent_.device->CreateCompletionQueue(64));
    RING_ASSIGN_OR_RETURN(pair->sink_cq_, pair->sink_.device->CreateCompletionQueue(64));
    return pair;
  }
  ~SendPair() {
    near_.clear();
    far_.clear();
    inec_.reset();
  }

  // Primitives of this way, and connections to the sink.
  absl::Status Start(InecWay way, std::size_t channels) {
    RING_ASSIGN_OR_RETURN(const std::string own, agent_.device->Listen(FreshName("agent")));
    RING_ASSIGN_OR_RETURN(inec_,
                          InecPrimitives::Create({.device = agent_.device.get(),
                                                  .address = own,
                                                  .thresholds = InecThresholds::Always(way)}));
    RING_ASSIGN_OR_RETURN(const std::string address, sink_.device->Listen(FreshName("sink")));
    for (std::size_t i = 0; i < channels; ++i) {
      RING_ASSIGN_OR_RETURN(auto qp, agent_.device->Connect(address,
                                                            {.send_cq = inec_->send_cq(),
                                                             .recv_cq = idle_cq_.get(),
                                                             .send_depth = 64,
                                                             .recv_depth = 1},
                                                            ""));
      near_.push_back(std::move(qp));
    }
    for (int turn = 0; turn < 10'000; ++turn) {
      RING_RETURN_IF_ERROR(Turn());
      const bool connected = absl::c_all_of(
          near_, [](const auto& qp) { return qp->state() == rdma::QpState::kReadyToSend; });
      if (connected && inec_->ready()) return absl::OkStatus();
    }
    return absl::DeadlineExceededError("the agent does not connect to its sink");
  }
  absl::Status Turn() {
    agent_.device->Progress();
    rdma::ConnectionEvent event;
    while (agent_.device->PollEvent(&event)) inec_->OnEvent(event);
    sink_.device->Progress();
    while (sink_.device->PollEvent(&event)) {
      if (event.kind != rdma::ConnectionEvent::Kind::kConnectRequest) continue;
      RING_ASSIGN_OR_RETURN(auto qp, sink_.device->Accept(event.request,
                                                          {.send_cq = sink_cq_.get(),
                                                           .recv_cq = sink_cq_.get(),
                                                           .send_depth = 1,
                                                           .recv_depth = 1},
                                                          ""));
      far_.push_back(std::move(qp));
    }
    inec_->Progress(0);
    return absl::OkStatus();
  }
  // Without looking for connections.
  void QuickTurn() {
    agent_.device->Progress();
    inec_->Progress(0);
  }

  InecPrimitives& inec() { return *inec_; }
  rdma::QueuePair* channel(std::size_t i) { return near_[i].get(); }
  std::byte* here() { return agent_.memory; }
  const std::byte* there() { return sink_.memory; }
  std::uint32_t lkey() const { return agent_.region->lkey(); }
  std::uint32_t rkey() const { return sink_.region->rkey(); }

 private:
  struct Side {
    std::unique_ptr<rdma::Device> device;
    std::byte* memory = nullptr;
    std::unique_ptr<rdma::MemoryRegion> region;
  };
  SendPair() = default;
  static std::string FreshName(absl::string_view end) {
    static int count = 0;
    return absl::StrCat("local:ec-send-", end, "-", ++count);
  }
  absl::Status OpenSide(std::size_t bytes, std::uint32_t access, Side* side) {
    rdma::SoftDeviceOptions options;
    options.name = FreshName("device");
    options.arena_size_max = 2 * bytes + 16 * kMiB;
    RING_ASSIGN_OR_RETURN(side->device, rdma::OpenSoftDevice(options));
    RING_ASSIGN_OR_RETURN(side->memory, side->device->Allocate(bytes, rdma::MemoryKind::kShared));
    RING_ASSIGN_OR_RETURN(side->region, side->device->Register(side->memory, bytes, access));
    return absl::OkStatus();
  }

  Side agent_, sink_;
  std::unique_ptr<rdma::CompletionQueue> idle_cq_, sink_cq_;
  std::unique_ptr<InecPrimitives> inec_;
  std::vector<std::unique_ptr<rdma::QueuePair>> near_, far_;
};

// ec-send of one stripe: the parities are calculated and written, and with `all` the data, too.
class EcSendCoder final : public EcCoder {
 public:
  static absl::StatusOr<std::unique_ptr<EcCoder>> Make(const EcCode& code, EcStripe* stripe,
                                                       InecWay way, bool all) {
    std::unique_ptr<EcSendCoder> coder(new EcSendCoder(code, stripe, all));
    RING_ASSIGN_OR_RETURN(coder->calculator_, ec_offload::MakeBlockCalculator(code.w, code.coding));
    RING_ASSIGN_OR_RETURN(coder->pair_, SendPair::Open((code.k + code.m) * coder->size_));
    RING_RETURN_IF_ERROR(coder->pair_->Start(way, all ? code.k + code.m : code.m));
    coder->MakeRequests();
    RING_RETURN_IF_ERROR(coder->Encode(1));
    // They are the stripe's parities, which ISA-L has made.
    for (std::size_t i = all ? 0 : code.k; i < code.k + code.m; ++i) {
      if (std::memcmp(coder->pair_->there() + i * coder->size_, stripe->Block(i), coder->size_) !=
          0)
        return absl::DataLossError(absl::StrCat("ec-send: chunk ", i, " arrived wrong"));
    }
    return coder;
  }
  absl::Status Encode(int count) override {
    for (int i = 0; i < count; ++i) {
      RING_RETURN_IF_ERROR(
          pair_->inec().EcSend(1, {calculator_.get()}, {inputs_, outputs_}, {channels_}));
      ec_offload::InecOutcome outcome;
      while (!pair_->inec().Take(&outcome)) pair_->QuickTurn();
      RING_RETURN_IF_ERROR(outcome.status);
    }
    return absl::OkStatus();
  }
  absl::Status Decode(int) override { return absl::UnimplementedError("it sends"); }

 private:
  EcSendCoder(const EcCode& code, EcStripe* stripe, bool all)
      : k_(code.k), m_(code.m), size_(stripe->block_size()), all_(all), stripe_(stripe) {}
  void MakeRequests() {
    sges_.resize(k_ + m_);
    requests_.resize(k_ + m_);
    for (std::size_t i = 0; i < k_ + m_; ++i) {
      std::byte* const place = pair_->here() + i * size_;
      if (i < k_) std::memcpy(place, stripe_->Block(i), size_);
      sges_[i] = {place, static_cast<std::uint32_t>(size_), pair_->lkey()};
      (i < k_ ? inputs_ : outputs_).push_back(sges_[i]);
      requests_[i].opcode = rdma::Opcode::kWrite;
      requests_[i].sges = absl::MakeConstSpan(&sges_[i], 1);
      requests_[i].remote_address = reinterpret_cast<std::uint64_t>(pair_->there() + i * size_);
      requests_[i].rkey = pair_->rkey();
      if (i < k_ && !all_) continue;
      channels_.push_back({pair_->channel(channels_.size()), &requests_[i], i >= k_});
    }
  }

  std::size_t k_, m_, size_;
  bool all_;
  EcStripe* stripe_;
  std::unique_ptr<rdma::Calculator> calculator_;
  std::unique_ptr<SendPair> pair_;
  std::vector<rdma::Sge> sges_, inputs_, outputs_;
  std::vector<rdma::WorkRequest> requests_;
  std::vector<ec_offload::InecChannel> channels_;
};

// ISA-L, then a copy of the chunks.
class CopyingCoder final : public EcCoder {
 public:
  CopyingCoder(const EcCode& code, EcStripe* stripe, bool all)
      : isal_(MakeIsalCoder(code, stripe)),
        first_(all ? 0 : code.k),
        end_(code.k + code.m),
        stripe_(stripe),
        copies_(code, stripe->block_size()) {}
  absl::Status Encode(int count) override {
    for (int n = 0; n < count; ++n) {
      RING_RETURN_IF_ERROR(isal_->Encode(1));
      for (std::size_t i = first_; i < end_; ++i)
        std::memcpy(copies_.Block(i), stripe_->Block(i), stripe_->block_size());
    }
    return absl::OkStatus();
  }
  absl::Status Decode(int) override { return absl::UnimplementedError("it copies"); }

 private:
  std::unique_ptr<EcCoder> isal_;
  std::size_t first_, end_;
  EcStripe* stripe_;
  EcStripe copies_;
};

struct Entrant {
  std::string name;
  std::unique_ptr<EcCoder> coder;
  std::vector<double> rounds_ns = {};  // of one operation
};

absl::StatusOr<double> EachNs(Entrant& entrant, int count) {
  const std::uint64_t start = tools::MonotonicNs();
  RING_RETURN_IF_ERROR(entrant.coder->Encode(count));
  return static_cast<double>(tools::MonotonicNs() - start) / count;
}

class EcSendBench {
 public:
  EcSendBench(const EcSendOptions& options, Context* context)
      : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::Status RunChunk(const EcCode& code, std::size_t chunk);
  absl::Status Measure(std::vector<Entrant>* entrants);
  void Report(std::size_t chunk, const std::vector<Entrant>& entrants);

  const EcSendOptions& options_;
  Context* context_;
  bool jerasure_missing_ = false;
  std::vector<Row> rows_;
};

// Rounds take turns: what slows a while slows all.
absl::Status EcSendBench::Measure(std::vector<Entrant>* entrants) {
  std::vector<int> counts;
  for (Entrant& entrant : *entrants) {
    RING_RETURN_IF_ERROR(EachNs(entrant, 20).status());
    RING_ASSIGN_OR_RETURN(const double each_ns, EachNs(entrant, 50));
    counts.push_back(
        static_cast<int>(std::lround(std::max(1.0, options_.rounds.milliseconds * 1e6 / each_ns))));
  }
  for (int round = 0; round < options_.rounds.count; ++round) {
    for (std::size_t i = 0; i < entrants->size(); ++i) {
      RING_ASSIGN_OR_RETURN(const double ns, EachNs((*entrants)[i], counts[i]));
      (*entrants)[i].rounds_ns.push_back(ns);
    }
  }
  return absl::OkStatus();
}

void EcSendBench::Report(std::size_t chunk, const std::vector<Entrant>& entrants) {
  const auto rounds_of = [&](absl::string_view name) {
    const auto found =
        absl::c_find_if(entrants, [name](const Entrant& one) { return one.name == name; });
    return found == entrants.end() ? nullptr : &found->rounds_ns;
  };
  for (const Entrant& entrant : entrants) {
    const bool all = absl::StrContains(entrant.name, "all");
    const double median = Median(entrant.rounds_ns);
    Row row;
    row["what"] = entrant.name;
    row["chunk_bytes"] = chunk;
    row["time_ns"] = median;
    row["data_bytes_per_second"] = static_cast<double>(options_.k * chunk) / median * 1e9;
    row["to ISA-L_ratio"] = RoundRatio(*rounds_of("ISA-L"), entrant.rounds_ns);
    row["to ISA-L and memcpy_ratio"] = RoundRatio(
        *rounds_of(all ? "ISA-L, memcpy of all" : "ISA-L, memcpy of parities"), entrant.rounds_ns);
    if (const auto* const jerasure = rounds_of("Jerasure"); jerasure != nullptr)
      row["to Jerasure_ratio"] = RoundRatio(*jerasure, entrant.rounds_ns);
    row[".rounds_ns"] = entrant.rounds_ns;
    rows_.push_back(row);
  }
}

absl::Status EcSendBench::RunChunk(const EcCode& code, std::size_t chunk) {
  EcStripe stripe(code, chunk);
  std::vector<Entrant> entrants;
  entrants.push_back({"ISA-L", MakeIsalCoder(code, &stripe)});
  RING_RETURN_IF_ERROR(stripe.CheckEncode(code, [&] { return entrants[0].coder->Encode(1); }));
  auto jerasure = MakeJerasureCoder(code, &stripe);
  if (jerasure.ok()) {
    entrants.push_back({"Jerasure", *std::move(jerasure)});
  } else if (!std::exchange(jerasure_missing_, true)) {
    context_->report.AddNote(absl::StrCat(jerasure.status().message(), ": it is left out"));
  }
  for (const bool all : {false, true}) {
    const std::string what = all ? "all" : "parities";
    entrants.push_back({absl::StrCat("ISA-L, memcpy of ", what),
                        std::make_unique<CopyingCoder>(code, &stripe, all)});
    for (const InecWay way : {InecWay::kCoherent, InecWay::kIncoherent}) {
      RING_ASSIGN_OR_RETURN(auto coder, EcSendCoder::Make(code, &stripe, way, all));
      entrants.push_back({absl::StrCat("ec-send of ", what, ", ",
                                       way == InecWay::kCoherent ? "coherent" : "incoherent"),
                          std::move(coder)});
    }
  }
  RING_RETURN_IF_ERROR(Measure(&entrants));
  Report(chunk, entrants);
  return absl::OkStatus();
}

absl::Status EcSendBench::Run() {
  RING_ASSIGN_OR_RETURN(const EcCode code,
                        EcCode::Create(options_.k, options_.m, 8, EcMatrix::kVandermonde));
  tools::Progress progress("coding", options_.chunks.size(), context_->progress);
  for (const std::size_t chunk : options_.chunks) {
    RING_RETURN_IF_ERROR(RunChunk(code, chunk));
    progress.Advance();
  }
  progress.Finish();
  context_->report.AddSection(
      absl::StrFormat("%d + %d chunks, w = 8; one at a time, host and NIC on one thread",
                      options_.k, options_.m),
      rows_);
  return absl::OkStatus();
}

}  // namespace

void AddEcSendCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<EcSendOptions>();
  CLI::App* command = app.add_subcommand(
      "ec-send", "INEC's ec-send, encode and send, against the bare encoding of ISA-L, Jerasure");
  command->add_option("--k", options->k, "Data chunks")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command->add_option("--m", options->m, "Parities")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  tools::AddSizeOption(command, "--chunk", options->chunks, "Bytes of a chunk, multiples of 64")
      ->delimiter(',')
      ->check(CLI::Range(64, 16 << 20))
      ->capture_default_str();
  AddRoundOptions(command, &options->rounds);
  command->callback([options, context] { context->status = EcSendBench(*options, context).Run(); });
}

}  // namespace ring::bench
