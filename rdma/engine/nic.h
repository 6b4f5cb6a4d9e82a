// rdma/engine/nic.h — the NIC's thread.
//
// What:      Nic owns a soft device and the thread that drives it: takes posts from the doorbell
//            ring, makes progress, publishes completions and connection events, and runs calls of
//            the host in between. It sleeps when there is nothing to do.
// Shape:     a turn notes what the host has polled, then takes every post: so that none that was
//            posted before a poll finds the completion gone (a WAIT counts what was not polled).
// Ownership: owns the device; queues and queue pairs enter and leave themselves.
// Threads:   the host's, and its own.
// Errors:    Start: those of OpenSoftDevice.
#ifndef RING_RDMA_ENGINE_NIC_H_
#define RING_RDMA_ENGINE_NIC_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "rdma/engine/doorbell_ring.h"
#include "rdma/engine/engine_device.h"
#include "rdma/fabric.h"
#include "ring/base/sync.h"

namespace ring::rdma::soft {
class SoftDevice;
}

namespace ring::rdma::engine {

class EngineCompletionQueue;
class EngineQueuePair;

class Nic {
 public:
  static absl::StatusOr<std::unique_ptr<Nic>> Start(const EngineDeviceOptions& options);
  ~Nic();

  // --- host ---
  // Runs the work in the NIC's thread, behind what was posted, and waits for it.
  void Call(absl::FunctionRef<void()> work);
  DoorbellRing& doorbells() { return doorbells_; }
  // Waits until the NIC took so much out of the ring that there is room.
  void AwaitRoom(std::size_t count);
  // Publishes what was pushed, and wakes the NIC if it sleeps.
  void Ring();
  bool TakeEvent(ConnectionEvent* event);
  // Whether anything happened since the last look; makes event_fd() unreadable, but not for who is
  // about to sleep on it.
  bool Look();
  void SetSleeping(bool sleeping);
  int event_fd() const { return host_fd_; }
  EngineCounters counters() const;
  // In a call; or, for what never changes or is atomic, at any time.
  soft::SoftDevice* device() const { return device_; }

  // --- in calls ---
  void Add(EngineCompletionQueue* cq) { queues_.push_back(cq); }
  void Add(EngineQueuePair* qp) { queue_pairs_.push_back(qp); }
  void Remove(EngineCompletionQueue* cq);
  void Remove(EngineQueuePair* qp);

  // --- NIC ---
  void WakeHost();

 private:
  explicit Nic(const EngineDeviceOptions& options);
  absl::Status OpenDescriptors();
  void WakeNic();
  void Loop();
  bool Turn();
  bool TakeDoorbells();
  void Execute(std::size_t count);
  bool RunCall();
  void TellEvent(ConnectionEvent event);
  bool Publish();
  void Sleep();

  EngineDeviceOptions options_;
  DoorbellRing doorbells_;
  int bell_fd_ = -1;
  int host_fd_ = -1;
  std::atomic<bool> host_woken_{false};
  std::atomic<std::uint64_t> activity_{0};  // counts turns in which something happened
  std::uint64_t activity_seen_ = 0;         // the host's
  bool host_sleeps_ = false;                // the same
  bool host_slept_ = false;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> called_{false};
  std::atomic<std::uint64_t> posts_taken_{0};
  std::atomic<std::uint64_t> calls_run_{0};
  std::atomic<std::uint64_t> sleeps_{0};
  Mutex mutex_;
  CondVar done_;
  absl::FunctionRef<void()>* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stop_ = false;  // written in a call
  std::deque<ConnectionEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::size_t> event_count_{0};
  // The NIC's.
  std::unique_ptr<Device> owned_device_;
  soft::SoftDevice* device_ = nullptr;
  std::vector<EngineCompletionQueue*> queues_;
  std::vector<EngineQueuePair*> queue_pairs_;
  const QueuePair* removed_ = nullptr;  // by the call under way
  std::thread thread_;
};

}  // namespace ring::rdma::engine

#endif  // RING_RDMA_ENGINE_NIC_H_
