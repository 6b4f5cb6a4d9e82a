// ring/coordinator/block_decoder.h — how a coordinator gets a block of its own from what others
// hold.
//
// What:      BlockDecoder: the port to the parity nodes, for degraded reads (degraded_read.cc).
// Shape:     one per node; an answer goes to the shard in the epoch that asked, or to nobody.
// Ownership: outlives the coordinators that ask.
// Threads:   one, the node's.
// Errors:    in the answer.
// Source:    INEC (SC'20), section IV-B; rules S2, S7.
#ifndef RING_COORDINATOR_BLOCK_DECODER_H_
#define RING_COORDINATOR_BLOCK_DECODER_H_

#include <cstdint>

#include "ring/base/id.h"

namespace ring::coordinator {

class ShardCoordinator;

class BlockDecoder {
 public:
  virtual ~BlockDecoder() = default;
  // The block as it is behind this entry of the shard's log, or a later one, without the row's
  // sources that are left out (Memgest::SourceMask; kDataLoss: it needs them); then
  // shard.OnDecoded(token, bytes), once, from within or later, unless the epoch ends first.
  virtual void Decode(ShardCoordinator& shard, MemgestId memgest, std::uint32_t block,
                      std::uint64_t index, std::uint32_t left_out, std::uint64_t token) = 0;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_BLOCK_DECODER_H_
