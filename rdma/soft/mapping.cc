#include "rdma/soft/mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "rdma/soft/attachment.h"
#include "rdma/soft/shared_copy.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

// A peer that could shrink the file would turn our accesses into SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Threads that give memory back; beyond that whoever holds it last does.
constexpr int kGiveUpMax = 8;

absl::Status SystemError(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " failed: ", std::strerror(errno)));
}

// Anything but an eventfd could block us (a full pipe) or kill us (SIGPIPE) when we wake the peer.
bool IsEventFd(int fd) {
  char link[64] = {};
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), link, sizeof(link) - 1);
  return size > 0 && std::strcmp(link, "anon_inode:[eventfd]") == 0;
}

// Pages of a memfd of huge pages come from a pool: a touch when that is empty kills us (SIGBUS).
bool IsOfSmallPages(int fd) {
  struct statfs system;
  return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

absl::Status CheckLayout(const MappingLayout& layout, std::uint64_t file_size) {
  constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 46;
  const bool small = layout.mailbox_offset < kSizeMax && layout.mailbox_stride < kSizeMax &&
                     layout.mailbox_count <= (1u << 20) && layout.arena_offset < kSizeMax &&
                     layout.arena_size < kSizeMax && layout.mailbox_stride < (1u << 26);
  if (!small || layout.mailbox_offset < sizeof(ControlPage) || layout.mailbox_offset % 4096 != 0 ||
      layout.mailbox_stride % 4096 != 0 || layout.arena_offset % kArenaAlignment != 0 ||
      layout.mailbox_offset + layout.mailbox_count * layout.mailbox_stride > layout.arena_offset ||
      layout.total_size() != file_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's memory layout is not valid: file_size=", file_size));
  }
  return absl::OkStatus();
}

// A thread is born with the processors of the one that made it, and one that serves may have a
// processor to itself: the process's are those of its first thread.
void LeaveProcessor() {
  cpu_set_t processors;
  if (sched_getaffinity(getpid(), sizeof(processors), &processors) == 0)
    sched_setaffinity(0, sizeof(processors), &processors);  // a wish
}

}  // namespace

// The last reference to a peer that is gone is often dropped in the middle of a fail-over, by a
// thread that serves, and its memory may be much. Its descriptors are few, and whoever waits for
// some is not to wait for that: a file is there as long as it is mapped.
void Mapping::GiveUp(Mapping* mapping) {
  static std::atomic<int> under_way{0};
  const bool shared = mapping->memory_fd_ >= 0 && mapping->reservation_ != nullptr;
  mapping->CloseDescriptors();
  if (!shared || under_way.fetch_add(1) >= kGiveUpMax) {
    if (shared) under_way.fetch_sub(1);
    delete mapping;
    return;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const auto destroy = [](void* given) -> void* {
    LeaveProcessor();
    delete static_cast<Mapping*>(given);
    under_way.fetch_sub(1);
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, &attributes, destroy, mapping) != 0) {
    under_way.fetch_sub(1);
    delete mapping;
  }
  pthread_attr_destroy(&attributes);
}

absl::Status Mapping::Map(int memory_fd, std::uint64_t size) {
  reservation_size_ = size + kArenaAlignment;
  void* reserved = mmap(nullptr, reservation_size_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return SystemError(absl::StrCat("mmap of size=", reservation_size_));
  reservation_ = static_cast<std::byte*>(reserved);
  auto* aligned = reinterpret_cast<std::byte*>(
      AlignUp(reinterpret_cast<std::uint64_t>(reserved), kArenaAlignment));
  const int flags = memory_fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* mapped =
      mmap(aligned, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, memory_fd, 0);
  if (mapped == MAP_FAILED) return SystemError(absl::StrCat("mmap of size=", size));
  address_ = aligned;
  return absl::OkStatus();
}

absl::Status Mapping::LockOwner() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int made = pthread_mutex_init(&control()->owner, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (made != 0 || pthread_mutex_lock(&control()->owner) != 0) {
    return absl::InternalError("cannot make the owner mutex of the device's memory");
  }
  owner_locked_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Mapping>> Mapping::Create(const Options& options) {
  std::shared_ptr<Mapping> mapping(new Mapping, GiveUp);
  MappingLayout& layout = mapping->layout_;
  layout.mailbox_offset = AlignUp(sizeof(ControlPage), 4096);
  layout.mailbox_stride = MailboxSize(options.recv_depth_max);
  layout.mailbox_count = options.mailbox_count;
  layout.arena_offset = AlignUp(
      layout.mailbox_offset + layout.mailbox_count * layout.mailbox_stride, kArenaAlignment);
  layout.arena_size = AlignUp(options.arena_size_max, kArenaAlignment);
  mapping->attachment_ = options.attachment;
  if (options.attachment == nullptr) {
    mapping->event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mapping->event_fd_ < 0) return SystemError("eventfd");
  }
  if (options.shareable) {
    mapping->memory_fd_ = memfd_create("ring-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (mapping->memory_fd_ < 0) return SystemError("memfd_create");
    if (ftruncate(mapping->memory_fd_, static_cast<off_t>(layout.total_size())) != 0 ||
        fcntl(mapping->memory_fd_, F_ADD_SEALS, kSeals) != 0) {
      return SystemError(absl::StrCat("sizing the arena to size=", layout.total_size()));
    }
  }
  RING_RETURN_IF_ERROR(mapping->Map(mapping->memory_fd_, layout.total_size()));
  ControlPage* control = new (mapping->address_) ControlPage;
  control->magic = kLayoutMagic;
  control->version = kLayoutVersion;
  if (options.shareable) RING_RETURN_IF_ERROR(mapping->LockOwner());
  mapping->owner_arena_address_ = reinterpret_cast<std::uint64_t>(mapping->arena());
  mapping->thread_token.store(CurrentThreadToken(), std::memory_order_relaxed);
  return mapping;
}

absl::StatusOr<std::shared_ptr<Mapping>> Mapping::Attach(int memory_fd, int event_fd,
                                                         const MappingLayout& layout,
                                                         std::uint64_t peer_arena_address) {
  std::shared_ptr<Mapping> mapping(new Mapping, GiveUp);
  mapping->memory_fd_ = memory_fd;
  mapping->event_fd_ = event_fd;
  struct stat status;
  if (fstat(memory_fd, &status) != 0) return SystemError("fstat of the peer's memory");
  const int seals = fcntl(memory_fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("the peer's memory is not a memfd sealed against shrinking");
  }
  if (!IsOfSmallPages(memory_fd))
    return absl::InvalidArgumentError("the peer's memory is not a memfd of ordinary pages");
  if (!IsEventFd(event_fd))
    return absl::InvalidArgumentError("the peer's wake-up descriptor is not an eventfd");
  fcntl(event_fd, F_SETFL, O_NONBLOCK);
  RING_RETURN_IF_ERROR(CheckLayout(layout, static_cast<std::uint64_t>(status.st_size)));
  mapping->layout_ = layout;
  mapping->owner_arena_address_ = peer_arena_address;
  RING_RETURN_IF_ERROR(mapping->Map(memory_fd, layout.total_size()));
  if (mapping->control()->magic != kLayoutMagic || mapping->control()->version != kLayoutVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer's memory layout has version=", mapping->control()->version,
        ", this program has version=", kLayoutVersion, ": run the same release on both sides"));
  }
  return mapping;
}

void Mapping::ReleaseOwner() {
  if (!owner_locked_) return;
  owner_locked_ = false;
  // Unmapping a mutex that a thread still holds would leave a wild pointer in its robust list.
  RING_CHECK(pthread_mutex_unlock(&control()->owner) == 0)
      << "a shareable device must be opened and destroyed by one thread";
}

Mapping::~Mapping() {
  RING_CHECK(!owner_locked_) << "memory given up with its owner mutex held";
  if (reservation_ != nullptr) munmap(reservation_, reservation_size_);
}

void Mapping::CloseDescriptors() {
  for (int* const descriptor : {&memory_fd_, &event_fd_}) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
  }
}

// Peers have the descriptor, and with it its flags: one that clears O_NONBLOCK must not have the
// owner wait for a signal.
void TakeSignals(int event_fd) {
  std::uint64_t signals = 0;
  const iovec bytes{&signals, sizeof(signals)};
  ssize_t taken = preadv2(event_fd, &bytes, 1, -1, RWF_NOWAIT);
  if (taken < 0 && errno == EOPNOTSUPP) taken = read(event_fd, &signals, sizeof(signals));
  static_cast<void>(taken);  // there may be none
}

void Mapping::Wake() const {
  if (attachment_ != nullptr) return attachment_->Wake();
  const std::uint64_t one = 1;
  // A full counter (EAGAIN) is readable already, which is all that is wanted.
  const ssize_t written = write(event_fd_, &one, sizeof(one));
  static_cast<void>(written);
}

void Mapping::RequestAttention() const {
  control()->attention.store(1, std::memory_order_seq_cst);
  Wake();
}

}  // namespace ring::rdma::soft
