// rdma/soft/socket_listener.h — accepts connections of a listening socket for an endpoint.
//
// What:      accepts in bounded batches. Keeps a spare descriptor: when the process has none left,
//            a connection can still be accepted, told why it is refused, and closed, instead of
//            waiting in the backlog for ever.
// Ownership: owns its descriptor.
// Threads:   the device's.
// Errors:    none after Start.
#ifndef RING_RDMA_SOFT_SOCKET_LISTENER_H_
#define RING_RDMA_SOFT_SOCKET_LISTENER_H_

#include "absl/status/status.h"
#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class SoftDevice;

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
  void OnReady(std::uint32_t epoll_events) override;

 private:
  void RefuseWithSpare();

  SoftDevice* device_;
  int fd_;
  int spare_fd_ = -1;
  Sink* sink_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SOCKET_LISTENER_H_
