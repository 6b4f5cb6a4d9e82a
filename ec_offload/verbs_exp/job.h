// ec_offload/verbs_exp/job.h — from the descriptors of a program to inputs, outputs and a matrix.
//
// What:      PlanEncode, PlanDecode, PlanUpdate check what a call hands over and say what is to be
//            calculated; ReadCode does it for a context. All restrictions on descriptors are
//            checked here, except for keys and rights: when an operation runs (calc.h).
// Shape:     a matrix is outputs x inputs, as the calculators of ec_offload want it; the program's
//            is the transpose.
// Units:     bytes.
// Ownership: borrow for the call; a Job copies scatter entries, and refers to the blocks.
// Threads:   pure.
// Errors:    0, or the value that the verbs call gives: -EINVAL, and EINVAL for entries whose
//            length is not block_size, as the driver of MLNX_OFED 4.4 has it.
// Source:    the header's restrictions, ibv_exp_ec_encode_sync(3) and its like, the mlx5 driver.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_JOB_H_
#define RING_EC_OFFLOAD_VERBS_EXP_JOB_H_

#include <infiniband/verbs_exp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ec_offload/matrix.h"
#include "ec_offload/matrix_calculator.h"

namespace ring::ec_verbs {

// The code of a calculation context.
struct Code {
  std::size_t k = 0;
  std::size_t m = 0;
  int w = 0;
  std::string matrix;  // k rows x m columns

  std::uint8_t Factor(std::size_t input, std::size_t output) const {
    return static_cast<std::uint8_t>(matrix[input * m + output]);
  }
};

// 0 and the code, or EINVAL: what ibv_exp_alloc_ec_calc refuses.
int ReadCode(const ibv_exp_ec_calc_init_attr& attr, Code* code);

inline constexpr std::size_t kBlocksMax = ec_offload::kMatrixSizeMax;
inline constexpr int kBlockSizeUnit = 64;
inline constexpr std::uint32_t kInflightMax = 1024;
// What a context takes above max_inflight_calcs.
inline constexpr std::uint32_t kInflightSpare = 4;

struct Job {
  std::vector<ibv_sge> inputs;
  std::vector<ibv_sge> outputs;  // none: there is nothing to calculate
  std::string matrix;            // outputs rows x inputs columns

  ec_offload::Matrix ToMatrix() const;
};

int PlanEncode(const Code& code, const ibv_exp_ec_mem* mem, Job* job);
int PlanDecode(const Code& code, const ibv_exp_ec_mem* mem, const std::uint8_t* erasures,
               const std::uint8_t* decode_matrix, Job* job);
int PlanUpdate(const Code& code, const ibv_exp_ec_mem* mem, const std::uint8_t* data_updates,
               const std::uint8_t* code_updates, Job* job);

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_JOB_H_
