// ring/node/credit_lines.h — the words in which members say how far they have folded.
//
// What:      CreditLines lends a coordinator's log connections the lines that their members write
//            to. A line belongs to the start of the node that was given it first: it is lent again
//            for connections to that one only, until it is known to be dead.
// Shape:     a member that was stopped in the middle of its store goes on with it when it is woken,
//            whatever was revoked meanwhile: in a line of another member's ring it would be taken
//            for credit, and entries written over. In a line of its own it comes before all that
//            the member does on later connections: who zeroes the word once such a one is
//            established never sees it.
// Units:     lines of 64 bytes.
// Ownership: owns what is free; a Buffer that was taken is its user's.
// Threads:   one, the node's.
// Errors:    as BufferPool. A node that is never heard of again costs as many lines as it had
//            connections at a time.
// Source:    rules L5, E5.
#ifndef RING_NODE_CREDIT_LINES_H_
#define RING_NODE_CREDIT_LINES_H_

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ring/base/align.h"
#include "ring/base/id.h"
#include "ring/cluster/normal_record.h"
#include "ring/node/buffer_pool.h"

namespace ring::node {

class CreditLines {
 public:
  CreditLines(rdma::Device* device, std::size_t count_max)
      : device_(device), pool_(device, kCacheLine, count_max) {}

  // Zeroed, for the member to write to.
  absl::StatusOr<BufferPool::Buffer> Take(const cluster::Holder& member);
  // REQUIRES: the queue pair that it was for is gone.
  void GiveBack(const cluster::Holder& member, BufferPool::Buffer line);
  // The node has another incarnation now, and its process is gone. Incarnation(): it was added, and
  // no start of it registered, which says nothing of the process that it had (L5).
  void OnIncarnation(NodeId node, Incarnation incarnation);

 private:
  rdma::Device* device_;
  BufferPool pool_;
  // Without regions. Of each node, those of the start that had them; Incarnation() if that was not
  // known.
  absl::flat_hash_map<NodeId, std::vector<std::pair<Incarnation, BufferPool::Buffer>>> free_;
};

}  // namespace ring::node

#endif  // RING_NODE_CREDIT_LINES_H_
