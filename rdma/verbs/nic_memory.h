// rdma/verbs/nic_memory.h — what a card knows of a device's memory.
//
// What:      NicMemory registers what the device allocated, for the device's own requests, and each
//            region that peers may use, by itself: so that a region can be taken from peers, while
//            its memory stays the device's. Its key table translates: messages name a region by the
//            device's key, peers on this link READ the card's key out of the table, once.
// Shape:     a table entry is one aligned word, (card's key << 32) | device's key, at the index
//            that is in the device's key; 0: nothing for peers.
// Units:     bytes.
// Ownership: of the registrations. The memory outlives them.
// Threads:   the device's; peers' cards read the table at any time.
// Errors:    kResourceExhausted, naming the limit of locked memory.
// Cost:      a local key: the run that was asked for last, or a binary search.
//
// Registering pins: what is allocated while a card is in use is resident, touched or not.
#ifndef RING_RDMA_VERBS_NIC_MEMORY_H_
#define RING_RDMA_VERBS_NIC_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rdma/fabric.h"
#include "rdma/soft/control_layout.h"
#include "rdma/soft/nic_endpoint.h"

namespace ring::rdma::verbs {

// The memory could not be registered, by errno.
absl::Status RegistrationError(absl::string_view device, std::size_t size, int error);

class NicMemory {
 public:
  // counters: where registrations are counted.
  NicMemory(ibv_pd* pd, std::string device, DeviceCounters* counters);
  ~NicMemory();
  NicMemory(const NicMemory&) = delete;
  NicMemory& operator=(const NicMemory&) = delete;

  absl::Status Open();

  absl::Status AddRun(std::byte* address, std::size_t size);
  void RemoveRun(const std::byte* address);
  bool Overlaps(const std::byte* address, std::size_t size) const;

  absl::Status AddRegion(const soft::RegionRange& range);
  void CloseRegion(std::uint32_t key);    // L5: after it returned, no peer's request succeeds
  void ReleaseRegion(std::uint32_t key);  // of a closed one

  // The card's key for memory of this device; false: there is none.
  bool LocalKey(const Sge& sge, std::uint32_t* lkey) const;

  std::uint64_t table_address() const { return reinterpret_cast<std::uint64_t>(table_.data()); }
  std::uint32_t table_rkey() const { return table_mr_->rkey; }

 private:
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    ibv_mr* mr = nullptr;
  };
  struct Region {
    ibv_mr* mr = nullptr;
    bool remote = false;
  };
  const Run* FindRun(std::uint64_t address) const;
  absl::StatusOr<ibv_mr*> RegisterWith(std::byte* address, std::size_t size, int flags);
  void Deregister(ibv_mr* mr);

  ibv_pd* pd_;
  std::string device_;
  DeviceCounters* counters_;
  std::vector<Run> runs_;  // by address
  mutable std::size_t last_run_ = 0;
  std::vector<Region> regions_;       // by the index in the key
  std::vector<std::uint64_t> table_;  // peers read it
  ibv_mr* table_mr_ = nullptr;
};

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_NIC_MEMORY_H_
