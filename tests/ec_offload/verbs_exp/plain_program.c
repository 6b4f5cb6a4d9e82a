/* A program of rdma-core's verbs that knows nothing of us: a message to itself on the first device. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static char memory[128] = "over the loop";

static int connect_to_self(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
    return 1;
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) {
    return 1;
  }
  attr.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void) {
  int count = 0;
  struct ibv_device **devices = ibv_get_device_list(&count);
  struct ibv_context *context = devices && count ? ibv_open_device(devices[0]) : NULL;
  struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
  struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
  struct ibv_cq *cq = mr ? ibv_create_cq(context, 8, NULL, NULL, 0) : NULL;
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
  struct ibv_sge from = {(uintptr_t)memory, 64, mr ? mr->lkey : 0};
  struct ibv_sge to = {(uintptr_t)memory + 64, 64, mr ? mr->lkey : 0};
  struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
  struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
  struct ibv_wc wc[2];

  if (!qp || connect_to_self(qp)) {
    printf("no device\n");
    return 1;
  }
  if (ibv_post_recv(qp, &receive, &bad_receive) || ibv_post_send(qp, &send, &bad_send)) return 1;
  for (count = 0; count < 2;) count += ibv_poll_cq(cq, 2 - count, wc + count);
  if (wc[0].status || wc[1].status) return 1;
  printf("%s, %s\n", ibv_wc_status_str(wc[0].status), memory + 64);
  ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dereg_mr(mr);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return memcmp(memory, memory + 64, 64) != 0;
}
