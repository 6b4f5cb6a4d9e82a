#include "ec_offload/schemes/code.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ec_offload/coding_matrix.h"
#include "ec_offload/matrix_calculator.h"

namespace ring::ec_offload {
namespace {

absl::Status CheckCoding(const Matrix& coding, const MdsParameters& parameters) {
  if (coding.rows() != parameters.m || coding.columns() != parameters.k) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows=", coding.rows(), " columns=", coding.columns(), ": give m x k"));
  }
  return CheckMatrixElements(coding, parameters.field);
}

std::vector<std::size_t> Rows(absl::Span<const ChunkId> chunks) {
  return {chunks.begin(), chunks.end()};
}

}  // namespace

std::string ChunkNames(absl::Span<const ChunkId> chunks) {
  return absl::StrCat(chunks.size() == 1 ? "chunk " : "chunks ", absl::StrJoin(chunks, ", "));
}

absl::StatusOr<Code> MakeMdsCode(absl::string_view name, const MdsParameters& parameters) {
  Code code;
  code.name = absl::StrCat(name, "(", parameters.k, ",", parameters.m, ")");
  code.field = parameters.field;
  // Its limits are those of the code, whoever makes the matrix.
  absl::StatusOr<Matrix> coding = VandermondeCoding(code.field, parameters.k, parameters.m);
  if (!coding.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(code.name, ": ", coding.status().message()));
  }
  if (parameters.coding.has_value()) {
    coding = *parameters.coding;
    if (absl::Status status = CheckCoding(*coding, parameters); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(code.name, ": coding matrix: ", status.message()));
    }
  }
  code.generator = Matrix::Identity(parameters.k);
  for (std::size_t r = 0; r < parameters.m; ++r) code.generator.AppendRow(coding->Row(r));
  return code;
}

absl::StatusOr<Recipe> Combine(const Code& code, absl::Span<const ChunkId> survivors,
                               absl::Span<const ChunkId> wanted) {
  const Matrix basis = code.generator.SelectRows(Rows(survivors));
  Matrix factors(0, survivors.size());
  std::vector<ChunkId> unsolved;
  for (const ChunkId chunk : wanted) {
    const auto row = SolveRow(basis, code.generator.Row(chunk), code.field);
    if (row.has_value()) {
      factors.AppendRow(*row);
    } else {
      unsolved.push_back(chunk);
    }
  }
  if (!unsolved.empty()) {
    return absl::DataLossError(
        absl::StrCat(code.name, ": ", ChunkNames(unsolved),
                     " cannot be computed from what is left: ", ChunkNames(survivors)));
  }
  Recipe recipe;
  std::vector<std::size_t> used;
  for (std::size_t s = 0; s < survivors.size(); ++s) {
    bool needed = false;
    for (std::size_t r = 0; r < factors.rows(); ++r) needed |= factors.At(r, s) != 0;
    if (!needed) continue;
    used.push_back(s);
    recipe.helpers.push_back(survivors[s]);
  }
  recipe.factors = factors.SelectColumns(used);
  return recipe;
}

}  // namespace ring::ec_offload
