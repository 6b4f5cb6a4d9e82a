// tests/srs/row_plans.h — what lost nodes mean for the rows of an extent.
//
// What:      LostColumns of a row; PlanRows: the plan of each row; Decodable: all rows are.
// Shape:     one RowPlan for each of the l/k rows; every extent has the same ones.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_SRS_ROW_PLANS_H_
#define RING_TESTS_SRS_ROW_PLANS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ec_offload/matrix.h"
#include "ring/base/id.h"
#include "srs/decode_plan.h"
#include "srs/layout.h"

namespace ring::srs {

// Bit i of a mask is shard i, or parity i.
struct Losses {
  std::uint32_t shards = 0;
  std::uint32_t parities = 0;
};

// The columns of `row` whose shards are lost.
inline std::uint32_t LostColumns(const Layout& layout, std::uint32_t row,
                                 std::uint32_t lost_shards) {
  std::uint32_t lost = 0;
  for (std::uint32_t c = 0; c < layout.parameters().k; ++c) {
    if (Has(lost_shards, layout.BlockOf(0, row, c).shard)) lost |= 1U << c;
  }
  return lost;
}

inline std::vector<RowPlan> PlanRows(const Layout& layout, const ec_offload::Matrix& generator,
                                     const Losses& losses) {
  std::vector<RowPlan> rows;
  for (std::uint32_t p = 0; p < layout.row_count(); ++p) {
    rows.push_back(PlanRow(generator, LostColumns(layout, p, losses.shards), losses.parities));
  }
  return rows;
}

inline bool Decodable(const std::vector<RowPlan>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const RowPlan& row) { return row.decodable(); });
}

}  // namespace ring::srs

#endif  // RING_TESTS_SRS_ROW_PLANS_H_
