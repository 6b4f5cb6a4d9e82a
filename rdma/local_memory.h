// rdma/local_memory.h — memory of a device that its own requests alone touch.
//
// What:      AllocateLocal: memory and its region, which knows where it is; FreeLocal: both again.
// Units:     bytes.
// Ownership: the caller's; the device must outlive it.
// Threads:   the device's.
// Errors:    AllocateLocal: those of Device::Allocate and Register, with nothing left behind.
#ifndef RING_RDMA_LOCAL_MEMORY_H_
#define RING_RDMA_LOCAL_MEMORY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "ring/base/status.h"

namespace ring::rdma {

inline absl::StatusOr<std::unique_ptr<MemoryRegion>> AllocateLocal(Device* device,
                                                                   std::size_t size) {
  RING_ASSIGN_OR_RETURN(std::byte* const memory, device->Allocate(size, MemoryKind::kShared));
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = device->Register(memory, size, kLocalOnly);
  if (!region.ok()) device->Free(memory, size, MemoryKind::kShared);
  return region;
}

inline void FreeLocal(Device* device, std::unique_ptr<MemoryRegion> region) {
  std::byte* const memory = region->address();
  const std::size_t size = region->length();
  region.reset();
  device->Free(memory, size, MemoryKind::kShared);
}

}  // namespace ring::rdma

#endif  // RING_RDMA_LOCAL_MEMORY_H_
