// ec_offload/verbs_exp/include/infiniband/verbs_exp.h — the experimental verbs of erasure coding,
// for programs that were written for MLNX_OFED, over rdma-core's verbs.h.
//
// What:      ibv_exp_alloc_ec_calc and the calls on a calculation context (encode, decode, update,
//            poll, encode_send); ibv_exp_query_device with the capabilities of erasure coding;
//            ibv_exp_reg_mr. Names, fields and their order are those of MLNX_OFED 4.x. Of the other
//            experimental verbs nothing is here. The functions are in libring_ec_verbs
//            (pkg-config ring-ec-verbs), not inline.
// Shape:     matrices are bytes, K rows x outputs, row-major: the entry of input i and output j is
//            at [i * outputs + j], the transpose of what Jerasure and ISA-L have. erasures,
//            data_updates and code_updates are byte maps: a byte for each block, not 0 where the
//            block is meant. Blocks are numbered data first, then code.
// Units:     bytes; w in bits.
// Ownership: matrices, maps, scatter lists and struct ibv_exp_ec_mem are the caller's again when
//            a call returns; the blocks and struct ibv_exp_ec_comp when the operation is complete.
// Threads:   several threads may use one calculation context. done() runs in a thread of the
//            context, or inside ibv_exp_ec_poll with polling set; never in the call that submits.
//            It may submit, and may release its own context: the completions that are left are
//            told before ibv_exp_dealloc_ec_calc returns.
//            It must not wait for a synchronous call of another thread on its context, which
//            waits for it.
// Errors:    see the manual page of each function; 0 is success, except for ibv_exp_ec_poll.
// Source:    the erasure coding section of MLNX_OFED's verbs_exp.h, manual pages, driver.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_EXP_H_
#define RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_EXP_H_

// As a system header: #include_next and enumerators of 64 bits are extensions.
#pragma GCC system_header

// Programs of MLNX_OFED use printf, malloc and exit with this header alone.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  IBV_EXP_START_ENUM = 0x40,
  IBV_EXP_START_FLAG_LOC = 0x20,
};
#define IBV_EXP_START_FLAG (1ULL << IBV_EXP_START_FLAG_LOC)

// ---- Capabilities -----------------------------------------------------------------------------

// Bits of ibv_exp_device_attr.exp_device_cap_flags.
enum ibv_exp_device_cap_flags {
  IBV_EXP_DEVICE_EC_OFFLOAD = IBV_EXP_START_FLAG << 13,
};

// Bits of ibv_exp_device_attr.comp_mask: what is asked for, and on return what was filled in.
enum ibv_exp_device_attr_comp_mask {
  IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
  IBV_EXP_DEVICE_ATTR_EC_CAPS = 1 << 18,
  IBV_EXP_DEVICE_ATTR_EC_GF_BASE = 1 << 23,  // ec_w_mask; filled together with EC_CAPS
  IBV_EXP_DEVICE_ATTR_COMP_MASK_2 = 1U << 31,
  IBV_EXP_DEVICE_ATTR_RESERVED = 1ULL << 32,
};

struct ibv_exp_ec_caps {
  uint32_t max_ec_data_vector_count;
  uint32_t max_ec_calc_inflight_calcs;
};

struct ibv_exp_device_calc_cap {
  uint64_t data_types;
  uint64_t data_sizes;
  uint64_t int_ops;
  uint64_t uint_ops;
  uint64_t fp_ops;
};

enum ibv_exp_atomic_cap {
  IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
  IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
  IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
};

// The fields of struct ibv_device_attr, then those of MLNX_OFED that erasure coding has to do with.
struct ibv_exp_device_attr {
  char fw_ver[64];
  uint64_t node_guid;
  uint64_t sys_image_guid;
  uint64_t max_mr_size;
  uint64_t page_size_cap;
  uint32_t vendor_id;
  uint32_t vendor_part_id;
  uint32_t hw_ver;
  int max_qp;
  int max_qp_wr;
  int reserved;
  int max_sge;
  int max_sge_rd;
  int max_cq;
  int max_cqe;
  int max_mr;
  int max_pd;
  int max_qp_rd_atom;
  int max_ee_rd_atom;
  int max_res_rd_atom;
  int max_qp_init_rd_atom;
  int max_ee_init_rd_atom;
  enum ibv_exp_atomic_cap exp_atomic_cap;
  int max_ee;
  int max_rdd;
  int max_mw;
  int max_raw_ipv6_qp;
  int max_raw_ethy_qp;
  int max_mcast_grp;
  int max_mcast_qp_attach;
  int max_total_mcast_qp_attach;
  int max_ah;
  int max_fmr;
  int max_map_per_fmr;
  int max_srq;
  int max_srq_wr;
  int max_srq_sge;
  uint16_t max_pkeys;
  uint8_t local_ca_ack_delay;
  uint8_t phys_port_cnt;
  uint32_t comp_mask;
  struct ibv_exp_device_calc_cap calc_cap;
  uint64_t timestamp_mask;
  uint64_t hca_core_clock;
  uint64_t exp_device_cap_flags;
  struct ibv_exp_ec_caps ec_caps;
  uint32_t ec_w_mask;  // bit w - 1: the device calculates in GF(2^w)
  uint32_t comp_mask_2;
};

int ibv_exp_query_device(struct ibv_context* context, struct ibv_exp_device_attr* attr);

// ---- Registration of memory -------------------------------------------------------------------

enum ibv_exp_access_flags {
  IBV_EXP_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
  IBV_EXP_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
  IBV_EXP_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
  IBV_EXP_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
  IBV_EXP_ACCESS_MW_BIND = IBV_ACCESS_MW_BIND,
  IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
};

struct ibv_exp_dm;

struct ibv_exp_reg_mr_in {
  struct ibv_pd* pd;
  void* addr;
  size_t length;
  uint64_t exp_access;
  uint32_t comp_mask;     // 0
  uint32_t create_flags;  // 0
  struct ibv_exp_dm* dm;  // not read
};

// With addr 0, length SIZE_MAX and IBV_EXP_ACCESS_ON_DEMAND: one key for the whole address space.
struct ibv_mr* ibv_exp_reg_mr(struct ibv_exp_reg_mr_in* in);

// ---- Erasure coding ---------------------------------------------------------------------------

enum ibv_exp_ec_calc_attr_comp_mask {
  IBV_EXP_EC_CALC_ATTR_MAX_INFLIGHT = 1 << 0,
  IBV_EXP_EC_CALC_ATTR_K = 1 << 1,
  IBV_EXP_EC_CALC_ATTR_M = 1 << 2,
  IBV_EXP_EC_CALC_ATTR_W = 1 << 3,
  IBV_EXP_EC_CALC_ATTR_MAX_DATA_SGE = 1 << 4,
  IBV_EXP_EC_CALC_ATTR_MAX_CODE_SGE = 1 << 5,
  IBV_EXP_EC_CALC_ATTR_ENCODE_MAT = 1 << 6,
  IBV_EXP_EC_CALC_ATTR_AFFINITY = 1 << 7,
  IBV_EXP_EC_CALC_ATTR_POLLING = 1 << 8,
  IBV_EXP_EC_CALC_INIT_ATTR_RESERVED = 1 << 9,
};

struct ibv_exp_ec_calc_init_attr {
  uint32_t comp_mask;
  uint32_t max_inflight_calcs;
  int k;                   // data blocks
  int m;                   // code blocks
  int w;                   // the field is GF(2^w): 1, 2, 4 or 8
  int max_data_sge;        // k
  int max_code_sge;        // m
  uint8_t* encode_matrix;  // k rows x m columns
  int affinity_hint;
  int polling;  // not 0: no thread; done() runs inside ibv_exp_ec_poll
};

enum ibv_exp_ec_status {
  IBV_EXP_EC_CALC_SUCCESS,
  IBV_EXP_EC_CALC_FAIL,
};

struct ibv_exp_ec_comp {
  void (*done)(struct ibv_exp_ec_comp* comp);
  enum ibv_exp_ec_status status;
};

struct ibv_exp_ec_calc {
  struct ibv_pd* pd;
};

struct ibv_exp_ec_mem {
  struct ibv_sge* data_blocks;
  int num_data_sge;
  struct ibv_sge* code_blocks;
  int num_code_sge;
  int block_size;
};

struct ibv_exp_ec_stripe {
  struct ibv_qp* qp;
  struct ibv_send_wr* wr;
};

#ifdef __cplusplus
#define RING_EC_VERBS_ASSERT static_assert
#else
#define RING_EC_VERBS_ASSERT _Static_assert
#endif
#ifdef __LP64__
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_calc_init_attr) == 48, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(offsetof(struct ibv_exp_ec_calc_init_attr, encode_matrix) == 32,
                     "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_comp) == 16, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_calc) == 8, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_mem) == 32, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(offsetof(struct ibv_exp_ec_mem, code_blocks) == 16, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(offsetof(struct ibv_exp_ec_mem, block_size) == 28, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_stripe) == 16, "as in MLNX_OFED");
RING_EC_VERBS_ASSERT(sizeof(struct ibv_exp_ec_caps) == 8, "as in MLNX_OFED");
#endif
#undef RING_EC_VERBS_ASSERT

struct ibv_exp_ec_calc* ibv_exp_alloc_ec_calc(struct ibv_pd* pd,
                                              struct ibv_exp_ec_calc_init_attr* attr);
void ibv_exp_dealloc_ec_calc(struct ibv_exp_ec_calc* calc);

int ibv_exp_ec_encode_async(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                            struct ibv_exp_ec_comp* ec_comp);
int ibv_exp_ec_encode_sync(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem);

int ibv_exp_ec_decode_async(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                            uint8_t* erasures, uint8_t* decode_matrix,
                            struct ibv_exp_ec_comp* ec_comp);
int ibv_exp_ec_decode_sync(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                           uint8_t* erasures, uint8_t* decode_matrix);

int ibv_exp_ec_update_async(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                            uint8_t* data_updates, uint8_t* code_updates,
                            struct ibv_exp_ec_comp* ec_comp);
int ibv_exp_ec_update_sync(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                           uint8_t* data_updates, uint8_t* code_updates);

int ibv_exp_ec_poll(struct ibv_exp_ec_calc* calc, int n);

int ibv_exp_ec_encode_send(struct ibv_exp_ec_calc* calc, struct ibv_exp_ec_mem* ec_mem,
                           struct ibv_exp_ec_stripe* data_stripes,
                           struct ibv_exp_ec_stripe* code_stripes);

#ifdef __cplusplus
}
#endif

#endif  // RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_EXP_H_
