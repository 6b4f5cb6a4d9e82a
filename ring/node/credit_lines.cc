#include "ring/node/credit_lines.h"

#include <algorithm>
#include <cstring>

#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::node {

absl::StatusOr<BufferPool::Buffer> CreditLines::Take(const cluster::Holder& member) {
  auto& own = free_[member.node];
  const auto found = std::find_if(own.begin(), own.end(), [&member](const auto& line) {
    return line.first == member.incarnation;
  });
  BufferPool::Buffer line;
  if (found == own.end()) {
    RING_ASSIGN_OR_RETURN(line, pool_.Take(rdma::kLocalOnly));
  } else {
    line = std::move(found->second);
    own.erase(found);
  }
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> region =
      device_->Register(line.address, pool_.size(), rdma::kRemoteWrite);
  if (!region.ok()) {
    GiveBack(member, std::move(line));
    return region.status();
  }
  std::memset(line.address, 0, pool_.size());
  line.region = *std::move(region);
  return line;
}

void CreditLines::GiveBack(const cluster::Holder& member, BufferPool::Buffer line) {
  if (line.address == nullptr) return;
  if (line.region != nullptr) line.region->Revoke();
  line.region.reset();
  if (Mutant("L5-credit")) return pool_.GiveBack(std::move(line));
  free_[member.node].emplace_back(member.incarnation, std::move(line));
}

void CreditLines::OnIncarnation(NodeId node, Incarnation incarnation) {
  if (incarnation == Incarnation()) return;  // added again, and not started: L5
  const auto found = free_.find(node);
  if (found == free_.end()) return;
  for (auto& [start, line] : found->second) {
    if (start == incarnation || start == Incarnation()) continue;
    pool_.GiveBack(std::move(line));
    line.address = nullptr;
  }
  std::erase_if(found->second, [](const auto& line) { return line.second.address == nullptr; });
}

}  // namespace ring::node
