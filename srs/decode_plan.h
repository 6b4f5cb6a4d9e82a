// srs/decode_plan.h — how lost blocks come back from the survivors, decided by rank for each parity
// row.
//
// What:      MakeDecodePlan: for a set of lost shards and lost parities, what each lost block of
//            each parity row is as a combination of surviving blocks, or that a row cannot be
//            decoded.
// Shape:     one RowPlan for each of the l/k rows of an extent; every extent has the same plan. A
//            recipe's terms prefer surviving data over parities, and lower parities over higher
//            ones; they are at most k.
// Units:     columns, rows and parities count from 0.
// Threads:   pure.
// Errors:    kInvalidArgument for a loss that names no node. Undecodable rows are a result, not an
//            error: S7, recoverability is by rank for each row, never by counting losses.
// Cost:      cubic in k+m, once for each row; for recovery.
// Source:    Ring section 3.2 (reduced system of Eqn (1)) and Appendix A.2.
#ifndef RING_SRS_DECODE_PLAN_H_
#define RING_SRS_DECODE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/matrix.h"
#include "srs/layout.h"

namespace ring::srs {

// Bit i of a mask is shard i, parity i, or column i.
struct Losses {
  std::uint32_t shards = 0;
  std::uint32_t parities = 0;
};

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

struct DecodePlan {
  std::vector<RowPlan> rows;
  bool decodable() const;
  std::vector<std::uint32_t> UndecodableRows() const;
};

// One row: lost columns and parities as masks.
RowPlan PlanRow(const ec_offload::Matrix& generator, std::uint32_t lost_columns,
                std::uint32_t lost_parities);

// Whether PlanRow finds every lost block, without making the plan: the survivors' rank is k.
bool RowDecodable(const ec_offload::Matrix& generator, std::uint32_t lost_columns,
                  std::uint32_t lost_parities);

// The columns of `row` whose shards are lost.
std::uint32_t LostColumns(const Layout& layout, std::uint32_t row, std::uint32_t lost_shards);

absl::StatusOr<DecodePlan> MakeDecodePlan(const Layout& layout, const ec_offload::Matrix& generator,
                                          const Losses& losses);

}  // namespace ring::srs

#endif  // RING_SRS_DECODE_PLAN_H_
