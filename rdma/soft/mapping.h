// rdma/soft/mapping.h — a device's memory as it stands in this process: control pages, mailboxes
// and arena.
//
// What:      Mapping::Create makes a device's own memory (memfd when shareable); Mapping::Attach
//            maps a peer's.
// Units:     bytes.
// Ownership: shared: a device, and every queue pair whose peer is that device, keep it alive, so
//            that a peer in the same process never touches unmapped memory. Closes its file
//            descriptors with the last reference.
// Threads:   the object is immutable after creation, except thread_token (atomic). Memory of a file
//            is given back by a thread of its own: whoever was the last to hold it does not wait.
// Errors:    kResourceExhausted (no address space, descriptors), kInvalidArgument (a peer's layout
//            or seals do not fit).
#ifndef RING_RDMA_SOFT_MAPPING_H_
#define RING_RDMA_SOFT_MAPPING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/soft/control_layout.h"

namespace ring::rdma::soft {

class Attachment;

class Mapping {
 public:
  struct Options {
    std::uint64_t arena_size_max = 0;
    std::uint32_t mailbox_count = 0;
    std::uint32_t recv_depth_max = 0;
    bool shareable = false;
    Attachment* attachment = nullptr;  // woken instead of a descriptor
  };

  static absl::StatusOr<std::shared_ptr<Mapping>> Create(const Options& options);
  // Takes both descriptors, whatever the outcome. peer_arena_address: where the peer sees its
  // arena.
  static absl::StatusOr<std::shared_ptr<Mapping>> Attach(int memory_fd, int event_fd,
                                                         const MappingLayout& layout,
                                                         std::uint64_t peer_arena_address);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  ControlPage* control() const { return reinterpret_cast<ControlPage*>(address_); }
  std::byte* mailbox(std::uint64_t index) const {
    return address_ + layout_.mailbox_offset + index * layout_.mailbox_stride;
  }
  std::byte* arena() const { return address_ + layout_.arena_offset; }
  const MappingLayout& layout() const { return layout_; }
  // The arena's address in its owner's process: what remote addresses count in.
  std::uint64_t owner_arena_address() const { return owner_arena_address_; }
  int memory_fd() const { return memory_fd_; }
  int event_fd() const { return event_fd_; }

  // Lets go of the owner mutex: peers see a dead owner from now on. The owner's thread calls it
  // before it drops its reference. No-op for memory that is not shareable.
  void ReleaseOwner();

  // Makes the owner's event_fd readable, or wakes its attachment.
  void Wake() const;
  // Asks the owner's Progress to look at its queue pairs and inbox, and wakes it.
  void RequestAttention() const;
  // Rule L5: whether the owner's thread still holds its mutex. Always true for memory that is not
  // shareable: it dies with this process.
  bool OwnerAlive() const;

  // The thread that uses the owning device (CurrentThreadToken); 0 in a mapping of another process.
  std::atomic<std::uint64_t> thread_token{0};

 private:
  Mapping() = default;
  ~Mapping();
  static void GiveUp(Mapping* mapping);
  void CloseDescriptors();
  absl::Status Map(int memory_fd, std::uint64_t size);
  absl::Status LockOwner();

  std::byte* address_ = nullptr;
  std::byte* reservation_ = nullptr;
  std::uint64_t reservation_size_ = 0;
  MappingLayout layout_;
  std::uint64_t owner_arena_address_ = 0;
  int memory_fd_ = -1;
  int event_fd_ = -1;
  Attachment* attachment_ = nullptr;
  bool owner_locked_ = false;
};

// Of the device's own event_fd; never waits, whatever peers did with the descriptor.
void TakeSignals(int event_fd);

// Futex word of a robust mutex: thread id while held, kOwnerDied set by the kernel when the holder
// died.
inline bool Mapping::OwnerAlive() const {
  if (memory_fd_ < 0) return true;
  constexpr std::uint32_t kOwnerDied = 0x40000000;  // FUTEX_OWNER_DIED
  constexpr std::uint32_t kThreadMask = 0x3fffffff;
  const auto* word = reinterpret_cast<const std::uint32_t*>(&control()->owner.__data.__lock);
  const std::uint32_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  return (value & kOwnerDied) == 0 && (value & kThreadMask) != 0;
}

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_MAPPING_H_
