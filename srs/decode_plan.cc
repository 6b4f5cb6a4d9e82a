#include "srs/decode_plan.h"

#include <bit>
#include <optional>

#include "ring/base/id.h"
#include "ring/base/mutant.h"

namespace ring::srs {
namespace {

using ec_offload::Matrix;
using ec_offload::gf256::Element;

// The rows of the systematic matrix [I; G] that survive, and their names.
struct Survivors {
  Matrix basis;
  std::vector<BlockName> names;
};

Survivors SurvivorsOf(const Matrix& generator, std::uint32_t lost_columns,
                      std::uint32_t lost_parities) {
  const auto k = static_cast<std::uint32_t>(generator.columns());
  const auto m = static_cast<std::uint32_t>(generator.rows());
  const Matrix identity = Matrix::Identity(k);
  Survivors survivors{Matrix(0, k), {}};
  for (std::uint32_t c = 0; c < k; ++c) {
    if (Has(lost_columns, c)) continue;
    survivors.basis.AppendRow(identity.Row(c));
    survivors.names.push_back({false, c});
  }
  for (std::uint32_t j = 0; j < m; ++j) {
    if (Has(lost_parities, j)) continue;
    survivors.basis.AppendRow(generator.Row(j));
    survivors.names.push_back({true, j});
  }
  return survivors;
}

void PlanBlock(const Survivors& survivors, BlockName lost, absl::Span<const Element> target,
               RowPlan& plan) {
  const std::optional<std::vector<Element>> solution =
      ec_offload::SolveRow(survivors.basis, target);
  if (!solution) {
    if (Mutant("S7-rank") && survivors.names.size() >= target.size()) {
      plan.recipes.push_back({lost, {}});
    } else {
      plan.undecodable.push_back(lost);
    }
    return;
  }
  Recipe recipe{lost, {}};
  for (std::size_t i = 0; i < solution->size(); ++i) {
    if ((*solution)[i] != 0) recipe.terms.push_back({survivors.names[i], (*solution)[i]});
  }
  plan.recipes.push_back(std::move(recipe));
}

}  // namespace

RowPlan PlanRow(const Matrix& generator, std::uint32_t lost_columns, std::uint32_t lost_parities) {
  RowPlan plan;
  plan.lost_columns = lost_columns;
  const Survivors survivors = SurvivorsOf(generator, lost_columns, lost_parities);
  const Matrix identity = Matrix::Identity(generator.columns());
  for (std::uint32_t c = 0; c < generator.columns(); ++c) {
    if (Has(lost_columns, c)) PlanBlock(survivors, {false, c}, identity.Row(c), plan);
  }
  for (std::uint32_t j = 0; j < generator.rows(); ++j) {
    if (Has(lost_parities, j)) PlanBlock(survivors, {true, j}, generator.Row(j), plan);
  }
  return plan;
}

bool RowDecodable(const Matrix& generator, std::uint32_t lost_columns,
                  std::uint32_t lost_parities) {
  const auto lost =
      static_cast<std::size_t>(std::popcount(lost_columns) + std::popcount(lost_parities));
  // Fewer than k survivors cannot have rank k.
  if (lost > generator.rows()) return false;
  return Rank(SurvivorsOf(generator, lost_columns, lost_parities).basis) == generator.columns();
}

}  // namespace ring::srs
