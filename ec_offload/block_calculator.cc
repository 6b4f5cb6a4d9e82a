#include "ec_offload/block_calculator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/in_place.h"
#include "ec_offload/kernel_engines.h"
#include "ec_offload/matrix_calculator.h"

namespace ring::ec_offload {
namespace {

// ISA-L has a form for AVX-512 without GFNI; elsewhere dot_kernels.h is ahead of its 2.30.
bool IsalIsFaster() { return __builtin_cpu_supports("avx512f") && !WideEngineSupported(); }

}  // namespace

absl::StatusOr<std::unique_ptr<rdma::Calculator>> MakeBlockCalculator(int w, const Matrix& matrix) {
  const std::optional<Field> field = FieldOfWidth(w);
  if (!field.has_value())
    return absl::InvalidArgumentError(absl::StrCat("w=", w, ": give 1, 2, 4 or 8"));
  if (*field == Field::kGf256 && IsalIsFaster()) return IsalMatrixCalculator::Create(matrix);
  return TableMatrixCalculator::Create(matrix, *field);
}

absl::StatusOr<std::unique_ptr<rdma::Calculator>> MakeXorCalculator(std::size_t input_count) {
  Matrix ones(1, input_count);
  for (std::size_t c = 0; c < input_count; ++c) ones.At(0, c) = 1;
  return TableMatrixCalculator::Create(ones, Field::kGf256);
}

absl::StatusOr<std::unique_ptr<TableMatrixCalculator>> TableMatrixCalculator::Create(
    const Matrix& matrix, Field field, const DotEngine& engine) {
  if (absl::Status status = CheckMatrixSize(matrix); !status.ok()) return status;
  return std::unique_ptr<TableMatrixCalculator>(new TableMatrixCalculator(matrix, field, engine));
}

TableMatrixCalculator::TableMatrixCalculator(const Matrix& matrix, Field field,
                                             const DotEngine& engine)
    : input_count_(matrix.columns()), output_count_(matrix.rows()), engine_(engine) {
  // As few passes as can be, of outputs as even as can be.
  const std::size_t passes = (output_count_ + kDotCountMax - 1) / kDotCountMax;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    Group group;
    group.first = pass * output_count_ / passes;
    group.count = (pass + 1) * output_count_ / passes - group.first;
    group.factors.reserve(input_count_ * group.count);
    for (std::size_t c = 0; c < input_count_; ++c) {
      for (std::size_t j = 0; j < group.count; ++j)
        group.factors.push_back(MakeFactor(field, matrix.At(group.first + j, c)));
    }
    group.first_is_sum = true;
    for (std::size_t c = 0; c < input_count_; ++c)
      group.first_is_sum &= group.factors[c * group.count].value == 1;
    groups_.push_back(std::move(group));
  }
}

void TableMatrixCalculator::Encode(const std::byte* const* inputs, std::byte* const* outputs,
                                   std::size_t length) const {
  DotArguments arguments;
  arguments.inputs = inputs;
  arguments.input_count = input_count_;
  // With more than one pass, inputs come from memory once and from the cache in the later passes.
  constexpr std::size_t kInputsSize = std::size_t{64} << 10;
  const std::size_t chunk = groups_.size() == 1
                                ? length
                                : std::max<std::size_t>(512, kInputsSize / input_count_ / 64 * 64);
  for (std::size_t from = 0; from < length; from += chunk) {
    arguments.from = from;
    arguments.to = from + std::min(chunk, length - from);
    for (const Group& group : groups_) {
      arguments.outputs = outputs + group.first;
      arguments.output_count = group.count;
      arguments.factors = group.factors.data();
      arguments.first_is_sum = group.first_is_sum;
      engine_.run(arguments);
    }
  }
}

bool TableMatrixCalculator::Run(const std::byte* const* inputs, std::byte* const* outputs,
                                std::size_t length, std::uint32_t* crcs) const {
  RunWholeBlocks({inputs, input_count_, outputs, output_count_, length}, crcs,
                 [this](const std::byte* const* from, std::byte* const* to, std::size_t size) {
                   Encode(from, to, size);
                 });
  return true;
}

}  // namespace ring::ec_offload
