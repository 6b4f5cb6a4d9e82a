// ring/node/recovery/degraded_decoder.h — asks parity nodes for blocks that are here, for degraded
// reads.
//
// What:      DegradedDecoder sends the Decode that a new coordinator sends for a Lost block
//            (block_fetch.h), of a block that is Present; the parities that have all of the shard
//            take turns. The parity node takes no byte of the asking column, so what comes is made
//            of the others alone.
// Ownership: borrows the node, which owns it.
// Threads:   one, the node's.
// Errors:    told to the shard: kUnavailable without a parity that has everything, and those of
//            DecodeJob.
// Source:    INEC (SC'20), section IV-B; rules S2, S7.
#ifndef RING_NODE_RECOVERY_DEGRADED_DECODER_H_
#define RING_NODE_RECOVERY_DEGRADED_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/coordinator/block_decoder.h"
#include "ring/coordinator/shard.h"

namespace ring::node {

class Node;

class DegradedDecoder final : public coordinator::BlockDecoder {
 public:
  explicit DegradedDecoder(Node* node) : node_(node) {}
  void Decode(coordinator::ShardCoordinator& shard, MemgestId memgest, std::uint32_t block,
              std::uint64_t index, std::uint32_t left_out, std::uint64_t token) override;

 private:
  std::vector<NodeId> Sources(const coordinator::ShardOptions& shard, MemgestId memgest) const;

  Node* node_;
  std::size_t next_source_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_DEGRADED_DECODER_H_
