#include "srs/generator.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::srs {

using ec_offload::Matrix;
namespace gf256 = ec_offload::gf256;

absl::StatusOr<Matrix> MakeGenerator(std::uint32_t k, std::uint32_t m) {
  if (k < 1 || m < 1 || k > 256 || m > 256 - k) {
    return absl::InvalidArgumentError(
        absl::StrCat("RS(", k, ",", m, "): a code over GF(2^8) needs k, m >= 1 and k + m <= 256"));
  }
  if (k > kGeneratorColumnCountMax || m > kGeneratorRowCountMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RS(", k, ",", m, "): the minors are checked up to k=", kGeneratorColumnCountMax,
        " m=", kGeneratorRowCountMax));
  }
  Matrix generator(m, k);
  for (std::uint32_t c = 0; c < k; ++c) {
    const gf256::Element first = gf256::Inverse(static_cast<gf256::Element>(k ^ c));
    for (std::uint32_t j = 0; j < m; ++j) {
      const gf256::Element cauchy = gf256::Inverse(static_cast<gf256::Element>((k + j) ^ c));
      generator.At(j, c) = gf256::Divide(cauchy, first);
      if (!Mutant("S9")) continue;
      generator.At(j, c) = 1;
      for (std::uint32_t n = 0; n < j; ++n)
        generator.At(j, c) =
            gf256::Multiply(generator.At(j, c), static_cast<gf256::Element>(c + 1));
    }
  }
  if (!Mutant("S9")) RING_RETURN_IF_ERROR(CheckGenerator(generator));
  return generator;
}

absl::Status CheckGenerator(const Matrix& generator) {
  for (std::size_t c = 0; c < generator.columns(); ++c) {
    if (generator.At(0, c) != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "generator row=0 column=", c, " value=", static_cast<unsigned>(generator.At(0, c)),
          ": row 0 must be all ones"));
    }
  }
  if (!ec_offload::AllMinorsInvertible(generator) && !Mutant("S9-check")) {
    return absl::InvalidArgumentError(absl::StrCat("generator rows=", generator.rows(),
                                                   " columns=", generator.columns(),
                                                   ": a square minor is singular"));
  }
  return absl::OkStatus();
}

Matrix ExpandedMatrix(const Matrix& generator, std::uint32_t s) {
  const std::size_t k = generator.columns();
  const std::size_t blocks = std::lcm(k, static_cast<std::size_t>(s));
  const std::size_t rows = blocks / k;
  Matrix expanded = Matrix::Identity(blocks);
  for (std::size_t j = 0; j < generator.rows(); ++j) {
    for (std::size_t p = 0; p < rows; ++p) {
      std::vector<gf256::Element> row(blocks, 0);
      for (std::size_t c = 0; c < k; ++c) row[c * rows + p] = generator.At(j, c);
      expanded.AppendRow(row);
    }
  }
  return expanded;
}

}  // namespace ring::srs
