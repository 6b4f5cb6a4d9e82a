// ring/node/recovery/takeover.h — a new coordinator fetches what its shard was.
//
// What:      Takeover asks the sources of the adopted logs for snapshots and for the entries that
//            they have not folded, and folds them: what a member of all memgests of the shard would
//            have. Values come later, on demand.
// Shape:     all is asked for at once (piece_fetch.h), and folded in order, snapshots first; from
//            the beginning again when something fails.
// Ownership: owns the folded state until Release; borrows the node's control port.
// Threads:   one, the node's.
// Errors:    told to `done`, once: the sources' own, or kInvalidArgument from what they sent.
// Cost:      two round trips and what the bytes take, but for very large shards.
// Source:    steps 4 and 5 of an epoch change; Ring section 5.5.
#ifndef RING_NODE_RECOVERY_TAKEOVER_H_
#define RING_NODE_RECOVERY_TAKEOVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memgest/log_tail.h"
#include "memgest/member_shard.h"
#include "ring/node/recovery/piece_fetch.h"
#include "ring/node/recovery/shipped_tail.h"
#include "ring/recovery/epoch_change.h"

namespace ring::node {

// Of a node at once: one shard of each group at most.
inline constexpr std::size_t kTakeoversMax = 16;

class Takeover {
 public:
  using Done = std::function<void(const absl::Status&)>;
  Takeover(rdma::Device* device, ControlPort* control, const recovery::EpochPlan& plan,
           const std::vector<recovery::AdoptedLog>& logs, Done done);
  ~Takeover();

  void Start() { fetch_->Start(); }
  // REQUIRES: done with success.
  std::unique_ptr<memgest::MemberShard> Release() { return std::move(store_); }
  // What members that go on lack.
  ShippedTail& tail() { return tail_; }

 private:
  // Of what is fetched, by its place there.
  struct Step {
    recovery::FetchKind kind = recovery::FetchKind::kSnapshot;
    MemgestId memgest;           // a tail's, as is what follows
    Role role;                   // of the source
    std::uint64_t applied = 0;   // there
    std::uint64_t shortest = 0;  // of the members that go on
  };

  bool AskAgain(std::size_t step, const absl::Status& status, recovery::FetchRequest* request);
  absl::Status TakePiece(std::size_t step, std::uint32_t number, absl::string_view piece,
                         bool last);
  absl::Status TakeEntry(const Step& step, const memgest::EntryView& entry);

  std::unique_ptr<memgest::MemberShard> store_;
  std::vector<Step> steps_;
  std::unique_ptr<memgest::TailDecoder> decoder_;
  ShippedTail tail_;
  std::unique_ptr<PieceFetch> fetch_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_TAKEOVER_H_
