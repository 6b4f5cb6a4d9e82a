// Encoding and decoding through libecoffload, against ISA-L's bare loop and Jerasure's. Run by
// hand; bytes_per_second counts the data blocks.
//   eco_bench --benchmark_filter=/6/3/65536
#include <benchmark/benchmark.h>
#include <isa-l/erasure_code.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/base/check.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/ec_offload/eco/jerasure_oracle.h"

namespace ring::ec_offload {
namespace {

// Blocks as a storage system has them: aligned to pages.
struct Stripe {
  Stripe(int k, int m, int size) {
    SeededRandom random(91);
    for (int i = 0; i < k + m; ++i) {
      const std::size_t padded = (static_cast<std::size_t>(size) + 4095) / 4096 * 4096;
      memory.emplace_back(static_cast<char*>(std::aligned_alloc(4096, padded)));
      for (int b = 0; b < size; ++b) memory.back().get()[b] = static_cast<char>(random.Next64());
      (i < k ? data : coding).push_back(reinterpret_cast<std::uint8_t*>(memory.back().get()));
    }
  }
  std::vector<char*> Chars(int from, int count) const {
    std::vector<char*> pointers;
    for (int i = from; i < from + count; ++i)
      pointers.push_back(memory[static_cast<std::size_t>(i)].get());
    return pointers;
  }
  std::vector<AlignedBlock> memory;
  std::vector<std::uint8_t*> data, coding;
};

void Count(benchmark::State& state, int k, int size) {
  state.SetBytesProcessed(state.iterations() * k * size);
}

template <int w>
void BM_Eco(benchmark::State& state) {
  const int k = static_cast<int>(state.range(0)), m = static_cast<int>(state.range(1));
  const int size = static_cast<int>(state.range(2));
  Stripe stripe(k, m, size);
  eco_encoder* const encoder = mlx_eco_encoder_init_w(k, m, 1, w);
  for (auto _ : state) {
    RING_CHECK(
        mlx_eco_encoder_encode(encoder, stripe.data.data(), stripe.coding.data(), k, m, size) == 0);
  }
  mlx_eco_encoder_release(encoder);
  Count(state, k, size);
}

template <int w>
void BM_EcoDecode(benchmark::State& state) {
  const int k = static_cast<int>(state.range(0)), m = static_cast<int>(state.range(1));
  const int size = static_cast<int>(state.range(2));
  Stripe stripe(k, m, size);
  eco_decoder* const decoder = mlx_eco_decoder_init_w(k, m, 1, w);
  std::vector<int> erased;
  for (int i = 0; i < m; ++i) erased.push_back(i);
  for (auto _ : state) {
    RING_CHECK(mlx_eco_decoder_decode(decoder, stripe.data.data(), stripe.coding.data(), k, m, size,
                                      erased.data(), m) == 0);
  }
  mlx_eco_decoder_release(decoder);
  Count(state, k, size);
}

void BM_Isal(benchmark::State& state) {
  const int k = static_cast<int>(state.range(0)), m = static_cast<int>(state.range(1));
  const int size = static_cast<int>(state.range(2));
  Stripe stripe(k, m, size);
  const JerasureMatrixPointer matrix = JerasureMatrix(k, m, 8, true);
  std::vector<std::uint8_t> coefficients(matrix.get(), matrix.get() + k * m);
  std::vector<std::uint8_t> tables(static_cast<std::size_t>(32 * k * m));
  ec_init_tables(k, m, coefficients.data(), tables.data());
  for (auto _ : state)
    ec_encode_data(size, k, m, tables.data(), stripe.data.data(), stripe.coding.data());
  Count(state, k, size);
}

template <int w>
void BM_Jerasure(benchmark::State& state) {
  const int k = static_cast<int>(state.range(0)), m = static_cast<int>(state.range(1));
  const int size = static_cast<int>(state.range(2));
  Stripe stripe(k, m, size);
  const JerasureMatrixPointer matrix = JerasureMatrix(k, m, w, true);
  std::vector<char*> data = stripe.Chars(0, k), coding = stripe.Chars(k, m);
  for (auto _ : state)
    JerasureEncodeAligned(k, m, w, matrix.get(), data.data(), coding.data(), size);
  Count(state, k, size);
}

void Codes(benchmark::internal::Benchmark* bench) {
  for (const int size : {64, 1024, 4096, 65536, 1048576}) bench->Args({6, 3, size});
  bench->Args({10, 4, 65536});
}
BENCHMARK(BM_Isal)->Apply(Codes);
BENCHMARK(BM_Eco<8>)->Apply(Codes);
BENCHMARK(BM_EcoDecode<8>)->Apply(Codes);
BENCHMARK(BM_Jerasure<8>)->Apply(Codes);
BENCHMARK(BM_Eco<4>)->Apply(Codes);
BENCHMARK(BM_EcoDecode<4>)->Apply(Codes);
BENCHMARK(BM_Jerasure<4>)->Apply(Codes);

}  // namespace
}  // namespace ring::ec_offload

BENCHMARK_MAIN();
