// ec_offload/eco/include/ecOffload/eco_encoder.h — libecoffload: encoders.
//
// What:      mlx_eco_encoder_init, _register, _encode, _release as published, and _init_w, which
//            also chooses the field.
// Units:     block_size in bytes: any from 1 on; data_size and coding_size in blocks.
// Ownership: an encoder is the library's; blocks are the caller's, and used during calls only.
// Threads:   any thread may use any encoder; calls on one encoder run one after the other.
// Errors:    as eco_common.h. See mlx_eco_encoder_init(3).
// Source:    Mellanox, Erasure Coding NIC Offload, API and design document, 0.1.
#ifndef RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_ENCODER_H_
#define RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_ENCODER_H_

#include <ecOffload/eco_common.h>

#ifdef __cplusplus
extern "C" {
#endif

struct eco_encoder {
  struct eco_context* eco_ctx;
};

// Over GF(2^4), k + m <= 16; with _w over GF(2^w), w being 4 or 8.
struct eco_encoder* mlx_eco_encoder_init(int k, int m, int use_vandermonde_matrix);
struct eco_encoder* mlx_eco_encoder_init_w(int k, int m, int use_vandermonde_matrix, int w);

// Optional.
int mlx_eco_encoder_register(struct eco_encoder* eco_encoder, uint8_t** data, uint8_t** coding,
                             int data_size, int coding_size, int block_size);

// Writes the m code blocks of the k data blocks. A code block overlaps no other block.
int mlx_eco_encoder_encode(struct eco_encoder* eco_encoder, uint8_t** data, uint8_t** coding,
                           int data_size, int coding_size, int block_size);

// Waits for a call of another thread to end.
int mlx_eco_encoder_release(struct eco_encoder* eco_encoder);

#ifdef __cplusplus
}
#endif

#endif  // RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_ENCODER_H_
