// srs/codec.h — SRS(k,m,s) ready for use: layout, generator, and the calculators that move bytes.
//
// What:      Codec: the delta calculator of a column (a put), a block's contribution to a parity
//            (scrub), and rescaling of an encoded delta from one parity to another (S8). AddRecipe:
//            execution of a decode recipe (recovery).
// Shape:     one for a memgest's code; who moves its bytes borrows it. data[c] for the k columns
//            and parities[j] for the m parities of one row, all of one length.
// Units:     bytes; any length, any alignment.
// Ownership: value; borrows buffers for the call.
// Threads:   immutable after construction; share one among threads.
// Errors:    Create refuses what Validate and MakeGenerator refuse.
// Cost:      Create: as MakeGenerator. Delta: a table for each parity. AddRecipe: one multiply-add
//            pass for each term.
// Source:    Ring sections 3.2, 3.3 and 5.3; rules S3, S8, S9.
#ifndef RING_SRS_CODEC_H_
#define RING_SRS_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/delta_calculator.h"
#include "ec_offload/matrix.h"
#include "srs/decode_plan.h"
#include "srs/layout.h"

namespace ring::srs {

class Codec {
 public:
  static absl::StatusOr<Codec> Create(const SrsParameters& parameters,
                                      std::uint64_t block_size_min = kBlockSizeMin);

  const Layout& layout() const { return layout_; }
  const SrsParameters& parameters() const { return layout_.parameters(); }
  const ec_offload::Matrix& generator() const { return generator_; }
  ec_offload::gf256::Element coefficient(std::uint32_t parity, std::uint32_t column) const {
    return generator_.At(parity, column);
  }

  // The calculator of a put into a block of `column` (Position::column).
  ec_offload::DeltaCalculator Delta(std::uint32_t column,
                                    ec_offload::DeltaCalculator::Slot slot) const;

  // parity ^= g_jc * data: one block's contribution.
  void AddContribution(std::byte* parity, std::uint32_t parity_index, const std::byte* data,
                       std::uint32_t column, std::size_t length) const;

  // destination = the factor that turns parity `from`'s encoded delta of a block in `column` into
  // parity `to`'s, times source. In place where destination is source.
  void Rescale(std::byte* destination, const std::byte* source, std::uint32_t column,
               std::uint32_t from, std::uint32_t to, std::size_t length) const;
  // The same for the payload of a log entry: `length` bytes at `offset` of a shard's heap, block by
  // block, each with the factor of its column.
  void RescalePayload(std::byte* destination, const std::byte* source, std::uint32_t shard,
                      std::uint64_t offset, std::uint32_t from, std::uint32_t to,
                      std::size_t length) const;

 private:
  Codec(const Layout& layout, ec_offload::Matrix generator);

  Layout layout_;
  ec_offload::Matrix generator_;
};

// destination ^= the recipe's lost block. Survivors are data[column] and parities[parity]; blocks
// that the recipe does not name may be null. REQUIRES: destination is none of the survivors.
void AddRecipe(const Recipe& recipe, absl::Span<const std::byte* const> data,
               absl::Span<const std::byte* const> parities, std::byte* destination,
               std::size_t length);

}  // namespace ring::srs

#endif  // RING_SRS_CODEC_H_
