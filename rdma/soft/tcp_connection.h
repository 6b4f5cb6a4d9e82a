// rdma/soft/tcp_connection.h — one socket of the "tcp:" link: handshake, then a queue pair's
// requests both ways.
//
// What:      reads frames in bulk, executes the peer's requests against the own region table (the
//            same check as on a mapped link), gives the peer's answers to the own queue pair.
// Shape:     memory is polled between two turns, and a segment may end anywhere: a payload of up to
//            kWholeMax bytes lands only once all of it is here, a longer one by whole aligned words
//            of its target. WRITEs land in the order of the stream.
//            before a valid hello a connection holds one small buffer and reads at most kHelloSize
//            bytes. After it, tcp_receive_buffer bytes, or with io_uring what the receiver may
//            still bring after Stop. The transmit queue is bounded by what both sides may have
//            outstanding.
// Ownership: shared by the endpoint, its link and its unanswered request.
// Threads:   the device's.
// Errors:    a protocol violation closes the connection; the queue pair's requests end with
//            kRetryExceeded.
// Cost:      at most one sendmsg a turn, at its first post or at Progress. With io_uring a share of
//            one call a turn receives; without, one recv for what came in a turn, one more for each
//            piece of a payload of 64 KiB and more, and a linked socket is watched by edges: one
//            that is not hot (hot_sockets.h) costs nothing while quiet.
#ifndef RING_RDMA_SOFT_TCP_CONNECTION_H_
#define RING_RDMA_SOFT_TCP_CONNECTION_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/soft/endpoint.h"
#include "rdma/soft/hot_sockets.h"
#include "rdma/soft/link.h"
#include "rdma/soft/tcp_frame.h"
#include "rdma/soft/tcp_transmit.h"
#include "rdma/soft/uring_receiver.h"

namespace ring::rdma::soft {

class SoftDevice;
class SoftQueuePair;
class TcpConnection;

// The connections to look at in the next turn, though their sockets may be quiet. An endpoint with
// thousands of connections must not touch them all each turn.
class TcpDueList {
 public:
  virtual ~TcpDueList() = default;
  virtual void AddDue(TcpConnection* connection) = 0;
};

class TcpConnection final : public FdHandler,
                            public HotSocket,
                            public UringReceiver::Socket,
                            public std::enable_shared_from_this<TcpConnection> {
 public:
  enum class State {
    kConnecting,
    kAwaitHello,
    kAwaitAnswer,
    kRequested,
    kLinked,
    kDraining,
    kDead
  };

  TcpConnection(SoftDevice* device, TcpDueList* due, int fd, State state);
  ~TcpConnection() override { Die(); }

  State state() const { return state_; }
  bool AwaitsHello() const { return state_ == State::kAwaitHello; }
  absl::Status Start();
  void OnReady(std::uint32_t epoll_events) override;
  bool ReceiveNow() override;
  void OnBytes(absl::Span<const std::byte> bytes) override;
  void OnEnd() override;
  // Sends what waits; looks at deadlines and at a message that waits for a receive; goes on
  // reading. Gives whether anything happened. Called in the turn after it became due.
  bool Progress();

  // --- handshake ---
  void Propose(SoftQueuePair* qp, absl::string_view private_data);
  absl::Status AcceptWith(SoftQueuePair* qp, absl::string_view private_data);
  void Refuse(absl::string_view reason);

  // --- for the link ---
  IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence);
  bool FinishesNow(const WorkRequest& wr) const;
  void Kick();
  void LetGo();
  bool hung_up() const { return hung_up_; }
  void Die();

 private:
  static constexpr std::size_t kHelloSize = kTcpHeaderSize + kPrivateDataSizeMax;
  // Copied bytes that wait, beyond which no request is taken: its answer would be another.
  static constexpr std::size_t kAnswersMax = 1 << 20;
  static constexpr std::uint32_t kWholeMax = 64;
  // From now on the device's UringReceiver receives. REQUIRES: linked, not within a receive.
  void UseUring();
  // With io_uring: room for what a segment's end leaves, which is less than kPartMax.
  static constexpr std::size_t kPartsSize = 1024;
  static constexpr std::size_t kPartMax = std::max<std::size_t>(kTcpHeaderSize, kWholeMax);
  // Unacknowledged WRITEs of up to kCopyMax bytes are copied, while no more than kBacklogMax bytes
  // wait.
  static constexpr std::uint32_t kCopyMax = 16 << 10;
  static constexpr std::uint64_t kBacklogMax = 256 << 10;

  // Where the payload of the frame under way goes.
  struct Sink {
    TcpFrame frame;
    bool active = false;
    std::array<Sge, 16> pieces;
    std::size_t piece_count = 0;
    std::size_t at = 0;
    std::uint64_t left = 0;
  };

  SoftQueuePair* qp() const;
  void SendHandshake(TcpFrameType type, absl::string_view private_data);
  void BecomeLinked();
  void FinishConnect();
  // Reading.
  void ReadHandshake();
  void OnHandshakeFrame(const TcpFrame& frame, std::string private_data);
  void ReadFrames();
  std::uint64_t MayLand(std::uint64_t size) const;
  std::uint64_t StraightSize(std::uint64_t* available) const;
  bool ReadStraight(std::uint64_t limit);
  void BytesCame();
  std::size_t RoomToRead();
  bool ParseBuffer() { return Parse(buffer_.data(), &buffer_begin_, buffer_end_); }
  bool Parse(const std::byte* data, std::size_t* begin, std::size_t end);
  void Keep(absl::Span<const std::byte> bytes);
  void ShrinkBuffer();
  bool OnFrame(const TcpFrame& frame);
  bool SinkBytes(const std::byte* data, std::uint64_t size);
  bool FinishSink();
  // The target's work. False: stop reading.
  bool BeginRequest(const TcpFrame& frame);
  bool BeginWrite(const TcpFrame& frame);
  bool BeginReceive(const TcpFrame& frame);
  bool ServeRead(const TcpFrame& frame);
  bool ServeAtomic(const TcpFrame& frame);
  bool BeginReadResponse(const TcpFrame& frame);
  bool FinishAtomic(const TcpFrame& frame);
  bool OnAnswer(const TcpFrame& frame);
  bool SinkStillAllowed();
  void Executed(const TcpFrame& frame);
  bool Nak(const TcpFrame& frame, WcStatus status);
  bool Violation();
  void OnHangUp();
  // Sending.
  void QueueAck();
  void Flush();
  void WatchFor(bool readable, bool writable);
  void ApplyWatch();
  void BecomeDue();
  bool IsDue() const;
  void Drain();

  SoftDevice* device_;
  TcpDueList* due_;
  int fd_;
  // Once linked, if the device has one: it receives, and epoll is asked only when the socket has
  // room again.
  UringReceiver* uring_ = nullptr;
  UringReceiver::Slot uring_slot_ = 0;
  bool watched_ = true;  // by epoll
  State state_;
  // Of the handshake, a draining socket, or a message without a receive; 0: none.
  std::uint64_t deadline_ns_ = 0;
  bool hung_up_ = false;
  bool paused_ = false;   // a SEND waits for a receive
  bool crowded_ = false;  // no request is taken before answers have gone
  bool counted_ = false;  // among the device's polled connections
  bool is_due_ = false;
  bool read_on_ = false;         // what came is not read to its end
  bool end_near_ = false;        // the socket told of an end of file: read until it comes
  std::uint32_t came_turn_ = 0;  // the device's turn of the last bytes that came
  std::uint32_t sent_turn_ = 0;  // and of the last send
  bool want_read_ = true;
  bool want_write_ = false;
  bool ack_due_ = false;
  std::uint64_t ack_sequence_ = 0;
  std::uint64_t last_request_ = 0;  // sequence + 1 of the peer's last request
  std::uint32_t qp_number_ = 0;
  std::string handshake_data_;
  TcpTransmit transmit_;
  std::vector<std::byte> buffer_;
  std::size_t buffer_begin_ = 0;
  std::size_t buffer_end_ = 0;
  Sink sink_;
};

class TcpLink final : public Link {
 public:
  explicit TcpLink(std::shared_ptr<TcpConnection> connection)
      : connection_(std::move(connection)) {}
  ~TcpLink() override { connection_->LetGo(); }
  absl::string_view transport() const override { return "tcp"; }
  IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence) override {
    return connection_->Issue(wr, sequence);
  }
  bool FinishesNow(const WorkRequest& wr) const override { return connection_->FinishesNow(wr); }
  CommitResult Commit() override { return {}; }
  bool CommitsForFree() const override { return true; }
  bool BoundsRnrHere() const override { return false; }
  void Kick() override { connection_->Kick(); }
  std::uint32_t PeerSleep() const override { return 0; }
  bool PeerClosed() const override { return connection_->hung_up(); }
  void Close() override { connection_->LetGo(); }

 private:
  std::shared_ptr<TcpConnection> connection_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_TCP_CONNECTION_H_
