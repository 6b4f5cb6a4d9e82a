// ring/node/scrub/scrub_values.h — values against their checksums, and members' copies against
// their coordinator's versions.
//
// What:      ScrubComparer is the member's side: it compares a batch of versions with its own lines
//            and bytes once it folded them. ScrubValueWalk is the coordinator's: it sums the values
//            of one shard, and sends what it committed to the members in batches.
// Shape:     one batch of up to 64 versions of one memgest is under way; to a replica its bytes
//            count, to a parity only the metadata.
// Ownership: borrow the node.
// Threads:   one, the node's.
// Errors:    a member that does not answer ends the walk (ScrubTally::failure), and so does one
//            that has its log from another node: who was replaced and has not heard of it yet has
//            no say (L9). A difference is a mismatch unless the version was collected meanwhile:
//            the collection was queued before any member could fold it.
// Cost:      Step sums at most kStepBytes, or one value.
// Source:    rules E3, L9, S12.
#ifndef RING_NODE_SCRUB_SCRUB_VALUES_H_
#define RING_NODE_SCRUB_SCRUB_VALUES_H_

#include <memory>
#include <vector>

#include "ring/coordinator/shard.h"
#include "ring/node/control/control_port.h"
#include "ring/node/scrub/scrub_tally.h"

namespace ring::node {

class Node;

class ScrubComparer {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  explicit ScrubComparer(Node* node);
  void Progress(std::uint64_t now_ns);
  bool busy() const { return !waiting_.empty(); }

 private:
  struct Waiting {
    NodeId from;
    ScrubVersions versions;
    std::uint64_t deadline_ns = 0;
    ControlReply reply;
  };
  // False: not folded yet.
  bool Step(Waiting& waiting, std::uint64_t now_ns);

  Node* node_;
  std::vector<Waiting> waiting_;
};

class ScrubValueWalk {
 public:
  static constexpr std::uint64_t kStepBytes = 64 * 1024;
  static constexpr std::uint32_t kStepLines = 1024;  // looked at

  ScrubValueWalk(Node* node, GroupId group, ShardId shard, ScrubTally* tally);
  ~ScrubValueWalk();

  // Looks at some lines; nothing while members are asked.
  void Step();
  bool done() const { return done_ && *left_ == 0; }
  bool waiting() const { return *left_ > 0; }

 private:
  coordinator::ShardCoordinator* Shard() const;
  // Whether the line is done with; false: it belongs to the next batch.
  bool Look(coordinator::ShardCoordinator& shard, std::uint32_t line, std::uint64_t* bytes);
  void SendBatch(coordinator::ShardCoordinator& shard);
  void Ask(NodeId member, int attempt);
  void OnAnswer(NodeId member, int attempt, const absl::StatusOr<std::string>& answer);
  void OnFinding(NodeId member, const ScrubFindings::One& one);

  Node* node_;
  GroupId group_;
  ShardId shard_;
  ScrubTally* tally_;
  std::uint32_t line_ = 0;
  bool done_ = false;
  ScrubVersions batch_;
  std::shared_ptr<int>
      left_;  // members asked; outlives the walk in callbacks, which then do nothing
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_VALUES_H_
