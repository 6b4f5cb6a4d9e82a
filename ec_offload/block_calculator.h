// ec_offload/block_calculator.h — the fast calculator of a matrix over blocks of symbols of w bits.
//
// What:      MakeBlockCalculator: for w = 8 ISA-L or TableMatrixCalculator, whichever is ahead on
//            this processor; TableMatrixCalculator for the rest, all of which are GF(2^4) with two
//            symbols a byte (field.h). MakeXorCalculator: the sum of blocks, of any field.
// Shape:     the matrix is outputs x inputs, up to kMatrixSizeMax of either; blocks of any length.
// Ownership: immutable; borrows buffers for the call. An output may be an input (in place).
// Threads:   immutable after construction.
// Errors:    kInvalidArgument: no such w, a matrix out of bounds. Bits of the matrix above the
//            field's are ignored: published programs hand over garbage there.
// Cost:      one pass over the inputs for each four outputs.
// Source:    not ISA-L's loops with tables of our own for w = 4: its base code, which takes what
//            its vectors leave over, reads a factor of GF(2^8) out of the table.
#ifndef RING_EC_OFFLOAD_BLOCK_CALCULATOR_H_
#define RING_EC_OFFLOAD_BLOCK_CALCULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/dot_kernels.h"
#include "ec_offload/field.h"
#include "ec_offload/matrix.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

absl::StatusOr<std::unique_ptr<rdma::Calculator>> MakeBlockCalculator(int w, const Matrix& matrix);
// One output, the plain XOR of so many inputs, in one pass without look-ups.
absl::StatusOr<std::unique_ptr<rdma::Calculator>> MakeXorCalculator(std::size_t input_count);

// By dot_kernels.h; of either field, so that the kernels have ISA-L to be compared with.
class TableMatrixCalculator final : public rdma::Calculator {
 public:
  static absl::StatusOr<std::unique_ptr<TableMatrixCalculator>> Create(
      const Matrix& matrix, Field field, const DotEngine& engine = BestDotEngine());
  std::size_t input_count() const override { return input_count_; }
  std::size_t output_count() const override { return output_count_; }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override;

 private:
  // Outputs that one pass makes, and their factors, input by input.
  struct Group {
    std::size_t first = 0;
    std::size_t count = 0;
    bool first_is_sum = false;
    std::vector<gf256::Factor> factors;
  };

  TableMatrixCalculator(const Matrix& matrix, Field field, const DotEngine& engine);
  void Encode(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length) const;

  std::size_t input_count_;
  std::size_t output_count_;
  const DotEngine& engine_;
  std::vector<Group> groups_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_BLOCK_CALCULATOR_H_
