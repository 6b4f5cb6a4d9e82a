// api/admin/admin_listener.h — accepts the connections of the operators' service for gRPC.
//
// What:      AdminListener listens, and gives connections whose peer has begun to speak HTTP/2
//            (preface_gate.h) to a function from a thread of its own. gRPC's own listener stops for
//            good when the process is out of descriptors for once (as of version 1.51); this one
//            refuses, tells why, and goes on.
// Ownership: owns socket and thread; who is given a connection owns it.
// Threads:   one at a time; the function is called by the listener's thread, until Stop returns.
// Errors:    Open: kInvalidArgument (address), kUnavailable (it cannot be listened at).
#ifndef RING_API_ADMIN_ADMIN_LISTENER_H_
#define RING_API_ADMIN_ADMIN_LISTENER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "ring/base/acceptor.h"

namespace ring::admin {

class AdminListener {
 public:
  // address: "HOST:PORT"; port 0 takes a free one.
  static absl::StatusOr<std::unique_ptr<AdminListener>> Open(const std::string& address);
  ~AdminListener();

  int port() const { return port_; }
  // take: gets each connection, a nonblocking socket.
  void Start(absl::AnyInvocable<void(int)> take);
  // Ends the thread and closes the socket. Idempotent.
  void Stop();

 private:
  // Left to the process: its files, and connections between nodes.
  static constexpr std::size_t kReserve = 16;

  AdminListener(int fd, int port);
  void Run();

  std::unique_ptr<Acceptor> acceptor_;
  int port_;
  int stop_fd_;
  absl::AnyInvocable<void(int)> take_;
  std::thread thread_;
};

}  // namespace ring::admin

#endif  // RING_API_ADMIN_ADMIN_LISTENER_H_
