// The mlx_eco_* functions with any code, blocks and erasures, good and bad, against the scalar
// oracle: what is accepted is right, and what is refused writes nothing.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ec_offload/coding_matrix.h"
#include "ec_offload/eco/include/ecOffload/eco_decoder.h"
#include "ec_offload/eco/include/ecOffload/eco_encoder.h"
#include "ec_offload/matrix_calculator.h"
#include "ring/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace ec = ring::ec_offload;
using ring::testing::FuzzInput;

namespace {

struct Stripe {
  int k, m, size;
  std::vector<std::vector<std::uint8_t>> blocks;
  std::vector<std::uint8_t*> data, coding;
};

Stripe MakeStripe(FuzzInput& input, int k, int m) {
  Stripe stripe{k, m, 1 + static_cast<int>(input.Short() % 400), {}, {}, {}};
  std::uint32_t state = input.Short() + 1;
  for (int i = 0; i < k + m; ++i) {
    stripe.blocks.emplace_back(static_cast<std::size_t>(stripe.size));
    for (std::uint8_t& byte : stripe.blocks.back()) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<std::uint8_t>(state >> 24);
    }
    (i < k ? stripe.data : stripe.coding).push_back(stripe.blocks.back().data());
  }
  return stripe;
}

void CheckParities(const Stripe& stripe, int w, bool vandermonde) {
  const ec::Field field = *ec::FieldOfWidth(w);
  const auto make = vandermonde ? ec::VandermondeCoding : ec::CauchyCoding;
  const auto oracle = ec::ScalarMatrixCalculator::Create(
      *make(field, stripe.data.size(), stripe.coding.size()), field);
  std::vector<const std::byte*> inputs;
  for (const std::uint8_t* block : stripe.data)
    inputs.push_back(reinterpret_cast<const std::byte*>(block));
  const auto size = static_cast<std::size_t>(stripe.size);
  std::vector<std::vector<std::byte>> parities(stripe.coding.size(), std::vector<std::byte>(size));
  std::vector<std::byte*> outputs;
  for (auto& parity : parities) outputs.push_back(parity.data());
  (*oracle)->Run(inputs.data(), outputs.data(), size, nullptr);
  for (std::size_t j = 0; j < parities.size(); ++j) {
    const auto* const coded = reinterpret_cast<const std::byte*>(stripe.coding[j]);
    RING_CHECK(std::equal(parities[j].begin(), parities[j].end(), coded)) << "parity " << j;
  }
}

bool Repairable(std::vector<int> erasures, int k, int m) {
  std::sort(erasures.begin(), erasures.end());
  const bool twice = std::adjacent_find(erasures.begin(), erasures.end()) != erasures.end();
  const bool inside = erasures.empty() || (erasures.front() >= 0 && erasures.back() < k + m);
  return !twice && inside && erasures.size() <= static_cast<std::size_t>(m);
}

void DecodeSome(FuzzInput& input, Stripe& stripe, eco_decoder* decoder) {
  while (!input.empty()) {
    const std::vector<std::vector<std::uint8_t>> all = stripe.blocks;
    std::vector<int> erasures(input.Byte() % 12);
    for (int& index : erasures) index = static_cast<std::int8_t>(input.Byte());
    const auto count = static_cast<int>(erasures.size());
    const bool repairable = Repairable(erasures, stripe.k, stripe.m);
    if (repairable) {
      for (const int index : erasures) {
        auto& block = stripe.blocks[static_cast<std::size_t>(index)];
        std::fill(block.begin(), block.end(), 0xa5);
      }
    }
    if ((input.Byte() & 1) != 0) {
      RING_CHECK(mlx_eco_decoder_generate_decode_matrix(decoder, erasures.data(), count) ==
                 (repairable ? 0 : -1));
    }
    const int result =
        mlx_eco_decoder_decode(decoder, stripe.data.data(), stripe.coding.data(), stripe.k,
                               stripe.m, stripe.size, erasures.data(), count);
    RING_CHECK(result == (repairable ? 0 : -1)) << "result=" << result;
    RING_CHECK(stripe.blocks == all);
  }
}

// Arguments that do not fit, with the blocks as they were after it.
void TryBadArguments(FuzzInput& input, Stripe& stripe, eco_encoder* encoder) {
  const std::vector<std::vector<std::uint8_t>> all = stripe.blocks;
  const int k = static_cast<std::int8_t>(input.Byte());
  const int m = static_cast<std::int8_t>(input.Byte());
  const int size = static_cast<std::int16_t>(input.Short());
  if (k == stripe.k && m == stripe.m && size > 0) return;
  RING_CHECK(
      mlx_eco_encoder_encode(encoder, stripe.data.data(), stripe.coding.data(), k, m, size) == -1);
  std::vector<std::uint8_t*> holes = stripe.data;
  holes[input.Byte() % holes.size()] = nullptr;
  RING_CHECK(mlx_eco_encoder_encode(encoder, holes.data(), stripe.coding.data(), stripe.k, stripe.m,
                                    stripe.size) == -1);
  std::vector<std::uint8_t*> overlapping = stripe.coding;
  overlapping[0] = stripe.data[0];
  RING_CHECK(mlx_eco_encoder_encode(encoder, stripe.data.data(), overlapping.data(), stripe.k,
                                    stripe.m, stripe.size) == -1);
  RING_CHECK(stripe.blocks == all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  static constexpr std::array<int, 5> kWidths = {4, 8, 4, 8, 5};
  const int w = kWidths[input.Byte() % kWidths.size()];
  // Not the widest codes: their matrices take a tenth of a second in this build.
  const int k = input.Byte() % 34 - 1;
  const int m = input.Byte() % 20 - 1;
  const bool vandermonde = (input.Byte() & 1) != 0;
  eco_encoder* const encoder = mlx_eco_encoder_init_w(k, m, vandermonde, w);
  eco_decoder* const decoder = mlx_eco_decoder_init_w(k, m, vandermonde, w);
  const bool exists = (w == 4 || w == 8) && k >= 1 && m >= 1 && k + m <= 1 << w;
  RING_CHECK((encoder != nullptr) == exists && (decoder != nullptr) == exists);
  if (!exists) return 0;
  Stripe stripe = MakeStripe(input, k, m);
  TryBadArguments(input, stripe, encoder);
  RING_CHECK(mlx_eco_encoder_encode(encoder, stripe.data.data(), stripe.coding.data(), k, m,
                                    stripe.size) == 0);
  CheckParities(stripe, w, vandermonde);
  DecodeSome(input, stripe, decoder);
  RING_CHECK(mlx_eco_encoder_release(encoder) == 0 && mlx_eco_encoder_release(encoder) == -1);
  RING_CHECK(mlx_eco_decoder_release(decoder) == 0);
  return 0;
}
