// ring-bench limits: the floors under the store: round trips, memory work, memcpy, raw ISA-L.
#include <isa-l/erasure_code.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/common/size_option.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/memory_work.h"
#include "tools/ring-bench/round_trip.h"

namespace ring::bench {
namespace {

struct LimitsOptions {
  std::uint64_t key_count = 100'000;
  std::size_t value_size = 1024;
  int rounds = 3;
};

// Best bytes per second of repeated calls of work(), each over `bytes`, within 150 ms.
template <class Work>
double BytesPerSecond(std::size_t bytes, Work work) {
  double best = 0;
  const std::uint64_t end = tools::MonotonicNs() + 150'000'000;
  while (tools::MonotonicNs() < end) {
    const std::uint64_t start = tools::Ticks();
    work();
    const double ns = static_cast<double>(tools::Ticks() - start) / tools::TicksPerNs();
    best = std::max(best, static_cast<double>(bytes) / ns * 1e9);
  }
  return best;
}

Row CopyRow(absl::string_view what, std::size_t size) {
  std::vector<char> from(size, 'x'), to(size, 'y');
  Row row;
  row["what"] = std::string(what);
  row["bytes_per_second"] = BytesPerSecond(size, [&] {
    std::memcpy(to.data(), from.data(), size);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  return row;
}

Row EncodeRow(int k, int m) {
  constexpr std::size_t kBlock = 64 * 1024;
  std::vector<std::vector<std::uint8_t>> blocks(static_cast<std::size_t>(k + m));
  std::vector<std::uint8_t*> pointers;
  for (auto& block : blocks) {
    block.assign(kBlock, static_cast<std::uint8_t>(pointers.size() + 1));
    pointers.push_back(block.data());
  }
  std::vector<std::uint8_t> matrix(static_cast<std::size_t>((k + m) * k));
  std::vector<std::uint8_t> tables(static_cast<std::size_t>(32 * k * m));
  gf_gen_cauchy1_matrix(matrix.data(), k + m, k);
  ec_init_tables(k, m, matrix.data() + k * k, tables.data());
  Row row;
  row["what"] = absl::StrFormat("ISA-L encode RS(%d,%d), 64 KiB blocks, of data", k, m);
  row["bytes_per_second"] = BytesPerSecond(kBlock * static_cast<std::size_t>(k), [&] {
    ec_encode_data(kBlock, k, m, tables.data(), pointers.data(), pointers.data() + k);
  });
  return row;
}

Row RoundTripRow(absl::string_view what, std::size_t request_size, std::size_t reply_size,
                 int rounds) {
  Histogram histogram;
  std::vector<double> p50s;
  for (int i = 0; i < rounds; ++i) {
    const Histogram one =
        MeasureRoundTrip({.request_size = request_size, .reply_size = reply_size});
    p50s.push_back(static_cast<double>(one.Percentile(50)));
    histogram.Merge(one);
  }
  Row row;
  row["request and reply"] = std::string(what);
  row["p50_ns"] = Median(p50s);
  row["p99_ns"] = histogram.Percentile(99);
  row["least_ns"] = histogram.min();
  row["lowest round_ns"] = *std::min_element(p50s.begin(), p50s.end());
  row["highest round_ns"] = *std::max_element(p50s.begin(), p50s.end());
  return row;
}

absl::Status RunLimits(const LimitsOptions& options, Context* context) {
  context->report.AddSection("round trip between two threads through shared memory",
                             {RoundTripRow("64 B, 64 B", 0, 0, options.rounds),
                              RoundTripRow("1 KiB, 64 B", 1024, 0, options.rounds),
                              RoundTripRow("64 B, 1 KiB", 0, 1024, options.rounds),
                              RoundTripRow("1 KiB, 1 KiB", 1024, 1024, options.rounds)});
  std::vector<Row> rows;
  const MemoryWorkOptions work{.key_count = options.key_count, .value_size = options.value_size};
  for (const auto& [name, kind] : std::vector<std::pair<std::string, MemoryWork>>{
           {"get", MemoryWork::kGet},
           {"put REP1", MemoryWork::kRep1Put},
           {"put REP3, with logs and folding", MemoryWork::kRep3Put},
           {"put SRS32, with encode, logs and folding", MemoryWork::kSrs32Put}}) {
    std::vector<double> values;
    for (int i = 0; i < options.rounds; ++i) values.push_back(MeasureMemoryWork(kind, work));
    Row row;
    row["memory work of"] = name;
    row["time_ns"] = Median(values);
    row["lowest_ns"] = *std::min_element(values.begin(), values.end());
    row["highest_ns"] = *std::max_element(values.begin(), values.end());
    row["ops_per_second"] = 1e9 / Median(values);
    rows.push_back(row);
  }
  context->report.AddSection(
      absl::StrFormat("memory work, one core, one at a time: %d keys at random, %d B values",
                      options.key_count, options.value_size),
      rows);
  context->report.AddSection(
      "bytes, one core",
      {CopyRow("memcpy 16 KiB", 16 << 10), CopyRow("memcpy 64 MiB", std::size_t{64} << 20),
       EncodeRow(2, 1), EncodeRow(3, 1), EncodeRow(3, 2), EncodeRow(6, 3)});
  return absl::OkStatus();
}

}  // namespace

void AddLimitsCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<LimitsOptions>();
  CLI::App* command = app.add_subcommand(
      "limits", "The floors of this machine: round trips, memory work, memcpy, raw ISA-L");
  command->add_option("--key-count", options->key_count, "Keys of the memory work")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes; a multiple of 64")
      ->check(CLI::Range(64, 64 << 10))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([options, context] { context->status = RunLimits(*options, context); });
}

}  // namespace ring::bench
