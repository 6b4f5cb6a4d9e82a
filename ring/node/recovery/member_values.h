// ring/node/recovery/member_values.h — brings values to a member that joined without them.
//
// What:      MemberValues goes over the kAbsent lines of shards that this node holds, asks nodes
//            that have every value of the memgest for the bytes, and installs them by slot, version
//            and CRC. Nobody waits for one: all of it is background.
// Shape:     one a node; kFetchesMax values under way, of pieces of kAskedMax bytes, within the
//            node's Pace. A held shard is gone over from the beginning again as long as something
//            is absent in it.
// Ownership: borrows member port, control port and pace.
// Threads:   one, the node's.
// Errors:    a value that a source has not is asked of the next one in the next round: it may have
//            been replaced meanwhile, or its source be behind. Without memory for what comes (F11)
//            a shard pauses, ever longer, and that is logged once.
// Cost:      nothing while no value is absent: one load a held shard.
// Source:    rules E3, E6, S5, I4; docs/GLOSSARY.md (data-complete).
#ifndef RING_NODE_RECOVERY_MEMBER_VALUES_H_
#define RING_NODE_RECOVERY_MEMBER_VALUES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ring/base/pace.h"
#include "ring/node/control/control_port.h"
#include "ring/node/member_port.h"
#include "ring/node/recovery/room_pause.h"
#include "ring/node/recovery/value_calls.h"

namespace ring::node {

class MemberValues {
 public:
  static constexpr std::size_t kFetchesMax = 64;
  static constexpr std::uint64_t kAskedMax = 16 * recovery::kValuePieceSize;

  MemberValues(MemberPort* members, ControlPort* control, Pace* pace);

  void Progress(std::uint64_t now_ns);

 private:
  // By (group, shard).
  struct Walk {
    std::uint32_t line = 0;
    std::uint32_t round = 0;
    std::uint64_t pause_until_ns = 0;  // between rounds
    RoomPause room;
  };
  struct Fetch {
    GroupId group;
    ShardId shard;
    Epoch epoch;
    MemgestId memgest;
    std::uint32_t line = 0;
    Version version;
    std::uint32_t length = 0;
    NodeId source;
    CallWait wait = CallWait::kAsSaid;
    std::string bytes;
    std::uint32_t piece = 0;
  };

  void GoOn(MemberPort::HeldShard& held, std::uint64_t now_ns);
  std::vector<NodeId> SourcesOf(const MemberPort::HeldShard& held, MemgestId memgest) const;
  void Ask(std::uint64_t id);
  void Forget(std::uint64_t id);
  void OnPiece(std::uint64_t id, const absl::StatusOr<std::string>& bytes);
  void Install(const Fetch& fetch);

  MemberPort* members_;
  ControlPort* control_;
  Pace* pace_;
  ValueCalls calls_;
  absl::flat_hash_map<std::uint32_t, Walk> walks_;
  absl::flat_hash_map<std::uint64_t, Fetch> fetches_;
  std::uint64_t asked_ = 0;  // bytes of answers, at most
  std::uint64_t next_id_ = 1;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_MEMBER_VALUES_H_
