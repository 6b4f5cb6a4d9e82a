// ring/node/recovery/recovery_source.h — what this node's shards have for those who take over or
// join.
//
// What:      Answers fetches (ring/recovery/fetch_message.h): a snapshot of logs as they are folded
//            now, the raw entries of a sealed ring behind an index, the value of a version, small
//            ones several at once: as a member, values also as the shard's coordinator.
// Shape:     snapshots and tails are begun with their first piece and kept until nobody asked for
//            kKeptNs; at most kPreparedMax of them. A tail is encoded in one step, a snapshot's
//            pieces as they are asked for. Each is given once, and in order: who misses one begins
//            again.
// Ownership: borrows the node.
// Threads:   one, the node's.
// Errors:    answered: kNotFound (no such version or prepared thing, or the shard's memory failed
//            here), kUnavailable (the shard is not held now, or there is no view yet),
//            kFailedPrecondition (another epoch was promised here), kOutOfRange (entries are in no
//            ring any more), kResourceExhausted; kAborted, the shard is not any more what the
//            snapshot is of.
// Source:    steps 4 and 5 of an epoch change; E3, S5.
#ifndef RING_NODE_RECOVERY_RECOVERY_SOURCE_H_
#define RING_NODE_RECOVERY_RECOVERY_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memgest/snapshot_cursor.h"
#include "ring/node/member_port.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {

class Node;

class RecoverySource {
 public:
  static constexpr std::uint64_t kKeptNs = 10'000'000'000;
  static constexpr std::size_t kPreparedMax = 64;
  // Who takes over asks for the next piece as soon as it has one.
  static constexpr std::uint64_t kAwaitNs = 2'000'000;

  // snapshot_piece_size: NodeOptions.
  RecoverySource(Node* node, std::size_t snapshot_piece_size);
  void Progress(std::uint64_t now_ns);
  // A question is likely to come now.
  bool busy() const { return busy_; }

 private:
  struct Prepared {
    recovery::FetchRequest request;  // the first
    std::shared_ptr<memgest::SnapshotCursor> snapshot;
    std::vector<std::string> tail;
    std::uint32_t given = 0;  // pieces
    std::uint64_t asked_ns = 0;
  };

  absl::StatusOr<std::string> Answer(absl::string_view body);
  // Everything that is fetched of the request's shard in its epoch is asked for now.
  void KeepAll(const recovery::FetchRequest& request);
  // A shard has one taker: what it asked for before, and left when another source failed it, is
  // nobody's.
  void ForgetEarlier(const recovery::FetchRequest& request);
  absl::StatusOr<Prepared> Prepare(const recovery::FetchRequest& request,
                                   MemberPort::HeldShard& held, std::uint64_t id) const;
  // *count: 0, more are to come.
  static absl::StatusOr<std::string> NextPiece(Prepared& prepared, std::uint32_t* count);
  absl::StatusOr<MemberPort::HeldShard*> FindHeld(const recovery::FetchRequest& request) const;
  absl::StatusOr<memgest::ValuePiece> ReadValue(const recovery::FetchRequest& request,
                                                std::size_t size) const;
  // size: of a piece.
  absl::StatusOr<std::string> Value(const recovery::FetchRequest& request, std::size_t size) const;
  absl::StatusOr<std::string> Values(absl::string_view body) const;

  Node* node_;
  std::size_t snapshot_piece_size_;
  absl::flat_hash_map<std::uint64_t, Prepared> prepared_;
  std::uint64_t last_id_ = 0;
  bool busy_ = false;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_RECOVERY_SOURCE_H_
