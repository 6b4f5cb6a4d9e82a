// ring/node/value_fetch.h — values of replicated memgests, for a coordinator that took its shard
// over.
//
// What:      ValueFetch asks members that have every value for the bytes of one version, writes
//            them into its slot, and tells the shard: first what operations wait for, then, in the
//            background, all the rest.
// Shape:     one per shard that was taken over; kBackgroundMax fetches under way in the background.
// Ownership: borrows shard, control port and pace.
// Threads:   one, the node's.
// Errors:    a source that does not answer is asked again, or another one; a value that each source
//            says it has not is lost, and told so.
// Source:    Ring section 5.5 (on-demand recovery); protocol rules S5, E3, I4.
#ifndef RING_NODE_VALUE_FETCH_H_
#define RING_NODE_VALUE_FETCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/takeover.h"
#include "ring/node/control_port.h"
#include "ring/recovery/fetch_message.h"
#include "ring/recovery/pace.h"

namespace ring::node {

class ValueFetch final : public coordinator::ValueFetcher {
 public:
  static constexpr std::size_t kBackgroundMax = 8;

  // on_value: operations of the shard may go on.
  ValueFetch(ControlPort* control, recovery::Pace* pace, GroupId group, ShardId shard,
             std::function<void()> on_value);
  ~ValueFetch() override;

  // The record of the present epoch: who has all values.
  void SetSources(Epoch epoch, const cluster::NormalRecord& normal);
  bool CanBring(std::uint32_t line, MemgestId memgest) const override;
  void Want(std::uint32_t line, Version version, coordinator::ShardCoordinator& shard) override;
  // Asks again what failed, and goes on in the background.
  void Progress(std::uint64_t now_ns, coordinator::ShardCoordinator& shard);
  bool busy() const { return !fetches_.empty() || !walked_; }

 private:
  struct Fetch {
    Version version;
    MemgestId memgest;
    std::size_t source = 0;  // of the record's holders, tried in turn
    std::size_t refusals = 0;
    std::string bytes;
    std::uint32_t piece = 0;
    bool asked = false;
    std::uint64_t retry_ns = 0;
  };

  void Ask(std::uint32_t line, Fetch& fetch);
  void OnPiece(std::uint32_t line, const absl::StatusOr<std::string>& bytes);
  void OnFailure(std::uint32_t line, Fetch& fetch, const absl::Status& status);
  void Finish(std::uint32_t line, bool ok);
  bool Store(std::uint32_t line, const Fetch& fetch);
  std::vector<NodeId> SourcesOf(MemgestId memgest) const;

  ControlPort* control_;
  recovery::Pace* pace_;
  GroupId group_;
  ShardId shard_id_;
  std::function<void()> on_value_;
  Epoch epoch_;
  cluster::NormalRecord normal_;
  coordinator::ShardCoordinator* shard_ = nullptr;
  absl::flat_hash_map<std::uint32_t, Fetch> fetches_;  // by line
  std::uint32_t walk_line_ = 0;
  bool walked_ = false;
  std::uint64_t now_ns_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace ring::node

#endif  // RING_NODE_VALUE_FETCH_H_
