// ring/base/acceptor.h — accepts connections without running the process out of file descriptors.
//
// What:      Next gives the connections that wait at a listening socket. When fewer than `reserve`
//            descriptors would be left to the process, a connection is still given, but to be
//            refused: told why where the protocol has words for it, and closed. So the last ones
//            stay for what the process opens itself, and nobody waits in the backlog for ever.
// Shape:     a spare descriptor makes room for a refusal when none at all is left.
// Units:     descriptors. Of a limit below 4 * reserve a quarter is reserved.
// Ownership: owns the listening socket; who takes a connection owns it.
// Threads:   thread-compatible.
// Errors:    what accept(2) says of one connection that is gone is passed over.
// Cost:      one accept4 and one getrlimit a connection.
#ifndef RING_BASE_ACCEPTOR_H_
#define RING_BASE_ACCEPTOR_H_

#include <cstddef>
#include <optional>

namespace ring {

class Acceptor {
 public:
  struct Connection {
    int fd = -1;  // nonblocking, closed by exec
    bool refuse = false;
  };

  // Takes a listening, nonblocking socket.
  Acceptor(int fd, std::size_t reserve);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int fd() const { return fd_; }
  // Nothing: no connection waits, or none can be taken now. A connection to be refused is to be
  // closed before the next call.
  std::optional<Connection> Next();

 private:
  int Accept() const;
  bool MustRefuse(int fd) const;

  int fd_;
  std::size_t reserve_;
  int spare_fd_;
};

}  // namespace ring

#endif  // RING_BASE_ACCEPTOR_H_
