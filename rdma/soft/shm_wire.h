// rdma/soft/shm_wire.h — the messages of the "shm:" handshake.
//
// What:      ShmMessage and its transfer over a SOCK_SEQPACKET unix socket, with the memfd and the
//            eventfd of the sender as SCM_RIGHTS. After the handshake nothing is sent: the socket's
//            end of file says that the peer let go, or died.
// Shape:     connector: kHello; acceptor: kAccept or kReject. kHello and kAccept carry two
//            descriptors.
// Threads:   pure system calls.
// Errors:    Receive gives kUnavailable (end of file), kFailedPrecondition (nothing there yet),
//            kInvalidArgument (not a message of ours; says why).
#ifndef RING_RDMA_SOFT_SHM_WIRE_H_
#define RING_RDMA_SOFT_SHM_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/receive_queue.h"

namespace ring::rdma::soft {

struct ShmMessage {
  enum class Kind : std::uint32_t { kHello = 1, kAccept = 2, kReject = 3 };  // never renumber
  Kind kind = Kind::kHello;
  MappingLayout layout;
  std::uint64_t arena_address = 0;
  MailboxName mailbox;
  std::string private_data;
};

// A received message owns its descriptors until they are taken.
class ShmReceived {
 public:
  ShmReceived() = default;
  ShmReceived(ShmReceived&& other) noexcept;
  ShmReceived& operator=(ShmReceived&&) = delete;
  ~ShmReceived();
  int TakeMemoryFd();
  int TakeEventFd();

  ShmMessage message;
  int fds[2] = {-1, -1};
};

// False: the peer is gone, or does not read.
bool SendShmMessage(int socket, const ShmMessage& message, int memory_fd, int event_fd);
absl::StatusOr<ShmReceived> ReceiveShmMessage(int socket);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SHM_WIRE_H_
