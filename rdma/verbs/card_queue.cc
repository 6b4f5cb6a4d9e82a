#include "rdma/verbs/card_queue.h"

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {
namespace {

// What a lossy network costs each packet that it loses: of a block's hundreds it may lose several,
// and coordinators keep a block still for a second. A peer that answers nothing is given up after
// some 1 s, or up to four times that: cards round up.
constexpr std::uint8_t kAckTimeout = 15;  // 4.096 us * 2^15
constexpr std::uint8_t kRetryCount = 7;
constexpr int kReadsMax = 16;

std::uint8_t Reads(int most) { return static_cast<std::uint8_t>(std::clamp(most, 1, kReadsMax)); }

}  // namespace

std::uint8_t ReadsTaken(const Nic& nic) { return Reads(nic.attributes().max_qp_rd_atom); }

absl::StatusOr<Transition> AskTransition(rdma_cm_id* id, ibv_qp_state state) {
  Transition transition;
  transition.attributes.qp_state = state;
  if (rdma_init_qp_attr(id, &transition.attributes, &transition.mask) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the connection manager gives no attributes: ", std::strerror(errno)));
  }
  return transition;
}

absl::StatusOr<std::unique_ptr<CardQueue>> CardQueue::Make(Nic* nic, const Sizes& sizes) {
  std::unique_ptr<CardQueue> queue(new CardQueue(nic));
  RING_RETURN_IF_ERROR(nic->ReserveCompletions(sizes.send_depth + sizes.recv_depth));
  queue->reserved_ = sizes.send_depth + sizes.recv_depth;
  // What a card takes inline is not in its attributes.
  int error = 0;
  for (std::uint32_t inline_size = sizes.inline_size;; inline_size /= 2) {
    if (inline_size < 16) inline_size = 0;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = nic->cq();
    init.qp_type = IBV_QPT_RC;
    init.cap = {sizes.send_depth, sizes.recv_depth, sizes.send_sges, sizes.recv_sges, inline_size};
    queue->qp_ = ibv_create_qp(nic->pd(), &init);
    error = errno;
    queue->inline_size_ = std::min(init.cap.max_inline_data, sizes.inline_size);
    if (queue->qp_ != nullptr || inline_size == 0) break;
  }
  if (queue->qp_ != nullptr) {
    ++nic->counters().card_queue_pairs;
    return queue;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "verbs device=", nic->name(), " has no queue pair for send_depth=", sizes.send_depth,
      " recv_depth=", sizes.recv_depth, " sges=", sizes.send_sges, ": ", std::strerror(error),
      "; it allows depth=", nic->attributes().max_qp_wr, " sges=", nic->attributes().max_sge,
      " queue pairs=", nic->attributes().max_qp, ", and locked memory may be limited"));
}

// That the peer reaches nothing any more rests on it (L5). A card that is gone answers nobody.
CardQueue::~CardQueue() {
  const int error = qp_ == nullptr ? 0 : ibv_destroy_qp(qp_);
  RING_CHECK(error == 0 || error == EIO || error == ENODEV)
      << "verbs device=" << nic_->name() << " keeps a queue pair: " << std::strerror(error);
  nic_->ReleaseCompletions(reserved_);
}

absl::Status CardQueue::Modify(Transition transition, const char* what) {
  const int error = ibv_modify_qp(qp_, &transition.attributes, transition.mask);
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("verbs device=", nic_->name(), ": ", what, ": ", std::strerror(error)));
}

absl::Status CardQueue::Initialise(const Transition& init) {
  Transition own = init;
  own.attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  own.mask |= IBV_QP_ACCESS_FLAGS;
  return Modify(own, "queue pair to INIT");
}

absl::Status CardQueue::Connect(const Path& path, std::uint32_t peer_number, const RnrPlan& rnr) {
  Transition receive = path.receive;
  if (receive.attributes.path_mtu > nic_->mtu()) {
    const auto bytes = [](ibv_mtu mtu) { return 128u << static_cast<unsigned>(mtu); };
    return absl::FailedPreconditionError(absl::StrCat(
        "refused: path mtu=", bytes(receive.attributes.path_mtu), " and ", nic_->name(),
        " port mtu=", bytes(nic_->mtu()), ": set the same MTU on both hosts"));
  }
  receive.attributes.dest_qp_num = peer_number;
  receive.attributes.min_rnr_timer = rnr.min_rnr_timer;
  receive.attributes.max_dest_rd_atomic = ReadsTaken(*nic_);
  receive.mask |= IBV_QP_DEST_QPN | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC;
  RING_RETURN_IF_ERROR(Modify(receive, "queue pair to RTR"));
  Transition send = path.send;
  send.attributes.max_rd_atomic =
      Reads(std::min<int>(nic_->attributes().max_qp_init_rd_atom, path.peer_reads));
  send.attributes.rnr_retry = rnr.rnr_retry;
  send.attributes.retry_cnt = kRetryCount;
  send.attributes.timeout = kAckTimeout;
  send.mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT;
  return Modify(send, "queue pair to RTS");
}

}  // namespace ring::rdma::verbs
