#include "ring/node/recovery/held_memory.h"

#include <algorithm>
#include <utility>

#include "ring/base/wire.h"
#include "ring/node/node.h"

namespace ring::node {

void HeldMemory::Add(Piece piece, const std::vector<NodeId>& writers) {
  auto held = std::make_shared<Held>();
  held->piece = std::move(piece);
  const std::vector<cluster::NodeInfo>& nodes = node_->view()->nodes;
  for (const NodeId node : writers) {
    if (node.value() >= nodes.size()) continue;  // the role was vacant: nobody was asked
    held->writers.push_back({node, nodes[node.value()].incarnation});
  }
  held_.push_back(std::move(held));
}

void HeldMemory::Ask(const std::shared_ptr<Held>& held) {
  ByteWriter body;
  body.Put(held->piece.token);
  for (std::size_t i = 0; i < held->writers.size(); ++i) {
    if (held->writers[i].done) continue;
    node_->control().Call(held->writers[i].node, ControlType::kThaw, body.bytes(), kAskPeriodNs,
                          [held, i](const absl::StatusOr<std::string>& answer) {
                            held->writers[i].done |= answer.ok();
                          });
  }
}

bool HeldMemory::IsDone(const Held& held) const {
  return std::all_of(held.writers.begin(), held.writers.end(), [this](const Writer& writer) {
    // Incarnation(): it was added again, and no start of it registered, which says nothing of the
    // process that it had (L5).
    const Incarnation now = node_->view()->nodes[writer.node.value()].incarnation;
    return writer.done || (now != writer.incarnation && now != Incarnation());
  });
}

void HeldMemory::Progress(std::uint64_t now_ns) {
  if (held_.empty() || now_ns < look_ns_) return;
  look_ns_ = now_ns + kLookPeriodNs;
  for (std::size_t i = 0; i < held_.size();) {
    const std::shared_ptr<Held> held = held_[i];
    if (IsDone(*held)) {
      held->piece.region.reset();
      node_->device().Free(held->piece.memory, held->piece.size, rdma::MemoryKind::kShared);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    ++i;
    if (now_ns < held->ask_ns) continue;
    held->ask_ns = now_ns + kAskPeriodNs;
    Ask(held);
  }
}

}  // namespace ring::node
