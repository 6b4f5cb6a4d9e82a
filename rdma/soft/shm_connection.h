// rdma/soft/shm_connection.h — one handshake socket of the "shm:" link, until both sides have let
// go.
//
// What:      ShmConnection exchanges hello and answer, makes the link, and reports the socket's end
//            of file: the peer let go of our mailbox, or died.
// Shape:     kAwaitHello -> kRequested -> kLinked at the acceptor, kAwaitAnswer -> kLinked at the
//            connector; kClosing while our side has let go and the peer has not. A connector that
//            gave up before the answer closes the socket, and its hello is not heard any more.
// Ownership: shared by the endpoint, its link and its unanswered request.
// Threads:   the device's.
// Errors:    a peer that does not play by the rules is refused with a reason and closed.
#ifndef RING_RDMA_SOFT_SHM_CONNECTION_H_
#define RING_RDMA_SOFT_SHM_CONNECTION_H_

#include <sys/epoll.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/soft/device.h"
#include "rdma/soft/endpoint.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/receive_queue.h"
#include "rdma/soft/shm_wire.h"

namespace ring::rdma::soft {

// What a connection needs of its endpoint.
class ShmPeers {
 public:
  virtual ~ShmPeers() = default;
  // Many queue pairs between two processes share one mapping.
  virtual absl::StatusOr<std::shared_ptr<Mapping>> MapPeer(ShmReceived& received) = 0;
  virtual void NoteDead() = 0;
};

void SendShmRefusal(int socket, absl::string_view reason);

class ShmConnection final : public FdHandler, public std::enable_shared_from_this<ShmConnection> {
 public:
  enum class State { kAwaitHello, kRequested, kAwaitAnswer, kLinked, kClosing, kDead };

  ShmConnection(ShmPeers* peers, SoftDevice* device, int fd, State state)
      : peers_(peers), device_(device), fd_(fd), state_(state), created_ns_(device->NowNs()) {}
  ~ShmConnection() override { Die(); }

  State state() const { return state_; }
  std::uint64_t created_ns() const { return created_ns_; }
  bool hung_up() const { return hung_up_; }

  absl::Status Start() { return device_->Watch(fd_, this, EPOLLIN | EPOLLRDHUP); }
  // Binds our end; the peer learns the mailbox with the message.
  bool SendOwn(ShmMessage::Kind kind, SoftQueuePair* qp, absl::string_view private_data);
  void Refuse(absl::string_view reason);
  void OnReady(std::uint32_t epoll_events) override;
  absl::Status AcceptWith(SoftQueuePair* qp, absl::string_view private_data);
  // Ends a request whose queue pair is gone or reset, unless the peer has answered it.
  // REQUIRES: kAwaitAnswer.
  void EndIfGivenUp();
  // The link closed: nothing of the peer is touched any more.
  void LetGo();
  void Die();

 private:
  void OnHello(ShmReceived received);
  void OnAnswer(ShmReceived received);
  void OnHangUp();
  SoftQueuePair* qp() const { return device_->FindQueuePair(qp_number_); }

  ShmPeers* peers_;
  SoftDevice* device_;
  int fd_;
  State state_;
  std::uint64_t created_ns_;
  bool hung_up_ = false;
  std::uint32_t qp_number_ = 0;
  MailboxName own_mailbox_;  // key 0: the peer knows none
  std::shared_ptr<Mapping> peer_;
  MailboxName peer_mailbox_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SHM_CONNECTION_H_
