// ring/recovery/row_decode.h — what a Lost block of a parity row can be decoded from.
//
// What:      CompleteParities: the parity nodes of a row that have everything the shards of its
//            columns, or of some of them, ever committed. PlanBlock: the recipe of one block from
//            the columns that are there and as few parities as its rank needs, or that there is
//            none.
// Shape:     masks: bit c is column c, bit j is parity j.
// Ownership: values.
// Threads:   pure.
// Errors:    none: what cannot be decoded is a result.
// Source:    rules S6, S7, L7; Ring section 3.2.
#ifndef RING_RECOVERY_ROW_DECODE_H_
#define RING_RECOVERY_ROW_DECODE_H_

#include <cstdint>
#include <optional>

#include "ec_offload/matrix.h"
#include "ring/cluster/view.h"
#include "ring/protocol/memgest_descriptor.h"
#include "ring/recovery/block_message.h"
#include "srs/decode_plan.h"
#include "srs/layout.h"

namespace ring::recovery {

constexpr std::uint32_t kAllColumns = ~0u;

// Parities that the last Normal records of the columns' shards name as data-complete, or as
// counting from an extent on that is not behind this one (S6), and whose holders are still those of
// the records.
std::uint32_t CompleteParities(const cluster::View& view, const RowName& name,
                               const protocol::MemgestDescriptor& memgest,
                               const srs::Layout& layout, std::uint32_t columns = kAllColumns);

// The block in `column`. first: the parity to use if one is enough and it is one of them. REQUIRES:
// column is one of the lost.
std::optional<srs::Recipe> PlanBlock(const ec_offload::Matrix& generator, std::uint32_t column,
                                     std::uint32_t lost_columns, std::uint32_t parities,
                                     std::uint32_t first);

// The parities that a recipe takes.
std::uint32_t ParitiesOf(const srs::Recipe& recipe);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_ROW_DECODE_H_
