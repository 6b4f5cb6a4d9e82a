// ring/node/recovery/snapshot_shipment.h — a snapshot on its way to a member that joins.
//
// What:      SnapshotShipment sends the pieces in order, one under way: the next one when the last
//            was installed, and at the pace of recovery: gets at other shards would wait for it
//            else. A piece whose outcome is not known, or for which there is no room just now, is
//            sent again; the member knows one that it has taken.
// Shape:     one per join of a role; a join that begins again takes a new snapshot.
// Ownership: owns the piece under way; borrows the pace.
// Threads:   one, the node's. `done` is called from Progress or from a control callback, once.
// Errors:    told to `done`: what the member says (kInvalidArgument, kAborted: begin again), or who
//            gives the pieces; also what passes by itself when it has been said for kPatienceNs. A
//            member that does not answer is waited for longer: it may be slow, and a new snapshot
//            would come behind this one. Nothing taken for kSilenceNs: kDeadlineExceeded.
// Source:    rule L7.
#ifndef RING_NODE_RECOVERY_SNAPSHOT_SHIPMENT_H_
#define RING_NODE_RECOVERY_SNAPSHOT_SHIPMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "memgest/snapshot_cursor.h"
#include "ring/base/pace.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/join_message.h"

namespace ring::node {

class SnapshotShipment {
 public:
  static constexpr std::uint64_t kPatienceNs = 3'000'000'000;
  static constexpr std::uint64_t kSilenceNs = 3 * AnswerTimes::kStretchedMaxNs;
  // Sends a kInstall to the member, and tells what came of it.
  using Send = std::function<void(std::string body, std::uint64_t timeout_ns, ControlReply done)>;
  using Now = std::function<std::uint64_t()>;
  // The next piece of the snapshot. Not called behind the last one.
  using Next = std::function<absl::StatusOr<memgest::SnapshotPiece>()>;
  using Done = std::function<void(const absl::Status&)>;

  // place: whom it is for; the piece is filled in.
  SnapshotShipment(Send send, Now now, Pace* pace, const recovery::InstallRequest& place, Next next,
                   Done done);

  // Sends what may be sent: the first piece, what had to wait, and again what failed. hurries:
  // whether the shard has to wait for the member soon, so that nothing waits for the pace.
  void Progress(std::uint64_t now_ns, bool hurries);

 private:
  void SendAtPace(std::uint64_t now_ns);
  void SendPiece();
  void OnAnswer(const absl::Status& status);
  void End(const absl::Status& status);
  bool GoesOn(const absl::Status& status) const;

  Send send_;
  Now now_;
  Pace* pace_;
  recovery::InstallRequest place_;
  Next next_;
  Done done_;
  memgest::SnapshotPiece piece_;  // no bytes: to be taken
  bool asked_ = false;
  bool hurries_ = false;
  bool over_ = false;
  std::uint64_t retry_ns_ = 0;
  std::uint64_t taken_ns_ = 0;      // when a piece was, last
  std::uint64_t unrefused_ns_ = 0;  // ... or may have been
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_SNAPSHOT_SHIPMENT_H_
