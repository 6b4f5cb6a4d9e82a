// rdma/soft/socket_listener.h — accepts connections of a listening socket for an endpoint.
//
// What:      accepts in bounded batches. Who would take one of the process's last descriptors is
//            told why it is refused, and closed (ring/base/acceptor.h). While not even that can be
//            done, whoever waits is looked at again every kRetryNs: the socket stays readable, and
//            would keep the device's thread from its sleep.
// Units:     nanoseconds of CLOCK_MONOTONIC.
// Ownership: owns its descriptors: the socket and a timer, which Start makes, as when it is needed
//            none can be made.
// Threads:   the device's.
// Errors:    Start: kResourceExhausted (descriptors). None after it.
#ifndef RING_RDMA_SOFT_SOCKET_LISTENER_H_
#define RING_RDMA_SOFT_SOCKET_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rdma/soft/endpoint.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/acceptor.h"

namespace ring::rdma::soft {

class SoftDevice;

// Why no further connection is let in, naming the limit; empty: there is room.
std::string FullReason(const SoftDeviceOptions& options, std::size_t connection_count,
                       std::size_t hello_count);

class SocketListener final : public FdHandler {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnAccepted(int fd) = 0;  // takes the descriptor
    // Tells the peer why it is refused. The descriptor is closed afterwards.
    virtual void Refuse(int fd, absl::string_view reason) = 0;
  };

  // Takes a listening, nonblocking socket.
  SocketListener(SoftDevice* device, int fd, Sink* sink);
  ~SocketListener() override;
  absl::Status Start();
  // The socket, or the timer.
  void OnReady(std::uint32_t epoll_events) override;

 private:
  static constexpr std::uint64_t kRetryNs = 20'000'000;
  // Left to the process: its own connections, files, and the operators' service.
  static constexpr std::size_t kReserve = 64;

  void Pause();
  void Resume();

  SoftDevice* device_;
  Acceptor acceptor_;
  Sink* sink_;
  int timer_fd_ = -1;
  bool paused_ = false;  // the timer runs, and the socket is not watched
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SOCKET_LISTENER_H_
