// rdma/soft/socket_listener.h — accepts connections of a listening socket for an endpoint.
//
// What:      accepts in bounded batches. Who would take one of the process's last descriptors is
//            told why it is refused, and closed (ring/base/acceptor.h).
// Ownership: owns its descriptor.
// Threads:   the device's.
// Errors:    none after Start.
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
  void OnReady(std::uint32_t epoll_events) override;

 private:
  // Left to the process: its own connections, files, and the operators' service.
  static constexpr std::size_t kReserve = 64;

  SoftDevice* device_;
  Acceptor acceptor_;
  Sink* sink_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SOCKET_LISTENER_H_
