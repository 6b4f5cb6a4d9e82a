// rdma/soft/uring_receiver.h — receives from all tcp sockets of a device through one io_uring.
//
// What:      each socket has one receive that stays armed; the kernel puts what comes into buffers
//            that all sockets share, and tells in memory that there is something. One call fetches
//            what came on all of them; when nothing came there is no call. The same ring tells when
//            a descriptor of the device's epoll set is ready, so nobody asks in vain.
// Shape:     Turn hands over what came, a socket's bytes in the order of its stream, in pieces of
//            at most kBufferSize. Of one socket at most kBuffers pieces come after Stop.
// Ownership: borrows sockets and descriptors; a buffer is the receiver's again when OnBytes
//            returns. After Remove nothing is told of a socket, and its bytes are read by nobody:
//            shut it down, as the armed receive holds it open until it ends.
// Threads:   the device's. In another thread than that of Open, or of the last Turn, Turn opens a
//            new ring.
// Errors:    Open: kUnavailable where the system has or allows no io_uring of Linux 6.1.
// Cost:      Turn: two loads when nothing came, else one system call. kBuffers * kBufferSize bytes.
// Source:    io_uring_setup(2) (IORING_SETUP_DEFER_TASKRUN), io_uring_prep_recv_multishot(3).
#ifndef RING_RDMA_SOFT_URING_RECEIVER_H_
#define RING_RDMA_SOFT_URING_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"

namespace ring::rdma::soft {

class UringReceiver {
 public:
  static constexpr std::size_t kBuffers = 64;
  static constexpr std::size_t kBufferSize = 8 << 10;

  class Socket {
   public:
    virtual ~Socket() = default;
    virtual void OnBytes(absl::Span<const std::byte> bytes) = 0;
    // Nothing comes any more: the peer's end of file, or an error.
    virtual void OnEnd() = 0;
  };
  using Slot = std::uint32_t;

  // Watches the epoll descriptor as well: see TakeDescriptorsReady. event_fd: an eventfd that
  // becomes readable, while the device sleeps, when the next Turn has something to do.
  static absl::StatusOr<std::unique_ptr<UringReceiver>> Open(int epoll_fd, int event_fd);
  ~UringReceiver();
  UringReceiver(const UringReceiver&) = delete;
  UringReceiver& operator=(const UringReceiver&) = delete;

  // Receives from it, from the next turn on.
  Slot Add(int fd, Socket* socket);
  void Stop(Slot slot);
  void Start(Slot slot);
  void Remove(Slot slot);

  // Gives whether anything came.
  bool Turn(DeviceCounters* calls);
  // Whether the epoll set became ready since this was last asked.
  bool TakeDescriptorsReady();

  // Going to sleep takes all signals from event_fd: look for work of every kind afterwards.
  void SetSleeping(bool sleeping);

 private:
  struct Kernel;  // what liburing knows
  struct Receive {
    int fd = -1;
    Socket* socket = nullptr;  // null: removed
    bool wanted = false;
    bool armed = false;       // the kernel has it
    bool queued = false;      // in changed_
    bool cancelling = false;  // the kernel was asked to give it back
  };
  struct Completion {
    std::uint64_t tag = 0;
    int result = 0;
    std::uint32_t flags = 0;
  };

  UringReceiver(int epoll_fd, int event_fd);
  absl::Status OpenKernel();
  void MoveToThisThread();
  // Nothing for the next Turn to do.
  bool IsIdle() const;
  void Change(Slot slot);
  void Prepare();
  bool Enter(DeviceCounters* calls);
  void Withdraw();
  void Collect();
  void HandOver();
  void HandOverOne(const Completion& completion);
  void GiveBack(std::uint32_t buffer);

  int epoll_fd_;
  int event_fd_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<Receive> receives_;
  std::vector<Slot> free_;
  std::vector<Slot> changed_;  // to be armed or cancelled with the next call
  std::vector<Completion> completions_;
  bool watch_armed_ = false;  // of the epoll set
  bool descriptors_ready_ = false;
  bool sleeping_ = false;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_URING_RECEIVER_H_
