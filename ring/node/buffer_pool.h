// ring/node/buffer_pool.h — small registered buffers carved from the node's memory, and used again.
//
// What:      BufferPool hands out buffers of one size from chunks of the device's memory. A buffer
//            that peers could write gets a fresh region (and key) each time, so that a late WRITE
//            of its last user fails (L5).
// Units:     bytes.
// Ownership: owns the memory; a Buffer owns its region and must go before the pool.
// Threads:   one, the node's.
// Errors:    kResourceExhausted when the arena or the count is spent.
#ifndef RING_NODE_BUFFER_POOL_H_
#define RING_NODE_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::node {

class BufferPool {
 public:
  struct Buffer {
    std::byte* address = nullptr;
    std::uint32_t lkey = 0;
    std::unique_ptr<rdma::MemoryRegion> region;  // null: peers have no access
  };

  // size: a multiple of 64. count_max: buffers in use at a time.
  BufferPool(rdma::Device* device, std::size_t size, std::size_t count_max)
      : device_(device), size_(size), count_max_(count_max) {}

  // Zeroed, with this access. Without any: as it was, and no region: a device has 4,096 of them.
  absl::StatusOr<Buffer> Take(std::uint32_t access);
  void GiveBack(Buffer buffer);
  // Makes the buffer's pages resident, for what cannot wait for them one by one.
  void Populate(const Buffer& buffer) { device_->Populate(buffer.address, size_); }
  std::size_t size() const { return size_; }

 private:
  rdma::Device* device_;
  std::size_t size_;
  std::size_t count_max_;
  std::size_t in_use_ = 0;
  std::vector<std::byte*> free_;   // used before
  std::vector<std::byte*> fresh_;  // zero as they came
};

}  // namespace ring::node

#endif  // RING_NODE_BUFFER_POOL_H_
