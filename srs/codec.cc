#include "srs/codec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ec_offload/kernels.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "srs/generator.h"

namespace ring::srs {

using ec_offload::DeltaCalculator;
using ec_offload::Matrix;
namespace gf256 = ec_offload::gf256;

absl::StatusOr<Codec> Codec::Create(const SrsParameters& parameters, std::uint64_t block_size_min) {
  RING_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(parameters, block_size_min));
  RING_ASSIGN_OR_RETURN(Matrix generator, MakeGenerator(parameters.k, parameters.m));
  return Codec(layout, std::move(generator));
}

Codec::Codec(const Layout& layout, Matrix generator)
    : layout_(layout), generator_(std::move(generator)) {}

DeltaCalculator Codec::Delta(std::uint32_t column, DeltaCalculator::Slot slot) const {
  std::vector<gf256::Element> coefficients;
  for (std::uint32_t j = 0; j < generator_.rows(); ++j)
    coefficients.push_back(coefficient(j, column));
  return DeltaCalculator(coefficients, slot);
}

void Codec::AddContribution(std::byte* parity, std::uint32_t parity_index, const std::byte* data,
                            std::uint32_t column, std::size_t length) const {
  ec_offload::MultiplyAdd(parity, data, coefficient(parity_index, column), length);
}

void Codec::Rescale(std::byte* destination, const std::byte* source, std::uint32_t column,
                    std::uint32_t from, std::uint32_t to, std::size_t length) const {
  const gf256::Element factor = gf256::Divide(coefficient(to, column), coefficient(from, column));
  ec_offload::Multiply(destination, source, factor, length);
}

void Codec::RescalePayload(std::byte* destination, const std::byte* source, std::uint32_t shard,
                           std::uint64_t offset, std::uint32_t from, std::uint32_t to,
                           std::size_t length) const {
  for (std::size_t done = 0; done < length;) {
    const std::uint64_t at = offset + done;
    const std::size_t size = std::min<std::size_t>(layout_.BlockRemainder(at), length - done);
    Rescale(destination + done, source + done, layout_.Locate(shard, at).column, from, to, size);
    done += size;
  }
}

void AddRecipe(const Recipe& recipe, absl::Span<const std::byte* const> data,
               absl::Span<const std::byte* const> parities, std::byte* destination,
               std::size_t length) {
  for (const Term& term : recipe.terms) {
    const std::byte* survivor =
        term.survivor.is_parity ? parities[term.survivor.index] : data[term.survivor.index];
    RING_CHECK(survivor != nullptr)
        << "survivor index=" << term.survivor.index << " is_parity=" << term.survivor.is_parity;
    ec_offload::MultiplyAdd(destination, survivor, term.coefficient, length);
  }
}

}  // namespace ring::srs
