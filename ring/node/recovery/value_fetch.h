// ring/node/recovery/value_fetch.h — values of replicated memgests, for a coordinator that took
// its shard over.
//
// What:      ValueFetch asks members that have every value for the bytes of one version, writes
//            them into its slot, and tells the shard: first what operations wait for, then, in the
//            background, all the rest.
// Shape:     one per shard that was taken over; kUnderWayMax fetches under way, of pieces of
//            kAskedMax bytes and values of kAssembledMax (or one that is longer); the others wait
//            in the order in which they were wanted (F11). The background wants kBackgroundMax of
//            them at once, of pieces of kBackgroundAskedMax bytes.
// Ownership: borrows shard, control port and pace.
// Threads:   one, the node's.
// Errors:    a source that does not answer, or has not folded the adopted log yet, is asked again,
//            and others are, first from then on; so is everyone when bytes do not have the
//            version's checksum. A value is lost when each source refused it kRefusalsOfEach times,
//            until the next record. Where nobody is complete (E8: that loss was accepted), whoever
//            is active may have some, and one refusal of each is enough.
// Source:    Ring section 5.5 (on-demand recovery); rules S5, S12, E3, E8, F10, I4.
#ifndef RING_NODE_RECOVERY_VALUE_FETCH_H_
#define RING_NODE_RECOVERY_VALUE_FETCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ring/base/pace.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/takeover.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {

class ValueFetch {
 public:
  static constexpr std::size_t kUnderWayMax = 48;
  static constexpr std::uint64_t kAskedMax = 12 * recovery::kValuePieceSize;
  static constexpr std::size_t kBackgroundMax = 32;
  static constexpr std::uint64_t kBackgroundAskedMax = 8 * recovery::kValuePieceSize;
  static constexpr std::uint64_t kAssembledMax = std::uint64_t{32} << 20;
  static constexpr int kRefusalsOfEach = 100;
  static constexpr int kLostPerStep = 64;  // that are found lost without asking anybody
  static constexpr std::uint64_t kTimeoutNs = 200'000'000;

  // Sends the request for a value of that length; done: once, with the body of the answer.
  using Send = std::function<void(NodeId source, const recovery::FetchRequest& request,
                                  std::uint32_t length, CallWait wait, ControlReply done)>;

  // on_value: operations of the shard may go on.
  ValueFetch(Send send, Pace* pace, GroupId group, ShardId shard, std::function<void()> on_value);
  ~ValueFetch();

  // The coordinator that was just taken over: its logs end where they were adopted. Before anything
  // else.
  void Attach(coordinator::ShardCoordinator* shard);
  // The record of the present epoch: who has all values. Whoever came back may have what was lost.
  void SetSources(Epoch epoch, const cluster::NormalRecord& normal);
  // As ValueFetcher's, for lines of replicated memgests.
  bool CanBring(std::uint32_t line, MemgestId memgest) const;
  void Want(std::uint32_t line, Version version);
  // Asks again what failed, and goes on in the background.
  void Progress(std::uint64_t now_ns);
  bool busy() const { return !fetches_.empty() || !walked_; }

 private:
  struct Fetch {
    Version version;
    MemgestId memgest;
    std::uint32_t length = 0;
    bool started = false;    // else it waits
    bool tried = false;      // its source is its own by now, not preferred_
    std::size_t source = 0;  // of the record's holders, tried in turn from preferred_ on
    NodeId asked_of;
    std::map<NodeId, int> refusals;
    std::string bytes;
    std::uint32_t crc = 0;  // of them
    std::uint32_t piece = 0;
    std::uint64_t call = 0;      // that is under way; 0: none
    std::uint64_t retry_ns = 0;  // not to be started before
  };

  // Asks for those that wait, as far as there is room.
  void StartNext();
  // A fetch that was started begins anew, behind the others that wait.
  void PutBack(std::uint32_t line, Fetch& fetch);
  void Release(const Fetch& fetch);  // the room that it has, if it was started
  void Forget(std::uint32_t line);
  void ForgetCollected(std::uint32_t line);
  void Ask(std::uint32_t line, Fetch& fetch);
  void OnPiece(std::uint32_t line, const absl::StatusOr<std::string>& bytes);
  void OnFailure(std::uint32_t line, Fetch& fetch, const absl::Status& status);
  bool EachRefused(const Fetch& fetch) const;
  void Finish(std::uint32_t line, bool ok);
  absl::Status Store(std::uint32_t line, const Fetch& fetch);
  bool AnyComplete(const cluster::MemgestNormal& set) const;
  std::vector<NodeId> SourcesOf(MemgestId memgest) const;
  // E8: the shard serves, and goes on without what it lacks of this memgest.
  bool NobodyHas(MemgestId memgest) const;
  // Of those that wait, what nobody has any more.
  void FinishLost();

  Send send_;
  Pace* pace_;
  GroupId group_;
  ShardId shard_id_;
  std::function<void()> on_value_;
  Epoch epoch_;
  cluster::NormalRecord normal_;
  coordinator::ShardCoordinator* shard_ = nullptr;
  std::map<MemgestId, std::uint64_t> adopted_;         // last index of each log
  absl::flat_hash_map<std::uint32_t, Fetch> fetches_;  // by line
  std::deque<std::uint32_t> waiting_;                  // of those, what was not started
  std::size_t under_way_ = 0;
  std::uint64_t assembled_ = 0;  // at most, of those under way
  std::uint64_t asked_ = 0;      // bytes of answers, at most, of those under way
  std::uint64_t wanted_ = 0;     // ... of all
  std::size_t preferred_ = 0;    // where a fetch begins: who answered last, or behind who failed
  std::uint32_t walk_line_ = 0;
  bool walked_ = false;
  std::uint64_t last_call_ = 0;
  std::uint64_t now_ns_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_VALUE_FETCH_H_
