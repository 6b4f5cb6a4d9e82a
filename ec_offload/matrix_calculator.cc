#include "ec_offload/matrix_calculator.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/in_place.h"
#include "ring/base/crc32c.h"

namespace ring::ec_offload {
absl::Status CheckMatrixSize(const Matrix& matrix) {
  for (std::size_t size : {matrix.rows(), matrix.columns()}) {
    if (size < 1 || size > kMatrixSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat("matrix rows=", matrix.rows(),
                                                     " columns=", matrix.columns(),
                                                     ": both must be 1 to ", kMatrixSizeMax));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMatrixElements(const Matrix& matrix, Field field) {
  for (const gf256::Element element : matrix.elements()) {
    if (element >= ElementCount(field)) {
      return absl::InvalidArgumentError(absl::StrCat("coefficient=", static_cast<unsigned>(element),
                                                     ": the field has elements below ",
                                                     ElementCount(field)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScalarMatrixCalculator>> ScalarMatrixCalculator::Create(
    Matrix matrix, Field field) {
  if (absl::Status status = CheckMatrixSize(matrix); !status.ok()) return status;
  return std::unique_ptr<ScalarMatrixCalculator>(
      new ScalarMatrixCalculator(std::move(matrix), field));
}

bool ScalarMatrixCalculator::Run(const std::byte* const* inputs, std::byte* const* outputs,
                                 std::size_t length, std::uint32_t* crcs) const {
  std::array<gf256::Element, kMatrixSizeMax> column;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t c = 0; c < matrix_.columns(); ++c)
      column[c] = std::to_integer<gf256::Element>(inputs[c][i]);
    for (std::size_t r = 0; r < matrix_.rows(); ++r) {
      unsigned sum = 0;
      for (std::size_t c = 0; c < matrix_.columns(); ++c)
        sum ^= MultiplyByte(field_, matrix_.At(r, c), column[c]);
      outputs[r][i] = static_cast<std::byte>(sum);
    }
  }
  for (std::size_t r = 0; crcs != nullptr && r < matrix_.rows(); ++r)
    crcs[r] = Crc32c(outputs[r], length);
  return true;
}

absl::StatusOr<std::unique_ptr<IsalMatrixCalculator>> IsalMatrixCalculator::Create(Matrix matrix) {
  if (absl::Status status = CheckMatrixSize(matrix); !status.ok()) return status;
  return std::unique_ptr<IsalMatrixCalculator>(new IsalMatrixCalculator(std::move(matrix)));
}

IsalMatrixCalculator::IsalMatrixCalculator(Matrix matrix)
    : matrix_(std::move(matrix)), tables_(32 * matrix_.rows() * matrix_.columns()) {
  std::vector<unsigned char> coefficients(matrix_.elements().begin(), matrix_.elements().end());
  // ISA-L calls the inputs k and the outputs rows.
  ec_init_tables(static_cast<int>(matrix_.columns()), static_cast<int>(matrix_.rows()),
                 coefficients.data(), tables_.data());
}

void IsalMatrixCalculator::Encode(const std::byte* const* inputs, std::byte* const* outputs,
                                  std::size_t length) const {
  std::array<unsigned char*, kMatrixSizeMax> data;
  std::array<unsigned char*, kMatrixSizeMax> coding;
  constexpr std::size_t kPieceMax = std::size_t{1} << 30;  // lengths are int there
  for (std::size_t from = 0; from < length; from += kPieceMax) {
    // ec_encode_data writes neither through data nor through the tables; its signature lacks the
    // const.
    for (std::size_t c = 0; c < matrix_.columns(); ++c) {
      data[c] = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(inputs[c] + from));
    }
    for (std::size_t r = 0; r < matrix_.rows(); ++r) {
      coding[r] = reinterpret_cast<unsigned char*>(outputs[r] + from);
    }
    ec_encode_data(static_cast<int>(std::min(kPieceMax, length - from)),
                   static_cast<int>(matrix_.columns()), static_cast<int>(matrix_.rows()),
                   const_cast<unsigned char*>(tables_.data()), data.data(), coding.data());
  }
}

bool IsalMatrixCalculator::Run(const std::byte* const* inputs, std::byte* const* outputs,
                               std::size_t length, std::uint32_t* crcs) const {
  RunWholeBlocks({inputs, matrix_.columns(), outputs, matrix_.rows(), length}, crcs,
                 [this](const std::byte* const* from, std::byte* const* to, std::size_t size) {
                   Encode(from, to, size);
                 });
  return true;
}

}  // namespace ring::ec_offload
