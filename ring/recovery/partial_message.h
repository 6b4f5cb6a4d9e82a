// ring/recovery/partial_message.h — what nodes of a repair graph ask each other for.
//
// What:      A Partial is a sum over a part of a parity row: the receiver's frozen block times its
//            coefficient, and the partial sums of the nodes below it, which it asks for in turn.
// Shape:     a body of a control message, as block_message.h has them. The steps are a tree in
//            preorder, the receiver's first, each with the number of its children. Answered by
//            `length` bytes, none if all are zero: as a message, which if late has no memory to
//            land in (L5).
// Units:     bytes of the blocks: offset and length of the slice that is asked for.
// Ownership: values.
// Threads:   pure.
// Errors:    DecodePartialRequest: kInvalidArgument; steps that are no tree among them.
// Source:    INEC (SC'20), recv-ec-send; PPR, ECPipe and TriEC there; rule S2.
#ifndef RING_RECOVERY_PARTIAL_MESSAGE_H_
#define RING_RECOVERY_PARTIAL_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/base/id.h"

namespace ring::recovery {

struct PartialStep {
  ShardId shard;  // whose coordinator has the block
  std::uint32_t block = 0;
  std::uint8_t coefficient = 0;
  std::uint8_t child_count = 0;
  friend bool operator==(const PartialStep&, const PartialStep&) = default;
};

struct PartialRequest {
  static constexpr std::size_t kStepsMax = 16;  // k, at most

  GroupId group;
  MemgestId memgest;
  Epoch epoch;
  NodeId reader;            // for whom the blocks are frozen
  std::uint64_t token = 0;  // of the freezes
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  std::vector<PartialStep> steps;
  friend bool operator==(const PartialRequest&, const PartialRequest&) = default;
};

// The subtrees below the first step. REQUIRES: the steps are a tree.
std::vector<absl::Span<const PartialStep>> Children(absl::Span<const PartialStep> steps);

std::string Encode(const PartialRequest& request);
absl::StatusOr<PartialRequest> DecodePartialRequest(absl::string_view bytes);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_PARTIAL_MESSAGE_H_
