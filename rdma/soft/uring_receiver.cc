#include "rdma/soft/uring_receiver.h"

#include <liburing.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/shared_copy.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

constexpr unsigned kSubmissions = 256;
constexpr unsigned kCompletions = 1024;
constexpr int kBufferGroup = 0;
// An entry that the kernel could not take for lack of memory is offered so often in one turn.
constexpr int kTriesMax = 16;

// Who a completion belongs to: the slot of a receive above one of these.
constexpr std::uint64_t kReceiveTag = 0;
constexpr std::uint64_t kCancelTag = 1;
constexpr std::uint64_t kDescriptorsTag = 2;
constexpr int kTagBits = 2;
std::uint64_t TagOf(UringReceiver::Slot slot) {
  return std::uint64_t{slot} << kTagBits | kReceiveTag;
}

}  // namespace

// The rings and the list of buffers are shared with the kernel.
struct UringReceiver::Kernel {
  static constexpr std::size_t kListSize = kBuffers * sizeof(io_uring_buf);

  ~Kernel() {
    if (open) io_uring_queue_exit(&ring);
    if (list != nullptr) munmap(list, kListSize);
  }
  // Whether the kernel has something that is not in the completion queue yet.
  bool HasWork() const {
    return (__atomic_load_n(ring.sq.kflags, __ATOMIC_ACQUIRE) &
            (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  }

  io_uring ring{};
  io_uring_buf_ring* list = nullptr;
  bool open = false;
};

UringReceiver::UringReceiver(int epoll_fd, int event_fd)
    : epoll_fd_(epoll_fd), event_fd_(event_fd) {}

absl::StatusOr<std::unique_ptr<UringReceiver>> UringReceiver::Open(int epoll_fd, int event_fd) {
  std::unique_ptr<UringReceiver> receiver(new UringReceiver(epoll_fd, event_fd));
  receiver->bytes_ = std::make_unique<std::byte[]>(kBuffers * kBufferSize);
  RING_RETURN_IF_ERROR(receiver->OpenKernel());
  return receiver;
}

// The ring belongs to this thread: only then does the kernel fill buffers in our calls and nowhere
// else.
absl::Status UringReceiver::OpenKernel() {
  kernel_ = std::make_unique<Kernel>();
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE;
  params.cq_entries = kCompletions;
  int error = -io_uring_queue_init_params(kSubmissions, &kernel_->ring, &params);
  if (error != 0) return absl::UnavailableError(absl::StrCat("io_uring_setup: ", strerror(error)));
  kernel_->open = true;
  void* const list = mmap(nullptr, Kernel::kListSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (list == MAP_FAILED) return absl::UnavailableError(absl::StrCat("mmap: ", strerror(errno)));
  kernel_->list = static_cast<io_uring_buf_ring*>(list);
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(list);
  registration.ring_entries = kBuffers;
  registration.bgid = kBufferGroup;
  error = -io_uring_register_buf_ring(&kernel_->ring, &registration, 0);
  if (error != 0)
    return absl::UnavailableError(absl::StrCat("io_uring buffer ring: ", strerror(error)));
  error = -io_uring_register_eventfd(&kernel_->ring, event_fd_);
  if (error != 0)
    return absl::UnavailableError(absl::StrCat("io_uring eventfd: ", strerror(error)));
  io_uring_cq_eventfd_toggle(&kernel_->ring, sleeping_);
  io_uring_buf_ring_init(kernel_->list);
  for (std::uint32_t i = 0; i < kBuffers; ++i) GiveBack(i);
  watch_armed_ = false;
  return absl::OkStatus();
}

// The kernel fills no buffer any more once its ring is closed: it does so in our calls only.
UringReceiver::~UringReceiver() { kernel_.reset(); }

// What the old ring received was handed over. Its armed receives end with it; data that they were
// about to fetch is still in the sockets.
void UringReceiver::MoveToThisThread() {
  kernel_.reset();
  const absl::Status opened = OpenKernel();
  RING_CHECK(opened.ok()) << "a device that is used by another thread now: " << opened.ToString();
  changed_.clear();
  free_.clear();
  for (Slot slot = 0; slot < receives_.size(); ++slot) {
    Receive& receive = receives_[slot];
    receive.armed = receive.cancelling = receive.queued = false;
    if (receive.socket == nullptr) {
      free_.push_back(slot);
    } else if (receive.wanted) {
      Change(slot);
    }
  }
}

UringReceiver::Slot UringReceiver::Add(int fd, Socket* socket) {
  if (free_.empty()) {
    free_.push_back(static_cast<Slot>(receives_.size()));
    receives_.emplace_back();
  }
  const Slot slot = free_.back();
  free_.pop_back();
  receives_[slot] = Receive();
  receives_[slot].fd = fd;
  receives_[slot].socket = socket;
  receives_[slot].wanted = true;
  Change(slot);
  return slot;
}

void UringReceiver::Change(Slot slot) {
  if (std::exchange(receives_[slot].queued, true)) return;
  changed_.push_back(slot);
}

void UringReceiver::Stop(Slot slot) {
  receives_[slot].wanted = false;
  Change(slot);
}

void UringReceiver::Start(Slot slot) {
  if (std::exchange(receives_[slot].wanted, true)) return;
  Change(slot);
}

void UringReceiver::Remove(Slot slot) {
  receives_[slot].wanted = false;
  receives_[slot].socket = nullptr;
  Change(slot);
}

// Entries for what changed. They name descriptors: each is taken by the kernel in this very turn.
void UringReceiver::Prepare() {
  if (!watch_armed_) {
    io_uring_sqe* const entry = io_uring_get_sqe(&kernel_->ring);
    io_uring_prep_poll_multishot(entry, epoll_fd_, POLLIN);
    io_uring_sqe_set_data64(entry, kDescriptorsTag);
    watch_armed_ = true;
  }
  std::size_t done = 0;
  for (; done < changed_.size() && io_uring_sq_space_left(&kernel_->ring) != 0; ++done) {
    const Slot slot = changed_[done];
    Receive& receive = receives_[slot];
    receive.queued = false;
    if (receive.wanted && !receive.armed) {
      io_uring_sqe* const entry = io_uring_get_sqe(&kernel_->ring);
      io_uring_prep_recv_multishot(entry, receive.fd, nullptr, 0, 0);
      entry->flags |= IOSQE_BUFFER_SELECT;
      entry->buf_group = kBufferGroup;
      io_uring_sqe_set_data64(entry, TagOf(slot));
      receive.armed = true;
    } else if (!receive.wanted && receive.armed && !receive.cancelling) {
      io_uring_sqe* const entry = io_uring_get_sqe(&kernel_->ring);
      io_uring_prep_cancel64(entry, TagOf(slot), 0);
      io_uring_sqe_set_data64(entry, kCancelTag);
      receive.cancelling = true;
    } else if (receive.socket == nullptr && !receive.armed) {
      free_.push_back(slot);
    }
  }
  changed_.erase(changed_.begin(), changed_.begin() + static_cast<std::ptrdiff_t>(done));
}

// False: the ring belongs to another thread.
bool UringReceiver::Enter(DeviceCounters* calls) {
  for (int tries = 0;; ++tries) {
    ++calls->uring_enters;
    const int result = io_uring_submit_and_get_events(&kernel_->ring);
    Collect();
    if (result == -EEXIST) return false;
    RING_CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY ||
               result == -ENOMEM)
        << "io_uring_enter: " << strerror(-result);
    if (io_uring_sq_ready(&kernel_->ring) == 0) return true;
    if (tries == kTriesMax) {
      Withdraw();
      return true;
    }
  }
}

// What the kernel has no memory for is offered again in the next turn, anew: till then a descriptor
// may be closed, and its number another's. Between our calls nobody looks at the entries.
void UringReceiver::Withdraw() {
  io_uring_sq& queue = kernel_->ring.sq;
  const unsigned first = *queue.khead;
  for (unsigned at = first; at != queue.sqe_tail; ++at) {
    const io_uring_sqe& entry = queue.sqes[at & *queue.kring_mask];
    if (entry.user_data == kDescriptorsTag) {
      watch_armed_ = false;
    } else if (entry.user_data == kCancelTag) {
      const auto slot = static_cast<Slot>(entry.addr >> kTagBits);
      receives_[slot].cancelling = false;
      Change(slot);
    } else {
      const auto slot = static_cast<Slot>(entry.user_data >> kTagBits);
      receives_[slot].armed = false;
      Change(slot);
    }
  }
  queue.sqe_head = queue.sqe_tail = first;
  __atomic_store_n(queue.ktail, first, __ATOMIC_RELEASE);
}

bool UringReceiver::Turn(DeviceCounters* calls) {
  if (IsIdle()) return false;
  if (!changed_.empty() || !watch_armed_) Prepare();
  const bool arms = io_uring_sq_ready(&kernel_->ring) != 0;
  if (!arms && !kernel_->HasWork()) {
    Collect();
  } else if (!Enter(calls)) {
    HandOver();
    MoveToThisThread();
    return true;
  } else if (completions_.empty() && !arms) {
    ++calls->uring_enters_in_vain;
  }
  const bool came = !completions_.empty();
  HandOver();
  return came;
}

// Takes the completions out of the shared queue: its places are free before anybody is told.
void UringReceiver::Collect() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&kernel_->ring, head, entry) {
    completions_.push_back({entry->user_data, entry->res, entry->flags});
    ++count;
  }
  io_uring_cq_advance(&kernel_->ring, count);
}

void UringReceiver::HandOver() {
  for (const Completion& completion : completions_) HandOverOne(completion);
  completions_.clear();
}

void UringReceiver::HandOverOne(const Completion& completion) {
  const bool last = (completion.flags & IORING_CQE_F_MORE) == 0;
  if (completion.tag == kDescriptorsTag) {
    descriptors_ready_ = true;
    if (last) watch_armed_ = false;
    return;
  }
  if (completion.tag == kCancelTag) return;
  const auto slot = static_cast<Slot>(completion.tag >> kTagBits);
  if (last) receives_[slot].armed = receives_[slot].cancelling = false;
  if ((completion.flags & IORING_CQE_F_BUFFER) != 0) {
    const std::uint32_t buffer = completion.flags >> IORING_CQE_BUFFER_SHIFT;
    // Others may be added and removed meanwhile.
    Socket* const socket = receives_[slot].socket;
    if (socket != nullptr && completion.result > 0) {
      socket->OnBytes(absl::MakeConstSpan(bytes_.get() + buffer * kBufferSize,
                                          static_cast<std::size_t>(completion.result)));
    }
    GiveBack(buffer);
  }
  if (!last) return;
  Socket* const socket = receives_[slot].socket;
  // Without a buffer left, or cancelled: not the socket's end.
  const bool ended =
      completion.result == 0 ||
      (completion.result < 0 && completion.result != -ENOBUFS && completion.result != -ECANCELED &&
       completion.result != -EINTR && completion.result != -EAGAIN && completion.result != -ENOMEM);
  if (ended && socket != nullptr) return socket->OnEnd();
  Change(slot);
}

void UringReceiver::GiveBack(std::uint32_t buffer) {
  io_uring_buf_ring_add(kernel_->list, bytes_.get() + buffer * kBufferSize, kBufferSize,
                        static_cast<unsigned short>(buffer), io_uring_buf_ring_mask(kBuffers), 0);
  io_uring_buf_ring_advance(kernel_->list, 1);
}

bool UringReceiver::TakeDescriptorsReady() { return std::exchange(descriptors_ready_, false); }

void UringReceiver::SetSleeping(bool sleeping) {
  sleeping_ = sleeping;
  if (!sleeping) {
    io_uring_cq_eventfd_toggle(&kernel_->ring, false);
    return;
  }
  TakeSignals(event_fd_);  // mostly there is none
  io_uring_cq_eventfd_toggle(&kernel_->ring, true);
  // The kernel signals what it finds first: what is there already we signal ourselves.
  FullFence();
  if (IsIdle()) return;
  const std::uint64_t signals = 1;
  const ssize_t put = write(event_fd_, &signals, sizeof(signals));
  static_cast<void>(put);  // fails only when it is readable already
}

bool UringReceiver::IsIdle() const {
  return changed_.empty() && watch_armed_ && !kernel_->HasWork() &&
         io_uring_cq_ready(&kernel_->ring) == 0;
}

}  // namespace ring::rdma::soft
