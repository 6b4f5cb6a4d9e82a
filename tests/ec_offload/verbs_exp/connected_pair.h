// tests/ec_offload/verbs_exp/connected_pair.h — a queue pair, connected to another of its device
// the way verbs programs do it: of the software device, or of a real one (docs/TESTING.md).
//
// What:      Endpoint: a completion queue and a queue pair; Connect takes two of them to RTS.
// Threads:   one.
// Errors:    set-up that fails ends the process (RING_CHECK).
#ifndef RING_TESTS_EC_OFFLOAD_VERBS_EXP_CONNECTED_PAIR_H_
#define RING_TESTS_EC_OFFLOAD_VERBS_EXP_CONNECTED_PAIR_H_

#include <infiniband/verbs_exp.h>

#include <cstdint>
#include <vector>

#include "ring/base/check.h"
#include "tests/support/await.h"

namespace ring::ec_verbs {

class Endpoint {
 public:
  explicit Endpoint(ibv_pd* pd, ibv_comp_channel* channel = nullptr) {
    cq_ = ibv_create_cq(pd->context, 128, this, channel, 0);
    RING_CHECK(cq_ != nullptr);
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 32;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 4;
    attr.cap.max_inline_data = 64;
    qp_ = ibv_create_qp(pd, &attr);
    RING_CHECK(qp_ != nullptr);
  }
  ~Endpoint() {
    RING_CHECK(ibv_destroy_qp(qp_) == 0);
    RING_CHECK(ibv_destroy_cq(cq_) == 0);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ibv_qp* qp() const { return qp_; }
  ibv_cq* cq() const { return cq_; }

  void ToReady(std::uint32_t peer, std::uint8_t rnr_retry = 7) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    RING_CHECK(
        ibv_modify_qp(qp_, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    SetPath(&attr);
    RING_CHECK(ibv_modify_qp(qp_, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.rnr_retry = rnr_retry;
    attr.retry_cnt = 7;
    attr.timeout = 14;  // 67 ms
    attr.max_rd_atomic = 1;
    RING_CHECK(ibv_modify_qp(qp_, &attr,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  int Receive(std::uint64_t id, ibv_sge sge) {
    ibv_recv_wr wr = {};
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad);
  }
  int Send(ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad);
  }
  // What is there now.
  std::vector<ibv_wc> Poll() {
    std::vector<ibv_wc> found(64);
    const int count = ibv_poll_cq(cq_, 64, found.data());
    RING_CHECK(count >= 0);
    found.resize(static_cast<std::size_t>(count));
    return found;
  }
  // Polls until there is one.
  ibv_wc PollOne() {
    ibv_wc wc = {};
    testing::Await("a completion", [&] { return ibv_poll_cq(cq_, 1, &wc) != 0; });
    return wc;
  }

 private:
  // To a queue pair of the same port.
  void SetPath(ibv_qp_attr* attr) const {
    ibv_port_attr port = {};
    RING_CHECK(ibv_query_port(qp_->context, 1, &port) == 0);
    attr->path_mtu = port.active_mtu;
    attr->ah_attr.port_num = 1;
    attr->ah_attr.dlid = port.lid;
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET) return;
    attr->ah_attr.is_global = 1;
    attr->ah_attr.grh.hop_limit = 1;
    RING_CHECK(ibv_query_gid(qp_->context, 1, 0, &attr->ah_attr.grh.dgid) == 0);
  }

  ibv_cq* cq_;
  ibv_qp* qp_;
};

inline void Connect(Endpoint& a, Endpoint& b) {
  a.ToReady(b.qp()->qp_num);
  b.ToReady(a.qp()->qp_num);
}

inline ibv_send_wr SendOf(std::uint64_t id, ibv_wr_opcode opcode, ibv_sge* sge) {
  ibv_send_wr wr = {};
  wr.wr_id = id;
  wr.sg_list = sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  return wr;
}

}  // namespace ring::ec_verbs

#endif  // RING_TESTS_EC_OFFLOAD_VERBS_EXP_CONNECTED_PAIR_H_
