// srs/decode_plan.h — how lost blocks come back from the survivors, decided by rank for each parity
// row.
//
// What:      PlanRow: what each lost block of a parity row is as a combination of surviving blocks,
//            or that it cannot be decoded; RowDecodable: whether all of them can.
// Shape:     a recipe's terms prefer surviving data over parities, and lower parities over higher
//            ones; they are at most k.
// Units:     columns and parities count from 0; bit i of a mask is column i, or parity i.
// Threads:   pure.
// Errors:    none. An undecodable row is a result: S7, recoverability is by rank for each row,
//            never by counting losses.
// Cost:      cubic in k+m; for recovery.
// Source:    Ring section 3.2 (reduced system of Eqn (1)) and Appendix A.2.
#ifndef RING_SRS_DECODE_PLAN_H_
#define RING_SRS_DECODE_PLAN_H_

#include <cstdint>
#include <vector>

#include "ec_offload/matrix.h"

namespace ring::srs {

// A column's data block, or a parity's block, of one row.
struct BlockName {
  bool is_parity = false;
  std::uint32_t index = 0;  // column, or parity
  friend bool operator==(const BlockName&, const BlockName&) = default;
};

struct Term {
  BlockName survivor;
  ec_offload::gf256::Element coefficient = 0;  // never 0
};

// lost = sum of the terms.
struct Recipe {
  BlockName lost;
  std::vector<Term> terms;
};

struct RowPlan {
  std::uint32_t lost_columns = 0;  // mask
  // Every lost block that can be computed; of the others, `undecodable` has the columns and
  // parities.
  std::vector<Recipe> recipes;
  std::vector<BlockName> undecodable;
  bool decodable() const { return undecodable.empty(); }
};

// One row: lost columns and parities as masks.
RowPlan PlanRow(const ec_offload::Matrix& generator, std::uint32_t lost_columns,
                std::uint32_t lost_parities);

// Whether PlanRow finds every lost block, without making the plan: the survivors' rank is k.
bool RowDecodable(const ec_offload::Matrix& generator, std::uint32_t lost_columns,
                  std::uint32_t lost_parities);

}  // namespace ring::srs

#endif  // RING_SRS_DECODE_PLAN_H_
