#include "rdma/soft/device.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/attachment.h"
#include "rdma/soft/completion_queue.h"
#include "rdma/soft/local_endpoint.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/shared_copy.h"
#include "ring/base/boot_clock.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::rdma {

absl::StatusOr<std::unique_ptr<Device>> OpenSoftDevice(const SoftDeviceOptions& options) {
  return soft::SoftDevice::Open(options);
}

namespace soft {
namespace {

// Asking for descriptors is a system call: without tcp, nothing that a request waits for is there.
constexpr std::uint32_t kTurnsPerDescriptors = 1024;
// What fresh memory is touched ahead for is rare, and then it is there.
constexpr std::uint32_t kTurnsPerWarmStep = 256;
constexpr std::uint64_t kPageSize = 4096;

const BootClock kBootClock;

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> SoftDevice::Open(const SoftDeviceOptions& options) {
  Mapping::Options memory;
  memory.arena_size_max = options.arena_size_max;
  memory.mailbox_count = options.qp_count_max;
  memory.recv_depth_max = options.recv_depth_max;
  memory.shareable = options.shareable;
  memory.attachment = options.attachment;
  RING_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping, Mapping::Create(memory));
  std::unique_ptr<SoftDevice> device(new SoftDevice(options, std::move(mapping)));
  RING_RETURN_IF_ERROR(device->ReserveMemory());
  if (options.attachment != nullptr) {
    device->local_ = options.attachment->MakeEndpoint(device.get());
    return device;
  }
  device->epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (device->epoll_fd_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("device ", options.name, ": epoll_create1: ", strerror(errno)));
  }
  epoll_event wake{};
  wake.events = EPOLLIN;
  wake.data.ptr = nullptr;
  RING_CHECK(epoll_ctl(device->epoll_fd_, EPOLL_CTL_ADD, device->mapping_->event_fd(), &wake) == 0)
      << "epoll_ctl";
  RING_RETURN_IF_ERROR(device->retry_timer_.Open());
  RING_RETURN_IF_ERROR(device->Watch(device->retry_timer_.fd(), &device->retry_timer_, EPOLLIN));
  device->local_ = MakeLocalEndpoint(device.get());
  return device;
}

SoftDevice::SoftDevice(const SoftDeviceOptions& options, std::shared_ptr<Mapping> mapping)
    : options_(options),
      mapping_(std::move(mapping)),
      regions_(mapping_),
      mailboxes_(options.qp_count_max),
      clock_(options.clock != nullptr ? options.clock : &kBootClock),
      warm_runs_(options.attachment == nullptr ? options.warm_size / WarmRuns::kWarmSize : 0) {
  caps_.sge_count_max = 16;
  caps_.inline_size_max = 256;
  caps_.calc = true;
  caps_.calc_crc = true;
  for (std::uint32_t i = kCqCountMax; i > 0; --i) free_cq_cells_.push_back(i - 1);
}

SoftDevice::~SoftDevice() {
  RING_CHECK(queue_pairs_.empty())
      << "device " << options_.name << " destroyed before its queue pairs";
  requests_.clear();
  local_.reset();
  shm_.reset();
  tcp_.reset();
  regions_.set_watcher(nullptr);
  verbs_.reset();
  uring_.reset();
  for (RegionEntry& entry : mapping_->control()->regions)
    entry.key.store(0, std::memory_order_seq_cst);
  mapping_->ReleaseOwner();
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (private_.reservation != nullptr) {
    munmap(private_.reservation, arena_size() + kArenaAlignment);
  }
}

absl::Status SoftDevice::ReserveMemory() {
  RING_ASSIGN_OR_RETURN(arena_region_,
                        regions_.Register(mapping_->arena(), arena_size(), kLocalOnly));
  void* const reserved = mmap(nullptr, arena_size() + kArenaAlignment, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device ", options_.name, ": no address space for arena_size_max=", arena_size()));
  }
  private_.reservation = static_cast<std::byte*>(reserved);
  private_.memory = reinterpret_cast<std::byte*>(
      AlignUp(reinterpret_cast<std::uint64_t>(reserved), kArenaAlignment));
  RING_ASSIGN_OR_RETURN(private_.region,
                        regions_.Register(private_.memory, arena_size(), kLocalOnly));
  return absl::OkStatus();
}

// What counts is what is in use, of whatever kind: pages that are given back are the system's, and
// before they would be too many together those are first that were not given back yet.
absl::StatusOr<std::byte*> SoftDevice::Allocate(std::size_t size, MemoryKind kind) {
  const std::uint64_t rounded = AlignUp(size, kArenaAlignment);
  const std::uint64_t room =
      arena_size() - std::accumulate(in_use_.begin(), in_use_.end(), std::uint64_t{0});
  const bool fits = size != 0 && rounded >= size && rounded <= room;
  while (fits && dirty_.size() + rounded > room) CleanStep();
  std::byte* address = nullptr;
  const bool may_be_warm = rounded == WarmRuns::kRunSize && kind == MemoryKind::kPrivate;
  if (fits && may_be_warm) address = warm_runs_.Take();
  if (fits && address == nullptr) address = TakeRun(rounded, kind);
  for (; fits && address == nullptr && !dirty_.empty(); address = TakeRun(rounded, kind))
    CleanStep();
  while (fits && address == nullptr && kind != MemoryKind::kShared) {
    std::byte* const warm = warm_runs_.Take();
    if (warm == nullptr) break;
    Discard(warm, WarmRuns::kRunSize);
    freed_[Index(MemoryKind::kPrivate)].Add(warm, WarmRuns::kRunSize);
    address = TakeRun(rounded, kind);
  }
  if (address == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device ", options_.name, ": cannot allocate size=", size, ", arena has room=", room,
        " of arena_size_max=", arena_size(), fits ? ", in shorter pieces" : "", "; in use: shared=",
        in_use_[Index(MemoryKind::kShared)], " private=", in_use_[Index(MemoryKind::kPrivate)],
        " private_huge=", in_use_[Index(MemoryKind::kPrivateHuge)]));
  }
  if (absl::Status told =
          verbs_ == nullptr ? absl::OkStatus() : verbs_->OnAllocate(address, rounded);
      !told.ok()) {
    freed_[Index(kind)].Add(address, rounded);
    return told;
  }
  runs_[address] = rounded;
  in_use_[Index(kind)] += rounded;
  return address;
}

void SoftDevice::KeepWarm() {
  if (warm_runs_.Touch() || !warm_runs_.WantsMore()) return;
  std::byte* const run = TakeRun(WarmRuns::kRunSize, MemoryKind::kPrivate);
  if (run == nullptr) return;
  // A huge page would be zeroed by this thread, in one piece.
  madvise(run, WarmRuns::kRunSize, MADV_NOHUGEPAGE);
  warm_runs_.Add(run);
}

// What was given back serves first, also of the other size of pages where nothing else is left.
std::byte* SoftDevice::TakeRun(std::uint64_t size, MemoryKind kind) {
  if (std::byte* const freed = freed_[Index(kind)].Take(size); freed != nullptr) return freed;
  if (kind == MemoryKind::kShared) {
    if (size > arena_size() - allocated_) return nullptr;
    return mapping_->arena() + std::exchange(allocated_, allocated_ + size);
  }
  const bool huge = kind == MemoryKind::kPrivateHuge;
  if (size > arena_size() - private_.huge_allocated - private_.small_allocated)
    return freed_[Index(huge ? MemoryKind::kPrivate : MemoryKind::kPrivateHuge)].Take(size);
  if (!huge) {
    private_.small_allocated += size;
    return private_.memory + arena_size() - private_.small_allocated;
  }
  std::byte* const address = private_.memory + private_.huge_allocated;
  private_.huge_allocated += size;
  madvise(address, size, MADV_HUGEPAGE);  // a hint: fails harmlessly where not supported
  return address;
}

void SoftDevice::Free(std::byte* address, std::size_t size, MemoryKind kind) {
  const std::uint64_t rounded = AlignUp(size, kArenaAlignment);
  const auto run = runs_.find(address);
  RING_CHECK(run != runs_.end() && run->second == rounded && in_use_[Index(kind)] >= rounded)
      << "free of size=" << size;
  runs_.erase(run);
  in_use_[Index(kind)] -= rounded;
  if (verbs_ != nullptr) verbs_->OnFree(address, rounded);
  dirty_.Add(address, rounded, kind);
}

void SoftDevice::CleanStep() {
  const DirtyRuns::Slice slice = dirty_.Take();
  Discard(slice.address, slice.size);
  if (slice.unit != nullptr) freed_[Index(slice.kind)].Add(slice.unit, DirtyRuns::kUnit);
}

void SoftDevice::PreferHuge(std::byte* address, std::size_t size) {
  // The kernel's own thread copies what is there, when it comes by. Whoever asks must not wait:
  // MADV_COLLAPSE, which does it now, takes 0.4 to 6 ms.
  madvise(address, size, MADV_HUGEPAGE);
}

void SoftDevice::Populate(std::byte* address, std::size_t size) {
  // Whole pages, whatever else is in them. Where the kernel refuses, they come when they are
  // touched.
  const auto begin = reinterpret_cast<std::uint64_t>(address) & ~(kPageSize - 1);
  const std::uint64_t end = AlignUp(reinterpret_cast<std::uint64_t>(address) + size, kPageSize);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
}

void SoftDevice::Discard(std::byte* address, std::size_t size) {
  const bool is_private = IsPrivate(address, size);
  RING_CHECK(is_private || regions_.InArena(address, size))
      << "discard of memory that is not the device's";
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t first = AlignUp(begin, kPageSize);
  const std::uint64_t last = (begin + size) & ~(kPageSize - 1);
  // The card would go on writing to pages that left.
  if (first >= last || (verbs_ != nullptr && verbs_->IsPinned(address, size))) {
    std::memset(address, 0, size);
    return;
  }
  std::memset(address, 0, first - begin);
  std::memset(reinterpret_cast<std::byte*>(last), 0, begin + size - last);
  // A memfd's pages leave the file, so that peers give them up too; private pages are dropped.
  const int advice = mapping_->memory_fd() >= 0 && !is_private ? MADV_REMOVE : MADV_DONTNEED;
  if (madvise(reinterpret_cast<void*>(first), last - first, advice) != 0) {
    std::memset(reinterpret_cast<void*>(first), 0, last - first);
  }
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> SoftDevice::Register(std::byte* address,
                                                                   std::size_t length,
                                                                   std::uint32_t access) {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<MemoryRegion> region,
                        regions_.Register(address, length, access));
  if (verbs_ != nullptr)
    RING_RETURN_IF_ERROR(verbs_->OnRegister({region->lkey(), address, length, access}));
  return region;
}

absl::Status SoftDevice::TellMemory(NicEndpoint* endpoint) {
  for (const auto& [address, size] : runs_)
    RING_RETURN_IF_ERROR(endpoint->OnAllocate(address, size));
  for (const RegionRange& range : regions_.List()) {
    // These two are all that there may ever be, and most of it is not there.
    if (range.key == arena_region_->lkey() || range.key == private_.region->lkey()) continue;
    RING_RETURN_IF_ERROR(endpoint->OnRegister(range));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CompletionQueue>> SoftDevice::CreateCompletionQueue(
    std::size_t depth) {
  if (depth == 0 || depth > (1u << 22)) {
    return absl::InvalidArgumentError(
        absl::StrCat("completion queue depth=", depth, " not in [1, 4194304]"));
  }
  if (free_cq_cells_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kCqCountMax, " completion queues"));
  }
  const std::uint32_t cell = free_cq_cells_.back();
  free_cq_cells_.pop_back();
  return std::make_unique<SoftCompletionQueue>(this, cell, next_cq_serial_++, depth);
}

void SoftDevice::BindThread() {
  const std::uint64_t token = CurrentThreadToken();
  if (mapping_->thread_token.load(std::memory_order_relaxed) != token) {
    mapping_->thread_token.store(token, std::memory_order_relaxed);
  }
}

// An idle call is on the path of every request of its thread: each test here is one load.
bool SoftDevice::Progress() {
  BindThread();
  ++turn_;
  bool worked = false;
  if (mapping_->control()->attention.load(std::memory_order_relaxed) != 0) worked = ProgressPeers();
  if (polled_connections_ > 0 || check_descriptors_ || turn_ % kTurnsPerDescriptors == 0) {
    worked |= uring_ == nullptr ? ProgressSockets() : ProgressUring();
    check_descriptors_ = false;
    if (shm_ != nullptr) worked |= shm_->Progress();
  }
  if (turn_ % kTurnsPerWarmStep == 0) KeepWarm();
  if (!dirty_.empty()) {
    CleanStep();
    worked = true;  // who sleeps keeps what nobody has a use for
  }
  if (verbs_ != nullptr) worked |= verbs_->Progress();
  if (!deferred_.empty()) worked |= RunDeferred();
  return worked;
}

// Sends what the last turn left, then reads: see TcpConnection::QueueAck.
bool SoftDevice::ProgressSockets() {
  bool worked = tcp_ != nullptr && tcp_->Progress();
  worked |= hot_sockets_.Receive(turn_);
  if ((check_descriptors_ || hot_sockets_.LookDue()) && epoll_fd_ >= 0) worked |= PollDescriptors();
  return worked;
}

// The same with io_uring. Descriptors are asked when they were told of, until none is ready: what
// stays ready is told of once.
bool SoftDevice::ProgressUring() {
  bool worked = tcp_->Progress();
  worked |= uring_->Turn(&counters_);
  descriptors_ready_ |= uring_->TakeDescriptorsReady();
  if (!descriptors_ready_) return worked;
  descriptors_ready_ = PollDescriptors();
  return worked || descriptors_ready_;
}

// Bells and the ring then signal one descriptor, which is not in the epoll set: a bell that reached
// the ring through it would be passed on only after a grace period of the kernel (milliseconds), as
// an eventfd that is written because another was written is.
void SoftDevice::OpenUring() {
  absl::StatusOr<std::unique_ptr<UringReceiver>> opened =
      UringReceiver::Open(epoll_fd_, mapping_->event_fd());
  if (opened.ok()) {
    uring_ = std::move(*opened);
    RING_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, mapping_->event_fd(), nullptr) == 0)
        << "epoll_ctl";
    counters_.urings = 1;
    uring_->SetSleeping(mapping_->control()->sleep.load(std::memory_order_relaxed) != 0);
    return;
  }
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  RING_LOG(WARNING) << "device=" << options_.name
                    << " receives from its tcp sockets one by one: " << opened.status().message();
}

bool SoftDevice::ProgressPeers() {
  mapping_->control()->attention.exchange(0, std::memory_order_seq_cst);
  const bool worked = local_->Progress();
  return CheckPeers() || worked;
}

bool SoftDevice::RunDeferred() {
  if (running_deferred_) return false;
  running_deferred_ = true;
  bool worked = false;
  // A queue pair that advanced may have made the completion for which another waits.
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < deferred_.size(); ++i) again |= deferred_[i]->Run();
    worked |= again;
  }
  running_deferred_ = false;
  return worked;
}

void SoftDevice::RemoveDeferred(SoftQueuePair* qp) {
  const auto it = std::find(deferred_.begin(), deferred_.end(), qp);
  if (it == deferred_.end()) return;
  *it = deferred_.back();
  deferred_.pop_back();
}

void SoftDevice::PrepareToSleep(bool sleeping) {
  if (uring_ != nullptr) uring_->SetSleeping(sleeping);
  if (verbs_ != nullptr) verbs_->PrepareToSleep(sleeping);
  check_descriptors_ = true;  // before the sleep, and behind it
  // A simulated network has no descriptors: nobody sleeps on one.
  if (sleeping && !deferred_.empty() && epoll_fd_ >= 0) retry_timer_.Start();
}

void SoftDevice::TellSleeping(bool sleeping) {
  if (sleeping && ++sleep_count_ == 0) ++sleep_count_;
  mapping_->control()->sleep.store(sleeping ? sleep_count_ : 0, std::memory_order_relaxed);
  if (sleeping) FullFence();
}

bool SoftDevice::PollDescriptors() {
  constexpr int kBatch = 64;
  epoll_event events[kBatch];
  ++counters_.waits;
  const int count = epoll_wait(epoll_fd_, events, kBatch, 0);
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back(static_cast<FdHandler*>(events[i].data.ptr));
  hot_sockets_.Looked();
  if (count <= 0) {
    ++counters_.waits_in_vain;
    return false;
  }
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      TakeSignals(mapping_->event_fd());
    } else if (FdHandler* handler = ready_[static_cast<std::size_t>(i)]; handler != nullptr) {
      handler->OnReady(events[i].events);
    }
  }
  ready_.clear();
  return true;
}

absl::Status SoftDevice::Watch(int fd, FdHandler* handler, std::uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.ptr = handler;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl add: ", strerror(errno)));
  }
  return absl::OkStatus();
}

void SoftDevice::ChangeWatch(int fd, FdHandler* handler, std::uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.ptr = handler;
  RING_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event) == 0)
      << "epoll_ctl mod errno=" << errno;
}

void SoftDevice::Unwatch(int fd, FdHandler* handler) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  for (FdHandler*& ready : ready_) {
    if (ready == handler) ready = nullptr;
  }
}

}  // namespace soft
}  // namespace ring::rdma
