// ring/node/recovery/absent_values.h — brings values to a coordinator that took its shard over.
//
// What:      AbsentValues: of replicated memgests from members that hold them (value_fetch.h), of
//            coded ones by decoding their blocks (block_fetch.h).
// Shape:     one per shard that was taken over, through its epochs.
// Ownership: borrows control port and pace; Attach borrows the shard.
// Threads:   one, the node's.
// Errors:    those of its parts.
// Source:    Ring section 5.5 (on-demand recovery).
#ifndef RING_NODE_RECOVERY_ABSENT_VALUES_H_
#define RING_NODE_RECOVERY_ABSENT_VALUES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "ring/node/recovery/block_fetch.h"
#include "ring/node/recovery/value_calls.h"
#include "ring/node/recovery/value_fetch.h"

namespace ring::node {

class AbsentValues final : public coordinator::ValueFetcher {
 public:
  AbsentValues(ControlPort* control, Pace* pace, GroupId group, ShardId shard,
               std::function<void()> on_value)
      : control_(control),
        pace_(pace),
        on_value_(std::move(on_value)),
        calls_(control, ValueFetch::kTimeoutNs),
        replicated_(
            [this](NodeId source, const recovery::FetchRequest& request, std::uint32_t length,
                   CallWait wait, ControlReply done) {
              calls_.Send(source, request, length, wait, std::move(done));
            },
            pace, group, shard, on_value_) {}

  // The coordinator that was built with this as its fetcher. Before anything else.
  void Attach(coordinator::ShardCoordinator* shard) {
    shard_ = shard;
    replicated_.Attach(shard);
    coded_ = std::make_unique<BlockFetch>(control_, pace_, shard, on_value_);
  }
  // The record of the present epoch: who has what.
  void SetSources(Epoch epoch, const cluster::NormalRecord& normal) {
    replicated_.SetSources(epoch, normal);
    // Within an epoch what is gone stays so (docs/RECOVERY.md, "Known weaknesses").
    if (!coded_->recovery().SetSources(epoch, normal, shard_->options().s)) return;
    shard_->RetryLost([this](std::uint32_t line) {
      return IsCoded(MemgestId(shard_->lines().line(line).memgest)) && coded_->MayCome(line);
    });
  }
  void EndEpoch() { coded_->recovery().EndEpoch(); }
  void Progress(std::uint64_t now_ns) {
    replicated_.Progress(now_ns);
    calls_.Flush();
    coded_->recovery().Step(now_ns);
  }

  bool CanBring(std::uint32_t line, MemgestId memgest) const override {
    return IsCoded(memgest) ? coded_->CanBring(line) : replicated_.CanBring(line, memgest);
  }
  void Want(std::uint32_t line, Version version, coordinator::ShardCoordinator& shard) override {
    if (IsCoded(MemgestId(shard.lines().line(line).memgest))) return coded_->Want(line);
    replicated_.Want(line, version);
    calls_.Flush();  // somebody waits
  }

  const recovery::BlockRecovery& blocks() const { return coded_->recovery(); }

 private:
  bool IsCoded(MemgestId memgest) const { return shard_->FindMemgest(memgest)->coded(); }

  ControlPort* control_;
  Pace* pace_;
  std::function<void()> on_value_;
  coordinator::ShardCoordinator* shard_ = nullptr;
  ValueCalls calls_;
  ValueFetch replicated_;
  std::unique_ptr<BlockFetch> coded_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_ABSENT_VALUES_H_
