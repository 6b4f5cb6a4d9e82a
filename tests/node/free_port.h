// tests/node/free_port.h — a port of this machine that nobody listens at just now.
//
// What:      FreePort, for configurations that must say a node's address before it starts.
// Threads:   any.
// Errors:    0 if there is none.
#ifndef RING_TESTS_NODE_FREE_PORT_H_
#define RING_TESTS_NODE_FREE_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ring::node::testing {

inline int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_FREE_PORT_H_
