#include "ec_offload/verbs_exp/soft_nic.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "ec_offload/verbs_exp/bounded_queue.h"
#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/soft_queues.h"

namespace ring::ec_verbs {
namespace {

QueuePair& Own(ibv_qp* qp) { return *static_cast<QueuePair*>(qp); }
CompletionQueue& Own(ibv_cq* cq) { return *static_cast<CompletionQueue*>(cq); }

bool Supported(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return true;
    default:
      return false;
  }
}

// 0, or why the request cannot be posted.
int CheckSend(const QueuePair& qp, const ibv_send_wr& wr) {
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) return EINVAL;
  if (!Supported(wr.opcode)) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
  if (wr.num_sge > 0 && wr.sg_list == nullptr) return EINVAL;
  if (qp.sends.size() >= qp.cap.max_send_wr) return ENOMEM;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
    if (wr.opcode == IBV_WR_RDMA_READ || length > qp.cap.max_inline_data) return EINVAL;
  }
  return 0;
}

int CheckReceive(const QueuePair& qp, const ibv_recv_wr& wr) {
  if (qp.state == IBV_QPS_RESET) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > qp.cap.max_recv_sge) return EINVAL;
  if (wr.num_sge > 0 && wr.sg_list == nullptr) return EINVAL;
  return qp.receives.size() >= qp.cap.max_recv_wr ? ENOMEM : 0;
}

SendRequest CopyOf(const ibv_send_wr& wr) {
  SendRequest request;
  request.wr = wr;
  request.wr.next = nullptr;
  request.wr.sg_list = nullptr;
  if (wr.num_sge > 0) request.sges.assign(wr.sg_list, wr.sg_list + wr.num_sge);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& sge : request.sges) {
      const auto* from = reinterpret_cast<const std::byte*>(sge.addr);
      request.own_bytes.insert(request.own_bytes.end(), from, from + sge.length);
    }
    request.sges.assign({{reinterpret_cast<std::uint64_t>(request.own_bytes.data()),
                          static_cast<std::uint32_t>(request.own_bytes.size()), 0}});
  }
  return request;
}

// What a change of state needs, or -1 when there is no such change.
int NeededFor(ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return IBV_QP_STATE;
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) {
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  }
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
    return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
           IBV_QP_MAX_QP_RD_ATOMIC;
  }
  const bool stays = from == to && (from == IBV_QPS_INIT || from == IBV_QPS_RTS);
  return stays ? 0 : -1;
}

void CopyAttributes(const ibv_qp_attr& from, int mask, ibv_qp_attr* to) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) to->qp_access_flags = from.qp_access_flags;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) to->pkey_index = from.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) to->port_num = from.port_num;
  if ((mask & IBV_QP_AV) != 0) to->ah_attr = from.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) to->path_mtu = from.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) to->dest_qp_num = from.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) to->rq_psn = from.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) to->sq_psn = from.sq_psn;
  if ((mask & IBV_QP_TIMEOUT) != 0) to->timeout = from.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) to->retry_cnt = from.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) to->rnr_retry = from.rnr_retry;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) to->min_rnr_timer = from.min_rnr_timer;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) to->max_rd_atomic = from.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) to->max_dest_rd_atomic = from.max_dest_rd_atomic;
}

// To IBV_QPS_RESET: what was posted and what completed is forgotten.
void Forget(QueuePair& qp) {
  qp.sends.clear();
  qp.receives.clear();
  for (ibv_cq* cq : {qp.send_cq, qp.recv_cq}) {
    Own(cq).completions.EraseIf([&qp](const ibv_wc& wc) { return wc.qp_num == qp.qp_num; });
  }
  qp.attr = {};
  qp.state = IBV_QPS_RESET;
}

bool Fits(const ibv_qp_cap& cap) {
  return cap.max_send_wr <= kNicDepthMax && cap.max_recv_wr <= kNicDepthMax &&
         cap.max_send_sge <= kNicSgeMax && cap.max_recv_sge <= kNicSgeMax &&
         cap.max_inline_data <= kNicInlineMax;
}

}  // namespace

Nic& Nic::Get() {
  static Nic& nic = *new Nic;
  return nic;
}

bool NicUses(const ibv_pd* pd) {
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  return std::any_of(nic.queue_pairs.begin(), nic.queue_pairs.end(),
                     [pd](const auto& entry) { return entry.second->pd == pd; });
}

ibv_cq* NicCreateCq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel) {
  if (cqe < 1 || cqe > kNicCqeMax) return Refused<ibv_cq>(EINVAL);
  Nic& nic = Nic::Get();
  auto cq = std::make_unique<CompletionQueue>(static_cast<std::size_t>(cqe));
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = cqe;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  MutexLock lock(nic.mutex);
  if (channel != nullptr) ++channel->refcnt;
  return cq.release();
}

int NicResizeCq(ibv_cq* base, int cqe) {
  if (cqe < 1 || cqe > kNicCqeMax) return EINVAL;
  BoundedQueue<ibv_wc> resized(static_cast<std::size_t>(cqe));
  MutexLock lock(Nic::Get().mutex);
  CompletionQueue& cq = Own(base);
  if (cq.completions.size() > resized.capacity()) return EINVAL;
  for (; !cq.completions.empty(); cq.completions.pop_front()) {
    resized.push_back(cq.completions.front());
  }
  cq.completions = std::move(resized);
  cq.cqe = cqe;
  return 0;
}

int NicDestroyCq(ibv_cq* base) {
  CompletionQueue* const cq = &Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  if (cq->users > 0) return EBUSY;
  if (cq->channel != nullptr) {
    static_cast<Channel*>(cq->channel)->Drop(*cq);
    // Who got an event of it may use it until then.
    while (cq->acknowledged_count < cq->taken_count) nic.acknowledged.Wait(nic.mutex);
    --cq->channel->refcnt;
  }
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete cq;
  return 0;
}

int NicPollCq(ibv_cq* base, int count, ibv_wc* wc) {
  CompletionQueue& cq = Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  if (cq.completions.empty()) nic.FailOverdue(cq);
  if (cq.overrun && cq.completions.empty()) return -EIO;
  int taken = 0;
  for (; taken < count && !cq.completions.empty(); ++taken) {
    wc[taken] = cq.completions.front();
    cq.completions.pop_front();
  }
  return taken;
}

int NicRequestNotify(ibv_cq* base, int solicited_only) {
  MutexLock lock(Nic::Get().mutex);
  CompletionQueue& cq = Own(base);
  cq.solicited_only = solicited_only != 0 && (cq.solicited_only || !cq.armed);
  cq.armed = true;
  return 0;
}

ibv_qp* NicCreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  const bool wrong = attr == nullptr || attr->send_cq == nullptr || attr->recv_cq == nullptr ||
                     attr->srq != nullptr || !Fits(attr->cap);
  if (wrong) return Refused<ibv_qp>(EINVAL);
  if (attr->qp_type != IBV_QPT_RC) return Refused<ibv_qp>(EOPNOTSUPP);
  auto qp = std::make_unique<QueuePair>();
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->qp_type = attr->qp_type;
  qp->state = IBV_QPS_RESET;
  qp->cap = attr->cap;
  qp->signal_all = attr->sq_sig_all != 0;
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  qp->qp_num = nic.next_number++;
  nic.queue_pairs.emplace(qp->qp_num, qp.get());
  pthread_mutex_init(&qp->mutex, nullptr);
  pthread_cond_init(&qp->cond, nullptr);
  ++Own(qp->send_cq).users;
  ++Own(qp->recv_cq).users;
  return qp.release();
}

int NicModifyQp(ibv_qp* base, const ibv_qp_attr& attr, int mask) {
  QueuePair& qp = Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  const ibv_qp_state next = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : qp.state;
  const int needed = NeededFor(qp.state, next);
  if (needed < 0 || (mask & needed) != needed) return EINVAL;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != qp.state) return EINVAL;
  if ((mask & IBV_QP_PORT) != 0 && attr.port_num != kNicPort) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr.pkey_index != 0) return EINVAL;
  if (next == IBV_QPS_RESET) {
    Forget(qp);
  } else if (next == IBV_QPS_ERR) {
    nic.Break(qp);
  } else {
    CopyAttributes(attr, mask, &qp.attr);
    qp.state = next;
    nic.Run(qp);
  }
  // What a peer has posted may have waited for this.
  const auto peer = nic.queue_pairs.find(qp.attr.dest_qp_num);
  if (peer != nic.queue_pairs.end()) nic.Run(*peer->second);
  return 0;
}

int NicQueryQp(ibv_qp* base, ibv_qp_attr* attr, ibv_qp_init_attr* init_attr) {
  MutexLock lock(Nic::Get().mutex);
  const QueuePair& qp = Own(base);
  *attr = qp.attr;
  attr->qp_state = attr->cur_qp_state = qp.state;
  attr->cap = qp.cap;
  *init_attr = {};
  init_attr->qp_context = qp.qp_context;
  init_attr->send_cq = qp.send_cq;
  init_attr->recv_cq = qp.recv_cq;
  init_attr->cap = qp.cap;
  init_attr->qp_type = qp.qp_type;
  init_attr->sq_sig_all = qp.signal_all ? 1 : 0;
  return 0;
}

int NicDestroyQp(ibv_qp* base) {
  QueuePair* const qp = &Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  Forget(*qp);
  nic.queue_pairs.erase(qp->qp_num);
  --Own(qp->send_cq).users;
  --Own(qp->recv_cq).users;
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  delete qp;
  return 0;
}

int NicPostSend(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad) {
  QueuePair& qp = Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    error = CheckSend(qp, *wr);
    if (error == 0) {
      error = OrNoMemory(ENOMEM, [&] {
        qp.sends.push_back(CopyOf(*wr));
        return 0;
      });
    }
    if (error != 0) break;
    if (qp.state == IBV_QPS_ERR) {
      nic.Break(qp);
    } else {
      nic.Run(qp);
    }
  }
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

int NicPostRecv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  QueuePair& qp = Own(base);
  Nic& nic = Nic::Get();
  MutexLock lock(nic.mutex);
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    error = CheckReceive(qp, *wr);
    if (error == 0) {
      error = OrNoMemory(ENOMEM, [&] {
        ReceiveRequest receive;
        receive.wr_id = wr->wr_id;
        if (wr->num_sge > 0) receive.sges.assign(wr->sg_list, wr->sg_list + wr->num_sge);
        qp.receives.push_back(std::move(receive));
        return 0;
      });
    }
    if (error != 0) break;
    if (qp.state == IBV_QPS_ERR) nic.Break(qp);
  }
  if (error != 0 && bad != nullptr) *bad = wr;
  if (QueuePair* const peer = nic.PeerOf(qp); peer != nullptr) nic.Run(*peer);
  return error;
}

}  // namespace ring::ec_verbs
