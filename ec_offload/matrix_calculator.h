// ec_offload/matrix_calculator.h — calculators for outputs = M * inputs over GF(2^8).
//
// What:      ScalarMatrixCalculator, the oracle, from the definition; IsalMatrixCalculator, by
//            ISA-L's ec_encode_data. Encoding, decoding and repair of whole blocks.
// Shape:     M is outputs x inputs; at most kMatrixSizeMax of either.
// Ownership: immutable; borrows buffers for the call. An output may be an input (in place).
// Threads:   immutable after construction.
// Errors:    Create names the limit that a matrix breaks. Run gives true.
// Cost:      ISA-L, 2 x 2 over 1 KiB, hot: 38 ns; 17 ns more for each CRC.
// Source:    ISA-L erasure_code.h. Its vector code redoes overlapping ends and takes outputs in
//            groups, so in-place operation goes through scratch here.
#ifndef RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_
#define RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/matrix.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

inline constexpr std::size_t kMatrixSizeMax = 32;

class ScalarMatrixCalculator final : public rdma::Calculator {
 public:
  static absl::StatusOr<std::unique_ptr<ScalarMatrixCalculator>> Create(Matrix matrix);
  std::size_t input_count() const override { return matrix_.columns(); }
  std::size_t output_count() const override { return matrix_.rows(); }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override;

 private:
  explicit ScalarMatrixCalculator(Matrix matrix) : matrix_(std::move(matrix)) {}
  Matrix matrix_;
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
  void EncodeThroughScratch(const std::byte* const* inputs, std::byte* const* outputs,
                            std::size_t length) const;

  Matrix matrix_;
  std::vector<unsigned char> tables_;  // 32 bytes a coefficient, as ec_init_tables makes them
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_MATRIX_CALCULATOR_H_
