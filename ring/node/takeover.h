// ring/node/takeover.h — a new coordinator fetches what its shard was.
//
// What:      Takeover asks the sources of the adopted logs for snapshots and for the entries that
//            they have not folded, and folds them: what a member of all memgests of the shard would
//            have. Values come later, on demand.
// Shape:     one fetch at a time; from the beginning again when one fails.
// Ownership: owns the folded state until Release; borrows the node's control port.
// Threads:   one, the node's.
// Errors:    told to `done`, once: the sources' own, or kInvalidArgument from what they sent.
// Source:    protocol rules section 5, steps 4 and 5; Ring section 5.5.
#ifndef RING_NODE_TAKEOVER_H_
#define RING_NODE_TAKEOVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "memgest/log_tail.h"
#include "memgest/member_shard.h"
#include "ring/node/control_port.h"
#include "ring/recovery/epoch_change.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {

class Takeover {
 public:
  using Done = std::function<void(const absl::Status&)>;
  Takeover(rdma::Device* device, ControlPort* control, const recovery::EpochPlan& plan,
           const std::vector<recovery::AdoptedLog>& logs, Done done);
  ~Takeover();

  void Start();
  // REQUIRES: done with success.
  std::unique_ptr<memgest::MemberShard> Release() { return std::move(store_); }

 private:
  struct Step {
    recovery::FetchKind kind = recovery::FetchKind::kSnapshot;
    NodeId source;
    std::vector<MemgestId> memgests;
  };

  void Ask();
  absl::Status Take(const absl::StatusOr<std::string>& bytes);
  absl::Status TakePiece(const recovery::FetchAnswer& answer);

  ControlPort* control_;
  GroupId group_;
  ShardId shard_;
  Epoch epoch_;
  Done done_;
  std::unique_ptr<memgest::MemberShard> store_;
  std::vector<Step> steps_;
  std::size_t step_ = 0;
  std::uint64_t id_ = 0;  // of what the source prepared for this step
  std::uint32_t piece_ = 0;
  std::unique_ptr<memgest::TailDecoder> decoder_;
  std::shared_ptr<bool> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_TAKEOVER_H_
