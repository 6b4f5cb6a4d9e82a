#include "ring/node/buffer_pool.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::size_t kChunkSize = std::size_t{2} << 20;
}  // namespace

absl::StatusOr<BufferPool::Buffer> BufferPool::Take(std::uint32_t access) {
  if (in_use_ >= count_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all buffers are in use count=", count_max_, " size=", size_));
  }
  if (free_.empty() && fresh_.empty()) {
    const std::size_t chunk = std::max(kChunkSize, size_);
    RING_ASSIGN_OR_RETURN(std::byte* const memory,
                          device_->Allocate(chunk, rdma::MemoryKind::kShared));
    for (std::size_t at = (chunk / size_) * size_; at >= size_; at -= size_)
      fresh_.push_back(memory + at - size_);
  }
  const bool used_before = !free_.empty();
  std::vector<std::byte*>& from = used_before ? free_ : fresh_;
  Buffer buffer;
  buffer.address = from.back();
  if (access == rdma::kLocalOnly) {
    buffer.lkey = device_->LocalKey(buffer.address);
  } else {
    RING_ASSIGN_OR_RETURN(buffer.region, device_->Register(buffer.address, size_, access));
    buffer.lkey = buffer.region->lkey();
  }
  from.pop_back();
  ++in_use_;
  if (buffer.region == nullptr) return buffer;
  // What is fresh is zero; but its first word is polled before it is written, and read first a page
  // costs two faults, the second one with news to all processors.
  std::memset(buffer.address, 0, used_before ? size_ : sizeof(std::uint64_t));
  return buffer;
}

void BufferPool::GiveBack(Buffer buffer) {
  if (buffer.address == nullptr) return;
  if (buffer.region != nullptr) buffer.region->Revoke();
  buffer.region.reset();
  free_.push_back(buffer.address);
  --in_use_;
}

}  // namespace ring::node
