// ring/recovery/repair_graph.h — how the blocks of a parity row that are there become the one that
// is lost.
//
// What:      PlanPartials: the data terms of a recipe, laid out as the memgest's repair scheme says
//            (ec_offload/graph), as the trees of partial sums that the decoding parity node asks
//            for. It adds them, and the parities' terms.
// Shape:     a tree is of one slice of the block. rs has none: the blocks themselves go to the
//            parity node. ppr: one binomial tree. ecpipe: a chain for each slice. triec: every
//            block by itself, multiplied where it is.
// Ownership: values.
// Threads:   pure.
// Errors:    none: a recipe is right, or a bug.
// Source:    INEC (SC'20), section III-D; PPR (EuroSys'16); ECPipe (ATC'17); TriEC (SC'19).
#ifndef RING_RECOVERY_REPAIR_GRAPH_H_
#define RING_RECOVERY_REPAIR_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/protocol/memgest_descriptor.h"
#include "ring/recovery/partial_message.h"
#include "srs/decode_plan.h"
#include "srs/layout.h"

namespace ring::recovery {

struct PartialTree {
  std::uint32_t offset = 0;  // of the slice
  std::uint32_t length = 0;
  std::vector<PartialStep> steps;
};

// Slices of a chain are of this size, or larger where there would be more than kSlicesMax.
inline constexpr std::size_t kChainSliceSize = 32 * 1024;
inline constexpr std::size_t kSlicesMax = 16;

// Of the row's blocks. REQUIRES: repair is not rs.
std::vector<PartialTree> PlanPartials(protocol::RepairScheme repair, const srs::Recipe& recipe,
                                      const srs::Layout& layout, std::uint32_t extent,
                                      std::uint32_t row);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_REPAIR_GRAPH_H_
