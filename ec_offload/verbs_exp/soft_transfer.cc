// Executes the requests of the software device's queue pairs, and queues completions.
#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "ec_offload/verbs_exp/region_book.h"
#include "ec_offload/verbs_exp/soft_nic.h"
#include "ec_offload/verbs_exp/soft_queues.h"

namespace ring::ec_verbs {
namespace {

// How long a request waits for its peer's receive, and for its peer to be connected.
constexpr std::chrono::milliseconds kReceiverPatience{200};
constexpr std::chrono::milliseconds kPeerPatience{1000};
constexpr std::uint8_t kRnrRetryForEver = 7;

std::uint64_t LengthOf(absl::Span<const ibv_sge> sges) {
  std::uint64_t length = 0;
  for (const ibv_sge& sge : sges) length += sge.length;
  return length;
}

// Copies from the pieces of the one list to those of the other, until one of them ends.
void Copy(absl::Span<const ibv_sge> from, absl::Span<const ibv_sge> to) {
  std::uint64_t read = 0;  // of the first piece
  std::uint64_t written = 0;
  while (!from.empty() && !to.empty()) {
    const std::uint64_t part = std::min(from[0].length - read, to[0].length - written);
    // A piece of no bytes may be anywhere, also at null.
    if (part > 0) {
      std::memmove(reinterpret_cast<void*>(to[0].addr + written),
                   reinterpret_cast<const void*>(from[0].addr + read), part);
    }
    read += part;
    written += part;
    if (read == from[0].length) {
      from.remove_prefix(1);
      read = 0;
    }
    if (written == to[0].length) {
      to.remove_prefix(1);
      written = 0;
    }
  }
}

bool HasImm(const SendRequest& request) {
  return request.wr.opcode == IBV_WR_SEND_WITH_IMM ||
         request.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool IsSend(const SendRequest& request) {
  return request.wr.opcode == IBV_WR_SEND || request.wr.opcode == IBV_WR_SEND_WITH_IMM;
}

ibv_wc_opcode CompletionOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

// The right that a one-sided request needs at its peer.
unsigned RightOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_ACCESS_REMOTE_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_ACCESS_REMOTE_ATOMIC;
    default:
      return IBV_ACCESS_REMOTE_WRITE;
  }
}

ibv_wc ReceiveCompletion(const QueuePair& peer, const QueuePair& from, std::uint64_t wr_id) {
  ibv_wc wc = {};
  wc.wr_id = wr_id;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = peer.qp_num;
  wc.src_qp = from.qp_num;
  wc.slid = kNicLid;
  return wc;
}

}  // namespace

// What came of a request. peer_breaks: the error takes the peer's queue pair along.
struct Nic::Result {
  Wait waits_for = Wait::kNothing;
  ibv_wc_status status = IBV_WC_SUCCESS;
  bool peer_breaks = false;
};

QueuePair* Nic::PeerOf(const QueuePair& qp) {
  const auto found = queue_pairs.find(qp.attr.dest_qp_num);
  if (found == queue_pairs.end()) return nullptr;
  QueuePair* const peer = found->second;
  const bool connected = peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS;
  return connected && peer->attr.dest_qp_num == qp.qp_num ? peer : nullptr;
}

Nic::Result Nic::Execute(QueuePair& qp, SendRequest& request) {
  QueuePair* const peer = PeerOf(qp);
  if (peer == nullptr) {
    const auto found = queue_pairs.find(qp.attr.dest_qp_num);
    if (found != queue_pairs.end() && found->second->state == IBV_QPS_ERR) {
      return {.status = IBV_WC_RETRY_EXC_ERR};
    }
    return {.waits_for = Wait::kPeer};
  }
  RegionBook& book = RegionBook::Get();
  if ((request.wr.send_flags & IBV_SEND_INLINE) == 0) {
    const unsigned write = RightOf(request.wr.opcode) == IBV_ACCESS_REMOTE_WRITE
                               ? 0
                               : static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE);
    if (!book.Allows(qp.pd, request.sges, write)) return {.status = IBV_WC_LOC_PROT_ERR};
  }
  if (LengthOf(request.sges) > kNicMessageMax) return {.status = IBV_WC_LOC_LEN_ERR};
  return IsSend(request) ? Deliver(qp, *peer, request) : Access(qp, *peer, request);
}

// A SEND into the peer's oldest receive.
Nic::Result Nic::Deliver(QueuePair& qp, QueuePair& peer, SendRequest& request) {
  if (peer.receives.empty()) return {.waits_for = Wait::kReceive};
  const ReceiveRequest receive = std::move(peer.receives.front());
  peer.receives.pop_front();
  ibv_wc wc = ReceiveCompletion(peer, qp, receive.wr_id);
  const std::uint64_t length = LengthOf(request.sges);
  Result result;
  if (length > LengthOf(receive.sges)) {
    wc.status = IBV_WC_LOC_LEN_ERR;
    result = {.status = IBV_WC_REM_INV_REQ_ERR, .peer_breaks = true};
  } else if (!RegionBook::Get().Allows(peer.pd, receive.sges, IBV_ACCESS_LOCAL_WRITE)) {
    wc.status = IBV_WC_LOC_PROT_ERR;
    result = {.status = IBV_WC_REM_OP_ERR, .peer_breaks = true};
  } else {
    Copy(request.sges, receive.sges);
    wc.byte_len = static_cast<std::uint32_t>(length);
    if (HasImm(request)) {
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = request.wr.imm_data;
    }
  }
  Complete(peer.recv_cq, wc, (request.wr.send_flags & IBV_SEND_SOLICITED) != 0);
  return result;
}

Nic::Result Nic::Access(QueuePair& qp, QueuePair& peer, SendRequest& request) {
  const ibv_wr_opcode opcode = request.wr.opcode;
  const unsigned right = RightOf(opcode);
  const bool atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
  const std::uint64_t length = LengthOf(request.sges);
  const std::uint64_t at =
      atomic ? request.wr.wr.atomic.remote_addr : request.wr.wr.rdma.remote_addr;
  const std::uint32_t rkey = atomic ? request.wr.wr.atomic.rkey : request.wr.wr.rdma.rkey;
  if (atomic && (at % 8 != 0 || length != 8)) {
    return {.status = IBV_WC_REM_INV_REQ_ERR, .peer_breaks = true};
  }
  const ibv_sge there = {at, static_cast<std::uint32_t>(length), rkey};
  if ((peer.attr.qp_access_flags & right) != right ||
      !RegionBook::Get().Allows(peer.pd, {&there, 1}, right)) {
    return {.status = IBV_WC_REM_ACCESS_ERR, .peer_breaks = true};
  }
  const bool notifies = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (notifies && peer.receives.empty()) return {.waits_for = Wait::kReceive};
  if (atomic) {
    auto* const remote = reinterpret_cast<std::byte*>(at);
    std::uint64_t old = 0;
    std::memcpy(&old, remote, sizeof(old));
    std::uint64_t next = old + request.wr.wr.atomic.compare_add;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      next = old == request.wr.wr.atomic.compare_add ? request.wr.wr.atomic.swap : old;
    }
    std::memcpy(remote, &next, sizeof(next));
    const ibv_sge old_piece = {reinterpret_cast<std::uint64_t>(&old), sizeof(old), 0};
    Copy({&old_piece, 1}, request.sges);
  } else if (opcode == IBV_WR_RDMA_READ) {
    Copy({&there, 1}, request.sges);
  } else {
    Copy(request.sges, {&there, 1});
  }
  if (notifies) {
    ibv_wc wc = ReceiveCompletion(peer, qp, peer.receives.front().wr_id);
    peer.receives.pop_front();
    wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = static_cast<std::uint32_t>(length);
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = request.wr.imm_data;
    Complete(peer.recv_cq, wc, (request.wr.send_flags & IBV_SEND_SOLICITED) != 0);
  }
  return {};
}

// A wait for something else is another wait: its time begins again.
void SendRequest::WaitFor(Wait what) {
  if (waits_for == what) return;
  waits_for = what;
  waits_since = std::chrono::steady_clock::now();
}

void Nic::Run(QueuePair& qp) {
  while (qp.state == IBV_QPS_RTS && !qp.sends.empty()) {
    SendRequest& request = qp.sends.front();
    const Result result = Execute(qp, request);
    if (result.waits_for != Wait::kNothing) {
      request.WaitFor(result.waits_for);
      return;
    }
    const SendRequest done = std::move(request);
    qp.sends.pop_front();
    QueuePair* const peer = result.peer_breaks ? PeerOf(qp) : nullptr;
    CompleteSend(qp, done, result.status);
    if (result.status != IBV_WC_SUCCESS) Break(qp);
    if (peer != nullptr && peer != &qp) Break(*peer);
  }
}

void Nic::FailOverdue(const CompletionQueue& cq) {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [number, qp] : queue_pairs) {
    if (qp->send_cq != &cq || qp->sends.empty()) continue;
    SendRequest& first = qp->sends.front();
    if (first.waits_for == Wait::kNothing) continue;
    const bool peer_is_there = PeerOf(*qp) != nullptr;
    first.WaitFor(peer_is_there ? Wait::kReceive : Wait::kPeer);  // a peer may have gone
    if (peer_is_there && qp->attr.rnr_retry == kRnrRetryForEver) continue;
    const auto patience = peer_is_there ? kReceiverPatience : kPeerPatience;
    if (now - first.waits_since < patience) continue;
    const SendRequest failed = std::move(qp->sends.front());
    qp->sends.pop_front();
    CompleteSend(*qp, failed, peer_is_there ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR);
    Break(*qp);
  }
}

void Nic::Break(QueuePair& qp) {
  qp.state = IBV_QPS_ERR;
  while (!qp.sends.empty()) {
    const SendRequest flushed = std::move(qp.sends.front());
    qp.sends.pop_front();
    CompleteSend(qp, flushed, IBV_WC_WR_FLUSH_ERR);
  }
  while (!qp.receives.empty()) {
    ibv_wc wc = ReceiveCompletion(qp, qp, qp.receives.front().wr_id);
    qp.receives.pop_front();
    wc.status = IBV_WC_WR_FLUSH_ERR;
    Complete(qp.recv_cq, wc, true);
  }
}

void Nic::CompleteSend(QueuePair& qp, const SendRequest& request, ibv_wc_status status) {
  const bool signaled = qp.signal_all || (request.wr.send_flags & IBV_SEND_SIGNALED) != 0;
  if (status == IBV_WC_SUCCESS && !signaled) return;
  ibv_wc wc = {};
  wc.wr_id = request.wr.wr_id;
  wc.status = status;
  wc.opcode = CompletionOf(request.wr.opcode);
  wc.qp_num = qp.qp_num;
  if (status == IBV_WC_SUCCESS && RightOf(request.wr.opcode) != IBV_ACCESS_REMOTE_WRITE) {
    wc.byte_len = static_cast<std::uint32_t>(LengthOf(request.sges));
  }
  Complete(qp.send_cq, wc, false);
}

void Nic::Complete(ibv_cq* base, const ibv_wc& wc, bool solicited) {
  auto* const cq = static_cast<CompletionQueue*>(base);
  if (cq->completions.size() == cq->completions.capacity()) {
    cq->overrun = true;
    return;
  }
  cq->completions.push_back(wc);
  if (!cq->armed || cq->channel == nullptr) return;
  if (cq->solicited_only && !solicited && wc.status == IBV_WC_SUCCESS) return;
  cq->armed = false;
  static_cast<Channel*>(cq->channel)->Tell(*cq);
}

}  // namespace ring::ec_verbs
