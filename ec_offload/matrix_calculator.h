// ec_offload/matrix_calculator.h — calculators for outputs = M * inputs.
//
// What:      ScalarMatrixCalculator, the oracle, from the definition, over either field;
//            IsalMatrixCalculator, by ISA-L's ec_encode_data, over GF(2^8). Encoding, decoding and
//            repair of whole blocks. block_calculator.h chooses the fast one.
// Shape:     M is outputs x inputs; at most kMatrixSizeMax of either.
// Ownership: immutable; borrows buffers for the call. An output may be an input (in place).
// Threads:   immutable after construction.
// Errors:    Create names the limit that a matrix breaks. Run gives true.
// Cost:      ISA-L, 2 x 2 over 1 KiB, hot: 38 ns; 17 ns more for each CRC.
// Source:    ISA-L erasure_code.h. In-place operation: in_place.h.
#ifndef RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_
#define RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ec_offload/field.h"
#include "ec_offload/matrix.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

// The blocks of the widest code: k + m <= 2^8.
inline constexpr std::size_t kMatrixSizeMax = 256;

// Names the limit that a matrix breaks.
absl::Status CheckMatrixSize(const Matrix& matrix);
// Names an element that the field does not have.
absl::Status CheckMatrixElements(const Matrix& matrix, Field field);

class ScalarMatrixCalculator final : public rdma::Calculator {
 public:
  static absl::StatusOr<std::unique_ptr<ScalarMatrixCalculator>> Create(
      Matrix matrix, Field field = Field::kGf256);
  std::size_t input_count() const override { return matrix_.columns(); }
  std::size_t output_count() const override { return matrix_.rows(); }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override;

 private:
  ScalarMatrixCalculator(Matrix matrix, Field field) : matrix_(std::move(matrix)), field_(field) {}
  Matrix matrix_;
  Field field_;
};

class IsalMatrixCalculator final : public rdma::Calculator {
 public:
  static absl::StatusOr<std::unique_ptr<IsalMatrixCalculator>> Create(Matrix matrix);
  std::size_t input_count() const override { return matrix_.columns(); }
  std::size_t output_count() const override { return matrix_.rows(); }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override;

 private:
  explicit IsalMatrixCalculator(Matrix matrix);
  void Encode(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length) const;

  Matrix matrix_;
  std::vector<unsigned char> tables_;  // 32 bytes a coefficient, as ec_init_tables makes them
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_
