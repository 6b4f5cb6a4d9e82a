#include "ec_offload/dot_kernels.h"

#include <array>
#include <cstdint>

#include "ec_offload/kernel_engines.h"

namespace ring::ec_offload {
namespace {

constexpr std::array<DotEngine, 3> kEngines = {
    {{"scalar", DotScalar}, {"avx2", DotAvx2}, {"avx512", DotWide}}};

}  // namespace

void DotScalar(const DotArguments& a) {
  for (std::size_t i = a.from; i < a.to; ++i) {
    unsigned sums[kDotCountMax] = {};
    for (std::size_t c = 0; c < a.input_count; ++c) {
      const auto byte = std::to_integer<std::uint8_t>(a.inputs[c][i]);
      for (std::size_t j = 0; j < a.output_count; ++j) {
        const gf256::Factor& factor = a.factors[c * a.output_count + j];
        sums[j] ^=
            static_cast<unsigned>(factor.low_products[byte & 15] ^ factor.high_products[byte >> 4]);
      }
    }
    for (std::size_t j = 0; j < a.output_count; ++j)
      a.outputs[j][i] = static_cast<std::byte>(sums[j]);
  }
}

absl::Span<const DotEngine> DotEngines() {
  return absl::MakeConstSpan(kEngines.data(), WideEngineSupported() ? 3 : 2);
}

const DotEngine& BestDotEngine() {
  static const DotEngine& engine = DotEngines().back();
  return engine;
}

}  // namespace ring::ec_offload
