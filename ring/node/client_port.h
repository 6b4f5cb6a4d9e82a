// ring/node/client_port.h — the clients' door: takes requests from their rings, WRITEs replies into
// their slots.
//
// What:      ClientPort accepts client connections, finds stamped requests in their rings (Take),
//            and implements ReplySink: Answer captures header and value into a chain per
//            connection, Send posts bodies, asks the fence once, then posts the words that publish
//            them; what may not pass yet is held (V7).
// Shape:     one request ring (64 KiB) and one queue pair per client; a reply slot has at most one
//            answer under way.
// Ownership: owns connections, rings and reply headers. Values are sent from their slots, pinned
//            until the completion (V6).
//            Every client has some places of the completion queue for itself: answers to one that
//            does not take them wait, with their pins, and it is ended after a while.
// Threads:   one, the node's.
// Errors:    a malformed request is answered with kBadRequest; one whose extent cannot be trusted
//            ends the connection. Over client_max connections, with those that ended and whose
//            clients may still write to their rings: refused with a reason.
// Cost:      idle: one load per client. Per request no allocation, and two work requests for the
//            answer, one more for a value.
// Source:    docs/ARCHITECTURE.md "The path of a put"; rules V6, V7, X3.
#ifndef RING_NODE_CLIENT_PORT_H_
#define RING_NODE_CLIENT_PORT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring/base/fifo.h"
#include "ring/base/limits.h"
#include "ring/cluster/view.h"
#include "ring/coordinator/fence.h"
#include "ring/coordinator/request.h"
#include "ring/coordinator/shard.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/retired_rings.h"
#include "ring/node/sent_copies.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring::node {

// A request taken from a ring, before it is routed.
struct Incoming {
  protocol::RequestView view;
  protocol::Outcome outcome = protocol::Outcome::kOk;
  std::uint32_t connection = 0;
};

struct ClientPortOptions {
  rdma::Device* device = nullptr;
  std::uint32_t client_max = 1024;
  std::uint64_t value_size_max = kValueSizeMax;
  NodeId node;
  Incarnation incarnation;
  // Shards of this node: completion-record handles are kept per connection and shard.
  std::size_t shard_count = 0;
  // The transport whose connections outlast a peer that is gone without a word, as long as nothing
  // is under way to it: TCP has its keep-alive, shared memory a socket.
  std::string unwatched_transport = "rdma";
};

class ClientPort final : public coordinator::ReplySink {
 public:
  static absl::StatusOr<std::unique_ptr<ClientPort>> Create(const ClientPortOptions& options);
  ~ClientPort() override;

  void OnConnectRequest(std::uint64_t request, absl::string_view private_data);
  void OnDisconnected(rdma::QueuePair* qp);
  bool Owns(const rdma::QueuePair* qp) const;

  // Takes the next request of any ring, each in its order; rings take turns. False: there is none.
  bool Take(Incoming* incoming);
  bool HasRequest() const;
  // Completes request with what the connection knows: client id, reply place.
  void Address(const Incoming& incoming, coordinator::Request* request) const;
  // The client's completion records in a shard of this node; looked up once per connection and
  // shard. Null: the shard keeps records of as many clients as it may.
  memgest::CompletionTable::Client* Records(std::uint32_t connection, std::size_t shard_index,
                                            coordinator::ShardCoordinator& shard);

  void Answer(const coordinator::ReplyTo& to, const coordinator::Reply& reply,
              coordinator::ShardCoordinator& shard) override;
  bool Reachable(const coordinator::ReplyTo& to) const override;
  bool ReadFromClient(const coordinator::ReplyTo& from, std::uint64_t offset, const rdma::Sge& to,
                      coordinator::ShardCoordinator& shard, std::uint64_t token) override;

  // Answers that are no shard's: refusals by the node, the view, who owns a slot. owner: who owns
  // the key instead. Without `of`, whose role the answer speaks of, it passes no fence.
  void AnswerBare(const coordinator::ReplyTo& to, protocol::Outcome outcome, NodeId owner,
                  absl::string_view value = "", const coordinator::ShardCoordinator* of = nullptr);

  // Posts all captured answers: bodies, then the fence decides, then the words of those that it
  // lets pass. The rest is held, and comes with a later Send, or never (DropHeld).
  void Send(coordinator::Fence& fence);
  // V7: what is captured of this shard and not published is never said. Whom it was for loses the
  // connection.
  void DropHeld(const coordinator::ShardCoordinator* shard);
  // Wakes who sleeps on an answer; polls completions: unpins, finishes READs. Gives whether there
  // were any.
  bool PollCompletions(bool busy);
  // Doorbells of clients only wake the node; their receives are posted again.
  void PollDoorbells();
  // Ends connections whose peer takes nothing and gives nothing: they hold pins and large writes.
  // Of idle ones it finds out whether the peer is there at all, where nobody else does: they hold
  // places of clients.
  void EndStuck(std::uint64_t now_ns);

  // The shard of this index is another one from now on, or nobody's.
  void ForgetShard(std::size_t shard_index);
  // What clients are told of.
  void SetView(const cluster::View& view);
  // Armed before the node sleeps: doorbells of clients, and completions.
  void Arm();
  std::size_t client_count() const { return client_count_; }

 private:
  static constexpr int kTakenInTurnMax = 16;  // requests of a ring before the next one's

  struct Connection;
  struct Pinned {
    std::uint64_t sequence = 0;
    coordinator::ShardCoordinator* shard = nullptr;  // null: one of copies_
    std::uint32_t line = memgest::kNoLine;           // ... its number
  };
  struct Read {
    coordinator::ShardCoordinator* shard = nullptr;
    std::uint64_t token = 0;
    std::uint32_t connection = 0;
    std::uint32_t next_free = 0;
  };

  // A WRITE of an answer, until it is posted.
  struct ConnectionWrite {
    rdma::Sge bytes;
    std::uint32_t rkey = 0;
    std::uint64_t remote_address = 0;
    // Of a word: which capture it belongs to, and whose answer it is; null: the node's own.
    std::uint64_t capture = 0;
    const coordinator::ShardCoordinator* shard = nullptr;
  };

  explicit ClientPort(const ClientPortOptions& options);
  Connection* Find(const coordinator::ReplyTo& to) const;
  void Close(std::uint32_t index);
  void UnpinFirst(Connection& connection);
  void UnpinAll(Connection& connection);
  void StageValue(Connection& connection, const coordinator::ReplyTo& to,
                  const coordinator::Reply& reply, coordinator::ShardCoordinator& shard,
                  protocol::ReplyHeader* header);
  void StageCopy(Connection& connection, const coordinator::ReplyTo& to,
                 protocol::ReplyHeader header, absl::string_view value,
                 const coordinator::ShardCoordinator* of);
  void StageHeader(Connection& connection, const coordinator::ReplyTo& to,
                   const protocol::ReplyHeader& header, const rdma::Sge* value,
                   const coordinator::ShardCoordinator* shard = nullptr);
  static void DropWords(Connection& connection, std::uint64_t slot_address);
  // The first `limit` of them. sequence: of the completion of the last of them.
  void Post(Connection& connection, std::vector<ConnectionWrite>* writes, std::size_t limit,
            bool are_words, std::uint64_t sequence);
  bool PostWords(Connection& connection, std::uint64_t captured, std::uint64_t passed);
  void Ring(Connection& connection);
  bool RingBell(Connection& connection);
  void RingBells();
  void Probe(Connection& connection);
  void OnCompletion(const rdma::WorkCompletion& completion);
  void Complete(Connection& connection, std::uint64_t sequence);
  // How many requests may be posted to it now.
  std::uint32_t Room(const Connection& connection) const;
  void CountOutstanding(Connection& connection, std::uint32_t outstanding);
  bool TakeRequest(Connection& connection, Incoming* incoming);
  void EndTurnOfRing();
  absl::Status TryAccept(std::uint64_t request, absl::string_view private_data);
  void FinishRead(std::uint64_t handle, bool ok);

  ClientPortOptions options_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<rdma::CompletionQueue> doorbells_;
  BufferPool rings_;
  RetiredRings retired_;
  BufferPool headers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::uint32_t> active_;   // indexes in use
  std::vector<std::uint32_t> staged_;   // connections with captured answers
  std::vector<std::uint32_t> ringing_;  // connections that may sleep on an answer
  std::vector<Read> reads_;             // 1-based handles
  std::uint32_t free_read_ = 0;
  std::uint32_t next_generation_ = 1;
  std::uint64_t capture_ = 1;  // number of the one that answers are added to
  std::size_t next_active_ = 0;
  int taken_in_turn_ = 0;  // of that one, in a row
  std::size_t client_count_ = 0;
  std::uint32_t view_epoch_ = 0;
  std::uint64_t cluster_ = 0;
  std::uint64_t founding_ = 0;
  std::uint64_t next_sweep_ns_ = 0;
  std::uint32_t polls_put_off_ = 0;
  std::uint64_t outstanding_ = 0;  // work requests whose completions are still to come
  std::uint64_t shared_used_ = 0;  // of them, those in shared places
  std::vector<std::uint32_t> ending_;
  std::vector<std::uint32_t> held_;
  std::array<rdma::WorkRequest, 64> chain_;
  SentCopies copies_;
};

}  // namespace ring::node

#endif  // RING_NODE_CLIENT_PORT_H_
