// ec_offload/eco/include/ecOffload/eco_common.h — libecoffload: what encoder and decoder share.
//
// What:      struct eco_context, and mlx_eco_init, mlx_eco_register, mlx_eco_release. Names, fields
//            and signatures are those of Mellanox' published library; mlx_eco_init_w is ours.
// Units:     sizes of blocks in bytes, of arrays in elements.
// Ownership: a context is the library's; blocks are the caller's. Calls use them until they return,
//            operations on calc until they are complete.
// Threads:   any thread may use any coder; calls on one coder run one after the other.
// Errors:    NULL with errno EINVAL or ENOMEM from init. 0, -1 (bad arguments, or a coder that was
//            released) or -ENOMEM from the others. See mlx_eco_init(3).
// Source:    Mellanox, Erasure Coding NIC Offload, API and design document, 0.1.
#ifndef RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_COMMON_H_
#define RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_COMMON_H_

#include <ecOffload/eco_list.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Programs written for the published header may use these; in C++ such short names would hurt.
#ifndef __cplusplus
#ifndef W
#define W 4
#endif
#ifndef dbg_log
#define dbg_log(...) ((void)0)
#endif
#ifndef err_log
#define err_log(...) fprintf(stderr, __VA_ARGS__)
#endif
#endif

struct eco_coder_comp {
  struct ibv_exp_ec_comp comp;
  void* eco_coder;  // as given to mlx_eco_init
  int is_remainder_comp;
};

struct eco_context {
  struct ibv_exp_ec_calc* calc;           // of mlx_eco_init with verbs; otherwise NULL
  struct ibv_exp_ec_calc_init_attr attr;  // k, m, w, and the k x m encode matrix
  struct ibv_exp_ec_mem alignment_mem;    // what was registered last, in whole 64 bytes; may be 0
  eco_list mrs_list;                      // empty: regions are kept elsewhere
  int* int_encode_matrix;                 // m x k, as Jerasure has it
  uint8_t* remainder_buffers;             // with calc: 64 bytes a block, data first; else NULL
  struct ibv_exp_ec_mem remainder_mem;    // with calc: these; else empty
  struct ibv_mr* remainder_mr;            // with calc: of these; else NULL
  int block_size;                         // of what was registered last
  pthread_mutex_t async_mutex;
  pthread_cond_t async_cond;
  int async_ref_count;  // 0
  uint8_t** data;       // NULL between calls
  uint8_t** coding;     // NULL between calls
  struct eco_coder_comp alignment_comp;
  struct eco_coder_comp remainder_comp;
};

// calc is there when comp_done_func is given and the program links the ibv_exp_ec_* functions.
// comp_done_func runs for what the program submits on it, in another thread. Bytes of a block past
// a multiple of 64 go through remainder_buffers: the program copies them in and the results out.
//
// A context of k data and m code blocks over GF(2^4): k + m <= 16. The matrix is Jerasure's
// Vandermonde matrix, or with use_vandermonde_matrix 0 its original Cauchy matrix.
struct eco_context* mlx_eco_init(void* coder, int k, int m, int use_vandermonde_matrix,
                                 void (*comp_done_func)(struct ibv_exp_ec_comp*));
// The same over GF(2^w), w being 4 or 8: k + m <= 2^w.
struct eco_context* mlx_eco_init_w(void* coder, int k, int m, int use_vandermonde_matrix,
                                   void (*comp_done_func)(struct ibv_exp_ec_comp*), int w);

// Optional for encoders and decoders. Checks the blocks and lays them out in alignment_mem; with a
// calc it registers them there, in place of those registered before.
int mlx_eco_register(struct eco_context* eco_ctx, uint8_t** data, uint8_t** coding, int data_size,
                     int coding_size, int block_size);

// A context of an encoder or decoder is released with that. Inside comp_done_func of the context
// itself this is refused, and does nothing: let it wake another thread, which releases.
int mlx_eco_release(struct eco_context* eco_ctx);

#ifdef __cplusplus
}
#endif

#endif  // RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_COMMON_H_
