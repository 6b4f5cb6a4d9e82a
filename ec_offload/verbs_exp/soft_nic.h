// ec_offload/verbs_exp/soft_nic.h — the queues of the software device: completion queues, channels,
// and reliable connected queue pairs within one process.
//
// What:      SEND, SEND_WITH_IMM, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, CMP_AND_SWP and
//            FETCH_AND_ADD between queue pairs of this process, by copying when they are posted.
//            Requests of a queue pair execute and complete in order; a failed one moves it to
//            IBV_QPS_ERR and flushes the rest. A request whose peer has posted no receive, or is
//            not yet connected, waits; from a time-out on, polling finds it failed.
// Why here:  rdma/soft moves bytes of its own arenas, belongs to one thread, and connects by
//            name; a verbs program registers any memory, uses queues from any thread, and connects
//            by number (docs/adr/0025-verbs-in-user-space.md).
// Ownership: as in verbs.
// Threads:   any; one lock for all queues of the process.
// Errors:    an errno, as ibv_post_send(3) and the others say; what fails later is a completion.
//            NicCreate... and NicResizeCq throw std::bad_alloc, and have done nothing then.
// Cost:      a copy of the bytes by the thread that posts.
// Source:    InfiniBand's rules for reliable connections, as rdma-core's manual pages tell them.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_SOFT_NIC_H_
#define RING_EC_OFFLOAD_VERBS_EXP_SOFT_NIC_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace ring::ec_verbs {

inline constexpr int kNicQpMax = 65536;
inline constexpr int kNicDepthMax = 16384;
inline constexpr int kNicSgeMax = 64;
inline constexpr int kNicCqeMax = 1 << 20;
inline constexpr int kNicInlineMax = 1024;
inline constexpr int kNicRdAtomicMax = 16;
inline constexpr std::uint8_t kNicPort = 1;
inline constexpr std::uint16_t kNicLid = 1;
inline constexpr std::uint32_t kNicMessageMax = 1U << 30;

bool NicUses(const ibv_pd* pd);

ibv_comp_channel* NicCreateChannel(ibv_context* context);
int NicDestroyChannel(ibv_comp_channel* channel);  // EBUSY while queues use it
int NicGetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
void NicAckCqEvents(ibv_cq* cq, unsigned count);

ibv_cq* NicCreateCq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel);
int NicResizeCq(ibv_cq* cq, int cqe);
// EBUSY while queue pairs use it. Waits until each event that was taken is acknowledged.
int NicDestroyCq(ibv_cq* cq);
int NicPollCq(ibv_cq* cq, int count, ibv_wc* wc);
int NicRequestNotify(ibv_cq* cq, int solicited_only);

ibv_qp* NicCreateQp(ibv_pd* pd, ibv_qp_init_attr* attr);
int NicModifyQp(ibv_qp* qp, const ibv_qp_attr& attr, int mask);
int NicQueryQp(ibv_qp* qp, ibv_qp_attr* attr, ibv_qp_init_attr* init_attr);
int NicDestroyQp(ibv_qp* qp);
int NicPostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int NicPostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_SOFT_NIC_H_
