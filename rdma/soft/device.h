// rdma/soft/device.h — the software NIC: arena, queues, connections, progress.
//
// What:      SoftDevice implements Device. It carves the arena, hands out mailboxes and
//            completion-queue cells, keeps the queue pairs with waiting requests, and drives its
//            endpoints.
// Ownership: owns endpoints and unanswered requests; queue pairs and queues point back to it and go
//            first.
// Threads:   one.
// Errors:    see fabric.h.
// Cost:      an idle Progress is a few loads; descriptors are asked for when armed, sleeping, or
//            every 1,024th turn. While a tcp connection is open: with io_uring one system call a
//            turn in which something came, and none in others; else one a turn that asks or
//            receives (hot_sockets.h).
#ifndef RING_RDMA_SOFT_DEVICE_H_
#define RING_RDMA_SOFT_DEVICE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rdma/fabric.h"
#include "rdma/soft/dirty_runs.h"
#include "rdma/soft/endpoint.h"
#include "rdma/soft/freed_runs.h"
#include "rdma/soft/hot_sockets.h"
#include "rdma/soft/link.h"
#include "rdma/soft/mailbox_pool.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/nic_endpoint.h"
#include "rdma/soft/region_table.h"
#include "rdma/soft/retry_timer.h"
#include "rdma/soft/soft_device.h"
#include "rdma/soft/uring_receiver.h"
#include "rdma/soft/warm_runs.h"

namespace ring::rdma::soft {

class SoftCompletionQueue;
class SoftQueuePair;

class SoftDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(const SoftDeviceOptions& options);
  ~SoftDevice() override;

  const Caps& caps() const override { return caps_; }
  absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) override;
  void Free(std::byte* address, std::size_t size, MemoryKind kind) override;
  void PreferHuge(std::byte* address, std::size_t size) override;
  void Populate(std::byte* address, std::size_t size) override;
  std::uint32_t LocalKey(const std::byte* address) const override {
    return IsPrivate(address, 0) ? private_.region->lkey() : arena_region_->lkey();
  }
  void Discard(std::byte* address, std::size_t size) override;
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access) override;
  absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) override;
  absl::StatusOr<std::string> Listen(absl::string_view address) override;
  absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                     const QueuePairOptions& options,
                                                     absl::string_view private_data) override;
  absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                    const QueuePairOptions& options,
                                                    absl::string_view private_data) override;
  void Reject(std::uint64_t request, absl::string_view private_data) override;
  bool PollEvent(ConnectionEvent* event) override;
  bool Progress() override;
  int event_fd() const override { return uring_ != nullptr ? mapping_->event_fd() : epoll_fd_; }
  void SetSleeping(bool sleeping) override {
    PrepareToSleep(sleeping);
    TellSleeping(sleeping);
  }
  bool PeerHoldsOn(std::uint32_t qp_number) const override {
    return mailboxes_.IsLeftToPeer(qp_number);
  }
  DeviceCounters device_counters() const override { return counters_; }
  absl::Status CardStatus() const override {
    return verbs_ == nullptr ? absl::OkStatus() : verbs_->CardStatus();
  }

  // SetSleeping in two parts, for those whose two threads sleep by themselves: what makes
  // event_fd() readable, of the device's thread; and what peers are told, of the one that sleeps.
  void PrepareToSleep(bool sleeping);
  void TellSleeping(bool sleeping);

  // --- for queue pairs, queues and endpoints ---
  const SoftDeviceOptions& options() const { return options_; }
  const std::shared_ptr<Mapping>& mapping() const { return mapping_; }
  RegionTable& regions() { return regions_; }
  MailboxPool& mailboxes() { return mailboxes_; }
  std::uint64_t NowNs() const { return clock_->NowNs(); }

  void NoteArmed() { check_descriptors_ = true; }
  void ReleaseCqCell(std::uint32_t index) { free_cq_cells_.push_back(index); }
  void Forget(SoftQueuePair* qp);
  SoftQueuePair* FindQueuePair(std::uint32_t number) const;

  // Tells an endpoint of all memory and regions that there are.
  absl::Status TellMemory(NicEndpoint* endpoint);

  bool has_deferred() const { return !deferred_.empty(); }
  void AddDeferred(SoftQueuePair* qp) { deferred_.push_back(qp); }
  void RemoveDeferred(SoftQueuePair* qp);
  bool RunDeferred();

  std::uint64_t AddRequest(std::unique_ptr<PendingRequest> request, std::string private_data);
  void Establish(SoftQueuePair* qp, std::unique_ptr<Link> link, std::string private_data);
  void FailConnect(SoftQueuePair* qp, std::string private_data);
  // Looks at one queue pair whose peer may be gone.
  void CheckPeer(SoftQueuePair* qp);

  absl::Status Watch(int fd, FdHandler* handler, std::uint32_t epoll_events);
  void ChangeWatch(int fd, FdHandler* handler, std::uint32_t epoll_events);
  // The handler is not called again, not even by the round of epoll events under way.
  void Unwatch(int fd, FdHandler* handler);
  DeviceCounters& mutable_counters() { return counters_; }
  HotSockets& hot_sockets() { return hot_sockets_; }
  // Null: sockets are received from one by one.
  UringReceiver* uring() const { return uring_.get(); }
  std::uint32_t turn() const { return turn_; }
  // Connections whose every turn needs a look at the descriptors.
  void AddPolledConnection(int delta) { polled_connections_ += delta; }

 private:
  explicit SoftDevice(const SoftDeviceOptions& options, std::shared_ptr<Mapping> mapping);
  absl::StatusOr<Endpoint*> EndpointOf(absl::string_view* address);
  absl::StatusOr<std::unique_ptr<SoftQueuePair>> MakeQueuePair(const QueuePairOptions& options,
                                                               bool mapped);
  void PushEvent(ConnectionEvent event);
  bool CheckPeers();
  bool PollDescriptors();
  void OpenUring();
  bool ProgressSockets();
  bool ProgressUring();
  void BindThread();
  static std::size_t Index(MemoryKind kind) { return static_cast<std::size_t>(kind); }
  std::byte* TakeRun(std::uint64_t size, MemoryKind kind);  // null: there is none
  bool ProgressPeers();
  void KeepWarm();
  void CleanStep();  // REQUIRES: something is dirty

  SoftDeviceOptions options_;
  Caps caps_;
  std::shared_ptr<Mapping> mapping_;
  RegionTable regions_;
  MailboxPool mailboxes_;
  const Clock* clock_;
  int epoll_fd_ = -1;
  // Memory that no peer maps: a memfd's pages are small unless the system is told otherwise,
  // private ones may be huge.
  struct Private {
    std::byte* reservation = nullptr;
    std::byte* memory = nullptr;
    std::uint64_t huge_allocated = 0;   // from the start
    std::uint64_t small_allocated = 0;  // from the end: neighbours are of one kind
    std::unique_ptr<MemoryRegion> region;
  };
  absl::Status ReserveMemory();
  bool IsPrivate(const std::byte* address, std::size_t size) const {
    const auto at =
        reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(private_.memory);
    return private_.memory != nullptr && size <= arena_size() && at <= arena_size() - size;
  }
  std::uint64_t arena_size() const { return mapping_->layout().arena_size; }
  Private private_;
  std::unique_ptr<MemoryRegion> arena_region_;
  std::map<std::byte*, std::uint64_t> runs_;  // what Allocate gave and Free did not take
  std::uint64_t allocated_ = 0;               // of the arena, ever
  DirtyRuns dirty_;                           // freed, and not clean yet
  std::array<FreedRuns, 3> freed_;            // by MemoryKind
  std::array<std::uint64_t, 3> in_use_ = {};  // bytes, by MemoryKind
  WarmRuns warm_runs_;                        // of what is not in use
  std::uint64_t next_request_ = 1;
  std::uint64_t next_cq_serial_ = 1;
  std::uint32_t turn_ = 0;
  std::uint32_t sleep_count_ = 0;
  DeviceCounters counters_;
  HotSockets hot_sockets_;
  int polled_connections_ = 0;
  bool check_descriptors_ = true;
  bool descriptors_ready_ = false;  // io_uring told of them, and some may be left
  bool running_deferred_ = false;
  RetryTimer retry_timer_;
  std::vector<std::uint32_t> free_cq_cells_;
  absl::flat_hash_map<std::uint32_t, SoftQueuePair*> queue_pairs_;
  std::vector<SoftQueuePair*> deferred_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<PendingRequest>> requests_;
  std::deque<ConnectionEvent> events_;
  std::vector<FdHandler*> ready_;  // of the epoll round under way; null: unwatched meanwhile
  std::unique_ptr<Endpoint> local_;
  std::unique_ptr<Endpoint> shm_;
  std::unique_ptr<Endpoint> tcp_;
  std::unique_ptr<NicEndpoint> verbs_;
  std::unique_ptr<UringReceiver> uring_;  // null: none, or refused
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_DEVICE_H_
