// tests/ec_offload/ec_send_bench.cc — what encode-and-send costs on the software NIC: by the host,
// by a calc queue (ADR 11).
//
// What:      A put of 1 KiB to `m` parities over local links, entries copied into their logs and
//            completions polled; and the calculation alone, which is in both. Everything is hot.
//            Run: build/release/tests/ec_offload/ec_send_bench
#include <benchmark/benchmark.h>

#include <array>

#include "ec_offload/delta_calculator.h"
#include "tests/ec_offload/soft_cluster.h"

namespace ring::ec_offload {
namespace {

constexpr std::size_t kLength = 1024;
constexpr std::array<gf256::Element, 4> kColumn = {1, 29, 77, 131};

DeltaCalculator Calculator(std::size_t m) {
  return DeltaCalculator(absl::MakeConstSpan(kColumn.data(), m), DeltaCalculator::Slot::kWritten);
}

void SendAll(benchmark::State& state, bool host) {
  const auto m = static_cast<std::size_t>(state.range(0));
  SoftCluster cluster(m, kLength);
  const DeltaCalculator calculator = Calculator(m);
  EcSend ec_send({cluster.device(), host ? nullptr : cluster.calc_qp(),
                  host ? nullptr : cluster.calc_cq(), host});
  for (auto _ : state) {
    RING_CHECK(cluster.Send(ec_send, calculator).status.ok());
    while (cluster.completed().size() < m) cluster.Poll();
  }
}

void BM_Host(benchmark::State& state) { SendAll(state, true); }
BENCHMARK(BM_Host)->Arg(1)->Arg(2)->Arg(4)->ArgName("m");

void BM_CalcQueue(benchmark::State& state) { SendAll(state, false); }
BENCHMARK(BM_CalcQueue)->Arg(1)->Arg(2)->Arg(4)->ArgName("m");

void BM_Calculation(benchmark::State& state) {
  const auto m = static_cast<std::size_t>(state.range(0));
  const DeltaCalculator calculator = Calculator(m);
  alignas(64) static std::array<std::array<std::byte, kLength>, 6> buffers;
  const std::array<const std::byte*, 2> inputs = {buffers[0].data(), buffers[1].data()};
  std::array<std::byte*, 5> outputs;
  for (std::size_t j = 0; j < m; ++j) outputs[j] = buffers[2 + j].data();
  outputs[m] = buffers[0].data();
  std::array<std::uint32_t, 5> crcs;
  for (auto _ : state) {
    RING_CHECK(calculator.Run(inputs.data(), outputs.data(), kLength, crcs.data()));
    benchmark::DoNotOptimize(crcs);
  }
}
BENCHMARK(BM_Calculation)->Arg(1)->Arg(2)->Arg(4)->ArgName("m");

}  // namespace
}  // namespace ring::ec_offload

BENCHMARK_MAIN();
