// rdma/verbs/card_queue.h — a queue pair of the card.
//
// What:      CardQueue makes, connects and destroys one. A connection has two: its own, which the
//            connection manager connects, and the data's, which takes over that one's path.
// Ownership: of the ibv_qp; it gives its places in the completion queue back.
// Threads:   the device's.
// Errors:    kResourceExhausted (the card has no more), kFailedPrecondition (the path does not fit
//            this end: its MTU).
// Source:    ibv_create_qp(3), ibv_modify_qp(3), rdma_init_qp_attr(3).
#ifndef RING_RDMA_VERBS_CARD_QUEUE_H_
#define RING_RDMA_VERBS_CARD_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "rdma/verbs/nic.h"
#include "rdma/verbs/terms.h"

struct rdma_cm_id;

namespace ring::rdma::verbs {

// How a queue pair gets from the state before into another, as the connection manager has it.
struct Transition {
  ibv_qp_attr attributes{};
  int mask = 0;
};

struct Path {
  Transition init;
  Transition receive;           // to ready-to-receive: names the peer
  Transition send;              // to ready-to-send
  std::uint8_t peer_reads = 1;  // READs and atomics that the peer's card takes at once
};

// How many of them this card takes.
std::uint8_t ReadsTaken(const Nic& nic);

class CardQueue {
 public:
  struct Sizes {
    std::uint32_t send_depth = 0;
    std::uint32_t recv_depth = 0;
    std::uint32_t send_sges = 1;
    std::uint32_t recv_sges = 1;
    std::uint32_t inline_size = 0;  // wanted; inline_size() says what there is
  };
  static absl::StatusOr<std::unique_ptr<CardQueue>> Make(Nic* nic, const Sizes& sizes);
  ~CardQueue();
  CardQueue(const CardQueue&) = delete;
  CardQueue& operator=(const CardQueue&) = delete;

  ibv_qp* get() const { return qp_; }
  std::uint32_t number() const { return qp_->qp_num; }
  std::uint32_t inline_size() const { return inline_size_; }
  // So far that receives can be posted.
  absl::Status Initialise(const Transition& init);
  // rnr: how long the peer waits for our receives, and we for the peer's.
  absl::Status Connect(const Path& path, std::uint32_t peer_number, const RnrPlan& rnr);

 private:
  explicit CardQueue(Nic* nic) : nic_(nic) {}
  absl::Status Modify(Transition transition, const char* what);

  Nic* nic_;
  ibv_qp* qp_ = nullptr;
  std::uint32_t inline_size_ = 0;
  std::uint32_t reserved_ = 0;
};

// Asks the connection manager. REQUIRES: the id's state allows it.
absl::StatusOr<Transition> AskTransition(rdma_cm_id* id, ibv_qp_state state);

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_CARD_QUEUE_H_
