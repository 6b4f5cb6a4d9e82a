#include "rdma/engine/nic.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/engine/engine_queues.h"
#include "rdma/soft/device.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::rdma::engine {
namespace {

// Requests that wait for a time, or for a peer that wakes nobody, are looked at so often.
constexpr int kSleepMsWithWork = 1;
constexpr int kSleepMsMax = 50;
constexpr std::uint32_t kTurnsPerYield = 16;

void Signal(int fd) {
  const std::uint64_t one = 1;
  const ssize_t written = write(fd, &one, sizeof(one));
  static_cast<void>(written);
}

void Drain(int fd) {
  std::uint64_t count = 0;
  const ssize_t taken = read(fd, &count, sizeof(count));
  static_cast<void>(taken);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Nic>> Nic::Start(const EngineDeviceOptions& options) {
  RING_CHECK(options.soft.attachment == nullptr) << "a simulated device has no thread";
  std::unique_ptr<Nic> nic(new Nic(options));
  RING_RETURN_IF_ERROR(nic->OpenDescriptors());
  nic->thread_ = std::thread([raw = nic.get()] { raw->Loop(); });
  absl::Status status;
  // Its owner mutex lives in the thread that opens it.
  nic->Call([&] {
    absl::StatusOr<std::unique_ptr<Device>> opened = OpenSoftDevice(options.soft);
    status = opened.status();
    if (!opened.ok()) return;
    nic->owned_device_ = *std::move(opened);
    nic->device_ = static_cast<soft::SoftDevice*>(nic->owned_device_.get());
  });
  RING_RETURN_IF_ERROR(status);
  return nic;
}

Nic::Nic(const EngineDeviceOptions& options)
    : options_(options), doorbells_(options.doorbell_depth) {}

absl::Status Nic::OpenDescriptors() {
  bell_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  host_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_fd_ >= 0 && host_fd_ >= 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("device ", options_.soft.name, ": eventfd: ", strerror(errno)));
}

Nic::~Nic() {
  if (thread_.joinable()) {
    Call([this] {
      owned_device_.reset();
      device_ = nullptr;
      stop_ = true;
    });
    thread_.join();
  }
  if (bell_fd_ >= 0) close(bell_fd_);
  if (host_fd_ >= 0) close(host_fd_);
}

void Nic::Call(absl::FunctionRef<void()> work) {
  MutexLock lock(mutex_);
  call_ = &work;
  called_.store(true, std::memory_order_seq_cst);
  WakeNic();
  while (call_ != nullptr) done_.Wait(mutex_);
}

void Nic::WakeNic() {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) Signal(bell_fd_);
}

void Nic::AwaitRoom(std::size_t count) {
  while (!doorbells_.HasRoom(count)) std::this_thread::yield();
}

void Nic::Ring() {
  doorbells_.Publish();
  WakeNic();
}

bool Nic::TakeEvent(ConnectionEvent* event) {
  if (event_count_.load(std::memory_order_acquire) == 0) return false;
  MutexLock lock(mutex_);
  *event = std::move(events_.front());
  events_.pop_front();
  event_count_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

bool Nic::Look() {
  if (!host_sleeps_ && (host_slept_ || host_woken_.load(std::memory_order_relaxed))) {
    host_slept_ = false;
    host_woken_.store(false, std::memory_order_relaxed);
    Drain(host_fd_);
  }
  const std::uint64_t activity = activity_.load(std::memory_order_acquire);
  return std::exchange(activity_seen_, activity) != activity;
}

void Nic::SetSleeping(bool sleeping) {
  host_sleeps_ = sleeping;
  host_slept_ |= sleeping;
  device_->TellSleeping(sleeping);
}

// The flag last: who sees it drains what was signalled.
void Nic::WakeHost() {
  Signal(host_fd_);
  host_woken_.store(true, std::memory_order_release);
}

EngineCounters Nic::counters() const {
  return {posts_taken_.load(), calls_run_.load(), sleeps_.load()};
}

void Nic::Remove(EngineCompletionQueue* cq) {
  queues_.erase(std::remove(queues_.begin(), queues_.end(), cq), queues_.end());
}

void Nic::Remove(EngineQueuePair* qp) {
  queue_pairs_.erase(std::remove(queue_pairs_.begin(), queue_pairs_.end(), qp), queue_pairs_.end());
  removed_ = qp;
}

void Nic::Loop() {
  std::uint32_t idle = 0;
  while (!stop_) {
    if (Turn()) {
      idle = 0;
    } else if (++idle >= options_.spin_turns) {
      Sleep();
      idle = 0;
    } else if (idle % kTurnsPerYield == 0) {
      std::this_thread::yield();
    }
  }
}

bool Nic::Turn() {
  for (EngineCompletionQueue* cq : queues_) cq->NotePolled();
  bool worked = device_ != nullptr && device_->Progress();
  worked |= TakeDoorbells();
  for (EngineCompletionQueue* cq : queues_) cq->DiscardNoted();
  worked |= RunCall();
  worked |= Publish();
  if (worked) activity_.fetch_add(1, std::memory_order_release);
  return worked;
}

bool Nic::TakeDoorbells() {
  bool any = false;
  while (!doorbells_.empty()) {
    std::size_t count = 1;
    while (!doorbells_.at(count - 1).last) ++count;
    Execute(count);
    doorbells_.Pop(count);
    posts_taken_.fetch_add(1, std::memory_order_relaxed);
    any = true;
  }
  return any;
}

// One chain, or one receive.
void Nic::Execute(std::size_t count) {
  Doorbell& first = doorbells_.at(0);
  if (first.receive) return first.qp->PostRecvBelow(first.request.wr.wr_id, first.request.wr.sges);
  for (std::size_t i = 0; i < count; ++i) {
    Doorbell& doorbell = doorbells_.at(i);
    doorbell.request.wr.next = i + 1 < count ? &doorbells_.at(i + 1).request.wr : nullptr;
    if (doorbell.wait_cq != nullptr) doorbell.wait_cq->Discard(doorbell.wait_polled);
  }
  first.qp->PostSendBelow(first.request.wr, count);
}

// The work runs without the lock: it may open the device, whose owner mutex this thread then holds
// for good.
bool Nic::RunCall() {
  if (!called_.load(std::memory_order_acquire)) return false;
  absl::FunctionRef<void()>* work = nullptr;
  {
    MutexLock lock(mutex_);
    work = call_;
  }
  called_.store(false, std::memory_order_relaxed);
  TakeDoorbells();  // the host pushed them before it called
  removed_ = nullptr;
  (*work)();
  for (EngineQueuePair* qp : queue_pairs_) qp->Mirror();
  calls_run_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  // Of a queue pair that is gone nobody hears any more.
  if (removed_ != nullptr) {
    event_count_.fetch_sub(std::erase_if(
        events_, [this](const ConnectionEvent& event) { return event.qp == removed_; }));
  }
  call_ = nullptr;
  done_.NotifyAll();
  return true;
}

void Nic::TellEvent(ConnectionEvent event) {
  if (event.qp != nullptr) event.qp = static_cast<EngineQueuePair*>(event.qp->context());
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
  event_count_.fetch_add(1, std::memory_order_release);
}

// States first: who hears of something finds the queue pair as it was then, or later. A connection
// stands before anything arrives by it, and ends behind that.
bool Nic::Publish() {
  for (EngineCompletionQueue* cq : queues_) cq->below()->Harvest();
  bool worked = device_ != nullptr && device_->has_deferred() && device_->RunDeferred();
  for (EngineQueuePair* qp : queue_pairs_) qp->Mirror();
  std::vector<ConnectionEvent> others;
  bool told = false;
  for (ConnectionEvent event; device_ != nullptr && device_->PollEvent(&event); told = true) {
    if (event.kind == ConnectionEvent::Kind::kEstablished) {
      TellEvent(std::move(event));
    } else {
      others.push_back(std::move(event));
    }
  }
  for (EngineCompletionQueue* cq : queues_) worked |= cq->Publish();
  for (ConnectionEvent& event : others) TellEvent(std::move(event));
  if (told) WakeHost();
  return worked || told;
}

// Whoever has something for this thread stores it first and looks at asleep_ afterwards, or finds
// a queue armed; this thread does the reverse.
void Nic::Sleep() {
  asleep_.store(true, std::memory_order_seq_cst);
  for (EngineCompletionQueue* cq : queues_) cq->below()->Arm();
  if (device_ != nullptr) device_->PrepareToSleep(true);
  if (!Turn() && !stop_) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    pollfd entries[] = {{bell_fd_, POLLIN, 0},
                        {device_ != nullptr ? device_->event_fd() : -1, POLLIN, 0}};
    const bool work = device_ != nullptr && device_->has_deferred();
    poll(entries, 2, work ? kSleepMsWithWork : kSleepMsMax);
  }
  asleep_.store(false, std::memory_order_seq_cst);
  Drain(bell_fd_);
  if (device_ != nullptr) device_->PrepareToSleep(false);
}

}  // namespace ring::rdma::engine
