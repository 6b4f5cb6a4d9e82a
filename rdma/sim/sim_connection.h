// rdma/sim/sim_connection.h — one connection of the simulated fabric: what is under way in it.
//
// What:      SimConnection carries the handshake, requests and answers of one pair of queue pairs;
//            SimLink is the end that a queue pair holds. The queue pair itself, its order, WAIT,
//            CALC and completions are rdma/soft's; requests run here against the target's region
//            table and receives, as those of a tcp peer do.
// Shape:     a request's bytes are read as late as a NIC may read them: when they arrive (S11), or
//            when the sender lets go of the connection.
// Ownership: shared by its links, its unanswered request and its events.
// Threads:   one.
// Errors:    kRemoteAccess, kRemoteInvalid, kRnrRetryExceeded; kRetryExceeded when the peer reset,
//            crashed or cannot be reached.
#ifndef RING_RDMA_SIM_SIM_CONNECTION_H_
#define RING_RDMA_SIM_SIM_CONNECTION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rdma/sim/sim_network.h"
#include "rdma/soft/device.h"
#include "rdma/soft/link.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/fifo.h"

namespace ring::rdma::sim {

class SimConnection final : public EventTarget, public std::enable_shared_from_this<SimConnection> {
 public:
  explicit SimConnection(SimNetwork* network) : network_(network) {}

  // --- handshake; side 0 is the one that connects ---
  void Propose(soft::SoftDevice* device, HostId host, std::uint32_t qp_number, std::string address,
               absl::string_view private_data);
  void Accept(soft::SoftQueuePair* qp, absl::string_view private_data);
  void Reject(absl::string_view private_data);

  // --- for links ---
  soft::IssueResult Issue(int side, const WorkRequest& wr, std::uint64_t sequence);
  std::uint32_t PeerSleep(int side) const;
  bool PeerClosed(int side) const { return sides_[Index(side)].peer_closed; }
  void OnReceivePosted(int side);
  void Close(int side);

  // --- for the network ---
  void OnEvent(std::uint64_t tag) override;
  void OnCrash(HostId host);
  bool Joins(HostId one, HostId other) const {
    return (sides_[0].host == one && sides_[1].host == other) ||
           (sides_[0].host == other && sides_[1].host == one);
  }
  void Break();
  // Both sides use it.
  bool open() const;
  // What the side that connected said.
  absl::string_view private_data() const { return private_data_; }
  void DropDevice(const soft::SoftDevice* device);
  void set_number(std::uint32_t number) { number_ = number; }

 private:
  enum class Kind : std::uint8_t { kConnect, kAccept, kReject, kDetach, kRequest };
  struct Message {
    Kind kind = Kind::kRequest;
    Opcode opcode = Opcode::kWrite;
    bool has_imm = false;
    std::uint32_t sleep_seen = 0;  // its peer's, when it was sent
    bool refused = false;          // found no receive, on purpose
    std::uint32_t imm = 0;
    std::uint32_t rkey = 0;
    std::uint32_t length = 0;
    std::uint32_t landed = 0;  // bytes that are there already
    std::uint32_t lost = 0;    // attempts
    std::uint64_t sequence = 0;
    std::uint64_t remote_address = 0;
    std::uint64_t compare_or_add = 0;
    std::uint64_t swap = 0;
    std::uint64_t posted_ns = 0;
    std::uint64_t arrival_ns = 0;
    bool has_bytes = false;        // else they are where the sender's request says
    std::vector<std::byte> bytes;  // also private data
  };
  struct Answer {
    std::uint64_t sequence = 0;
    WcStatus status = WcStatus::kSuccess;
    std::uint64_t sent_ns = 0;
    std::uint64_t arrival_ns = 0;
    std::vector<std::byte> data;  // of READ and atomics
  };
  struct Side {
    soft::SoftDevice* device = nullptr;  // null: not there yet, or gone
    HostId host = kNoHost;
    std::uint32_t qp_number = 0;
    bool closed = false;       // lets go: executes and answers nothing more
    bool peer_closed = false;  // knows that the other side let go
    bool crashed = false;
    Fifo<Message> out;  // to the other side
    std::uint64_t last_arrival_ns = 0;
    std::uint64_t out_event_ns = 0;  // when the next look at `out` is due; 0: none
    std::uint64_t rnr_deadline_ns = 0;
    Fifo<Answer> answers;  // of the other side, to requests of this one
    std::uint64_t answer_event_ns = 0;
  };
  enum class Progress : std::uint8_t { kDone, kLater, kEnded };

  static std::size_t Index(int side) { return static_cast<std::size_t>(side); }
  soft::SoftQueuePair* QueuePairOf(const Side& side) const {
    return side.device == nullptr ? nullptr : side.device->FindQueuePair(side.qp_number);
  }
  void Push(int from, Message message);
  void LookAt(int from, std::uint64_t at_ns);
  void LookAtAnswers(int side, std::uint64_t at_ns);
  void Deliver(int from);
  bool GetsThrough(int from, Message& message);
  void GiveUp(int from);
  Progress Take(int from, Message& message);
  Progress TakeHandshake(int from, Message& message);
  Progress Execute(int from, Message& message);
  Progress ExecuteWrite(int from, Message& message, soft::SoftQueuePair& own);
  Progress ExecuteSend(int from, Message& message, soft::SoftQueuePair& own);
  Progress ExecuteAtomic(int from, Message& message);
  bool FindsReceive(int from, Message& message, soft::SoftQueuePair& own);
  void Reply(int to, std::uint64_t sequence, WcStatus status, std::vector<std::byte> data = {});
  Progress Refuse(int from, const Message& message, WcStatus status);
  void TakeAnswers(int side);
  // Copies bytes [begin, begin+size) of a request of `from`.
  void CopyOut(int from, const Message& message, std::uint64_t begin, std::uint64_t size,
               std::byte* to);
  void KeepBytes(int from);
  void Damage(std::byte* bytes, std::uint64_t size);
  static bool WakesBy(const Side& target, const Message& message);
  void Delivered(const Side& side, bool wake);
  void TellClosed(int side);

  SimNetwork* network_;
  std::uint32_t number_ = 0;
  bool answered_ = false;  // by the acceptor
  bool may_flip_ = true;
  std::string address_;
  std::string private_data_;
  std::array<Side, 2> sides_;
};

class SimLink final : public soft::Link {
 public:
  SimLink(std::shared_ptr<SimConnection> connection, int side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimLink() override { connection_->Close(side_); }
  absl::string_view transport() const override { return "sim"; }
  soft::IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence) override {
    return connection_->Issue(side_, wr, sequence);
  }
  soft::CommitResult Commit() override { return {}; }
  bool BoundsRnrHere() const override { return false; }
  std::uint32_t PeerSleep() const override { return connection_->PeerSleep(side_); }
  bool PeerClosed() const override { return connection_->PeerClosed(side_); }
  void OnReceivePosted() override { connection_->OnReceivePosted(side_); }
  void Close() override { connection_->Close(side_); }

 private:
  std::shared_ptr<SimConnection> connection_;
  int side_;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_SIM_CONNECTION_H_
