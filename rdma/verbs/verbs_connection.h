// rdma/verbs/verbs_connection.h — one connection over the card.
//
// What:      VerbsConnection makes it (connection manager, then our own handshake), carries the
//            requests of one queue pair, and ends it. VerbsLink is what the queue pair holds of it.
// Shape:     a connector resolves address and route, connects the control queue, says hello, and is
//            accepted or rejected; an acceptor lets the control queue in, and the owner decides
//            when it heard the hello. The data's queue takes the same path afterwards. An
//            acceptor's requests wait for the connector's last message.
// Ownership: the endpoint's, and the link's or the unanswered request's. The queue pair is found by
//            number: it may be gone.
// Threads:   the device's.
// Errors:    what fails before the connection is there is a rejection with a reason; afterwards the
//            queue pair fails and gives kDisconnected.
// Cost:      Issue: the card's key by one load. A key that was never met costs a READ of 8 bytes.
//
// Sleep. What a card writes wakes nobody. Who goes to sleep WRITEs a word at each peer that has
// used up the one before; the completion of that wakes it once more, and it looks again. A peer
// looks at the word when its WRITEs are completed, thus are there, and sends a wake-up if it is
// set. So either the sleeper's last look is late enough to see what was written, or the word was
// early enough. That takes from the cards only that a WRITE is in memory before its completion is
// seen.
#ifndef RING_RDMA_VERBS_VERBS_CONNECTION_H_
#define RING_RDMA_VERBS_VERBS_CONNECTION_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/soft/endpoint.h"
#include "rdma/soft/link.h"
#include "rdma/verbs/control_queue.h"
#include "rdma/verbs/data_queue.h"
#include "rdma/verbs/peer_keys.h"

namespace ring::rdma::soft {
class SoftDevice;
class SoftQueuePair;
struct SocketAddress;
}  // namespace ring::rdma::soft

namespace ring::rdma::verbs {

// An event of the connection manager, copied.
struct CmEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
  int status = 0;
  std::vector<std::byte> private_data;
};

class VerbsConnection final : public std::enable_shared_from_this<VerbsConnection> {
 public:
  // What a connection wants of its endpoint.
  class Hub {
   public:
    virtual ~Hub() = default;
    // The card that the id's address is of, opened.
    virtual absl::StatusOr<Nic*> NicOf(rdma_cm_id* id) = 0;
    // Takes the completions that are there already.
    virtual void Drain() = 0;
    // Of the card's port: whether what is sent through it gets anywhere.
    virtual absl::Status PortStatus() = 0;
    // How many connections are not at rest.
    virtual void AddRestless(int delta) = 0;
  };
  enum class State : std::uint8_t {
    kResolving = 0,
    kConnecting = 1,
    kAwaitAnswer = 2,
    kAwaitHello = 3,
    kRequested = 4,
    kLinked = 5,
    kClosing = 6,  // the other end is told
    kDead = 7,
  };

  VerbsConnection(soft::SoftDevice* device, Hub* hub, std::uint32_t serial);
  ~VerbsConnection();

  // source: null lets the routes decide.
  absl::Status Connect(rdma_event_channel* channel, const soft::SocketAddress* source,
                       const soft::SocketAddress& target, soft::SoftQueuePair* qp,
                       absl::string_view private_data);
  // Takes the id of a connection request; refuses it by itself where it has to.
  void Admit(rdma_cm_id* id, absl::Span<const std::byte> private_data);

  State state() const { return state_; }
  std::uint32_t serial() const { return serial_; }
  bool AwaitsHello() const { return state_ == State::kAwaitHello; }
  // Needs Progress; a dead one, to be forgotten.
  bool restless() const { return restless_; }
  void Forget() { SetRestless(false); }
  bool peer_closed() const { return peer_closed_; }

  void OnCmEvent(const CmEvent& event);
  void OnCompletion(const WrId& id, const ibv_wc& completion);
  // Deadlines, and what broke while completions were taken.
  bool Progress();
  // The other end, or the card, is gone.
  void OnHangUp();

  absl::Status AcceptWith(soft::SoftQueuePair* qp, absl::string_view private_data);
  void Refuse(absl::string_view reason);

  soft::IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence);
  soft::CommitResult Commit();
  void OnReceivePosted();
  void Close();
  void TellSleeping();

 private:
  soft::SoftQueuePair* qp() const;
  void SetState(State state);
  void SetRestless(bool restless);
  void Break(absl::string_view why);
  void BreakWithData();
  absl::Status MakeControl();
  absl::Status ConnectControl(absl::Span<const std::byte> greeting);
  absl::StatusOr<std::unique_ptr<DataQueue>> MakeData(const soft::SoftQueuePair& own);
  void Resolved();
  void Routed();
  void Answered(absl::Span<const std::byte> greeting);
  absl::Status StartAdmission(absl::Span<const std::byte> greeting);
  bool SendControl(ControlType type, absl::string_view private_data);
  void OnControlMessage(const ControlMessage& message);
  void OnHello(const ControlMessage& message);
  void OnAnswer(const ControlMessage& message);
  void Link(soft::SoftQueuePair* own, std::string private_data);
  void OnControlReceive(const WrId& id, const ibv_wc& completion);
  void OnDataCompletion(const WrId& id, const ibv_wc& completion);
  void OnArrival(const ibv_wc& completion);
  void WakePeer();
  void AskKey(std::uint32_t key);
  void TellUnusual(ibv_wc_status status, WcStatus meaning);
  void Fail(absl::string_view reason);
  void Disconnect();
  void SayGoodbye();
  void Die();

  soft::SoftDevice* device_;
  Hub* hub_;
  std::uint32_t serial_;
  Nic* nic_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  State state_ = State::kResolving;
  bool restless_ = true;
  bool broken_ = false;
  bool peer_closed_ = false;
  bool goodbye_waits_ = false;  // until the port is up
  bool peer_ready_ = false;     // its data queue can receive
  bool told_sleeping_ = false;
  std::uint64_t deadline_ns_ = 0;
  std::uint32_t qp_number_ = 0;
  std::string private_data_;  // of the hello
  Path path_;
  std::unique_ptr<ControlQueue> control_;
  std::unique_ptr<DataQueue> data_;
  std::uint32_t peer_data_number_ = 0;
  RemoteWord peer_table_;
  RemoteWord peer_word_;
  PeerKeys keys_;
  std::uint32_t asked_key_ = 0;  // 0: none is asked for
};

class VerbsLink final : public soft::Link {
 public:
  explicit VerbsLink(std::shared_ptr<VerbsConnection> connection)
      : connection_(std::move(connection)) {}
  absl::string_view transport() const override { return "rdma"; }
  soft::IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence) override {
    return connection_->Issue(wr, sequence);
  }
  soft::CommitResult Commit() override { return connection_->Commit(); }
  bool BoundsRnrHere() const override { return false; }
  std::uint32_t PeerSleep() const override { return 0; }
  bool PeerClosed() const override { return connection_->peer_closed(); }
  void OnReceivePosted() override { connection_->OnReceivePosted(); }
  void Close() override { connection_->Close(); }

 private:
  std::shared_ptr<VerbsConnection> connection_;
};

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_VERBS_CONNECTION_H_
