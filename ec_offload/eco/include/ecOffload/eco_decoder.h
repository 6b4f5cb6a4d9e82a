// ec_offload/eco/include/ecOffload/eco_decoder.h — libecoffload: decoders.
//
// What:      mlx_eco_decoder_init, _register, _generate_decode_matrix, _decode, _release as
//            published, and _init_w, which also chooses the field.
// Shape:     erasures is a list of block indices in any order: i < k is data block i, k + j code
//            block j. (The published comments say byte-map; what programs pass are lists.)
// Units:     block_size in bytes: any from 1 on; data_size, coding_size, erasures_size in elements.
// Ownership: a decoder is the library's; blocks are the caller's, and used during calls only.
// Threads:   any thread may use any decoder; calls on one decoder run one after the other.
// Errors:    as eco_common.h; -1 also for more than m erasures, an index that is none or comes
//            twice. No block is written then. See mlx_eco_decoder_init(3).
// Source:    Mellanox, Erasure Coding NIC Offload, API and design document, 0.1.
#ifndef RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_DECODER_H_
#define RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_DECODER_H_

#include <ecOffload/eco_common.h>

#ifdef __cplusplus
extern "C" {
#endif

// The matrices and maps are of the erasures that were decoded or generated last; a call without
// erasures leaves those of the call before.
struct eco_decoder {
  struct eco_context* eco_ctx;
  int* int_decode_matrix;     // k x k: data from the first k survivors, in the order of indices
  uint8_t* u8_decode_matrix;  // k x erasures: row i for survivor i, a column for each erasure
  int* int_erasures;          // k + m: 1 where a block is erased
  uint8_t* u8_erasures;       // the same in bytes
  int* survived;              // k + m: 1 where a block is not erased
};

// Over GF(2^4), k + m <= 16; with _w over GF(2^w), w being 4 or 8.
struct eco_decoder* mlx_eco_decoder_init(int k, int m, int use_vandermonde_matrix);
struct eco_decoder* mlx_eco_decoder_init_w(int k, int m, int use_vandermonde_matrix, int w);

// Optional.
int mlx_eco_decoder_register(struct eco_decoder* eco_decoder, uint8_t** data, uint8_t** coding,
                             int data_size, int coding_size, int block_size);

// Optional: computes the matrix that a later decode of these erasures needs.
int mlx_eco_decoder_generate_decode_matrix(struct eco_decoder* eco_decoder, int* erasures,
                                           int erasures_size);

// Writes the erased blocks, in place, from the others. Without erasures it does nothing.
int mlx_eco_decoder_decode(struct eco_decoder* eco_decoder, uint8_t** data, uint8_t** coding,
                           int data_size, int coding_size, int block_size, int* erasures,
                           int erasures_size);

// Waits for a call of another thread to end.
int mlx_eco_decoder_release(struct eco_decoder* eco_decoder);

#ifdef __cplusplus
}
#endif

#endif  // RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_DECODER_H_
