// tests/ec_offload/eco/jerasure_oracle.h — Debian's Jerasure and GF-Complete, to compare with.
//
// What:      JerasureMatrix, the coding matrix; JerasureEncode, the parities of data blocks: for
//            w = 8 by jerasure_matrix_encode; for w = 4, which that refuses, by GF-Complete's
//            region multiply of each coefficient.
// Shape:     matrices are m x k. Blocks of any size: they are copied into aligned memory, padded
//            with zeros.
// Threads:   one: Jerasure sets up its fields at first use, without a lock.
// Errors:    none.
#ifndef RING_TESTS_EC_OFFLOAD_ECO_JERASURE_ORACLE_H_
#define RING_TESTS_EC_OFFLOAD_ECO_JERASURE_ORACLE_H_

extern "C" {
#include <cauchy.h>
#include <gf_complete.h>
#include <jerasure.h>
#include <reed_sol.h>
}

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace ring::ec_offload {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using JerasureMatrixPointer = std::unique_ptr<int, FreeMemory>;
using AlignedBlock = std::unique_ptr<char, FreeMemory>;

inline JerasureMatrixPointer JerasureMatrix(int k, int m, int w, bool vandermonde) {
  return JerasureMatrixPointer(vandermonde ? reed_sol_vandermonde_coding_matrix(k, m, w)
                                           : cauchy_original_coding_matrix(k, m, w));
}

inline gf_t* FieldOfNibbles() {
  static gf_t* const field = [] {
    static gf_t made;
    gf_init_easy(&made, 4);
    return &made;
  }();
  return field;
}

// coding[j] of `size` bytes, a multiple of 64; all blocks aligned to 64.
inline void JerasureEncodeAligned(int k, int m, int w, int* matrix, char** data, char** coding,
                                  int size) {
  if (w == 8) {
    jerasure_matrix_encode(k, m, w, matrix, data, coding, size);
    return;
  }
  gf_t* const field = FieldOfNibbles();
  for (int j = 0; j < m; ++j) {
    for (int i = 0; i < k; ++i) {
      field->multiply_region.w32(field, data[i], coding[j],
                                 static_cast<gf_val_32_t>(matrix[j * k + i]), size, i > 0);
    }
  }
}

inline std::vector<std::vector<std::uint8_t>> JerasureEncode(int k, int m, int w, bool vandermonde,
                                                             const std::vector<std::uint8_t*>& data,
                                                             std::size_t size) {
  const std::size_t padded = (size + 63) / 64 * 64;
  std::vector<AlignedBlock> memory;
  std::vector<char*> from, to;
  for (int i = 0; i < k + m; ++i) {
    memory.emplace_back(static_cast<char*>(std::aligned_alloc(64, padded)));
    std::memset(memory.back().get(), 0, padded);
    if (i < k) std::memcpy(memory.back().get(), data[static_cast<std::size_t>(i)], size);
    (i < k ? from : to).push_back(memory.back().get());
  }
  const JerasureMatrixPointer matrix = JerasureMatrix(k, m, w, vandermonde);
  JerasureEncodeAligned(k, m, w, matrix.get(), from.data(), to.data(), static_cast<int>(padded));
  std::vector<std::vector<std::uint8_t>> parities;
  for (const char* parity : to) parities.emplace_back(parity, parity + size);
  return parities;
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_ECO_JERASURE_ORACLE_H_
