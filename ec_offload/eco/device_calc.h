// ec_offload/eco/device_calc.h — a calculator of the verbs that the program has, if it has any.
//
// What:      DeviceCalc: device, protection domain and calculator behind `calc` of a context of
//            mlx_eco_init, the memory regions of the blocks registered with it, and registered
//            blocks of 64 bytes for what is left past a multiple of 64. For programs that submit
//            ibv_exp_ec_encode_async and the like themselves.
// Ownership: owns all of these; closing it ends operations in flight with a failure.
// Threads:   one at a time, but for the completions, which come in a thread of the calculator:
//            always the same, which an operation at Open finds out.
// Errors:    Open: null, when the program has no ibv_exp_ec_* functions, or no device takes them.
//            Register: false, and nothing is registered.
// Source:    the functions are weak references: this library itself needs no verbs.
#ifndef RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_
#define RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ec_offload/eco/include/ecOffload/eco_common.h"

namespace ring::ec_offload::eco {

// What calculators of NICs count block sizes in.
inline constexpr int kWholeBytes = 64;

class DeviceCalc {
 public:
  // On mlx5_0 as published, or else on the first device there is.
  static std::unique_ptr<DeviceCalc> Open(const ibv_exp_ec_calc_init_attr& attr);
  ~DeviceCalc();
  DeviceCalc(const DeviceCalc&) = delete;
  DeviceCalc& operator=(const DeviceCalc&) = delete;

  // Fills in calc and the remainder_ members, but for remainder_comp.
  void ShowIn(eco_context& context);
  // Sets the keys of blocks, in place of those registered before; blocks of length 0 need none.
  bool Register(absl::Span<ibv_sge> blocks);
  // Whether this is the thread that completions come in: it cannot wait for their end.
  bool InCompletion() const { return has_completer_ && pthread_equal(completer_, pthread_self()); }

 private:
  struct alignas(kWholeBytes) RemainderBlock {
    std::uint8_t bytes[kWholeBytes];
  };

  explicit DeviceCalc(std::size_t block_count)
      : remainder_(block_count), remainder_sges_(block_count) {
    regions_.reserve(block_count);
  }
  bool RegisterRemainder();
  void FindCompleter(int k, int m);
  ibv_exp_ec_mem RemainderMem(int k, int m);
  void Forget();

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_exp_ec_calc* calc_ = nullptr;
  std::vector<ibv_mr*> regions_;
  std::vector<RemainderBlock> remainder_;  // data, then code
  std::vector<ibv_sge> remainder_sges_;
  ibv_mr* remainder_region_ = nullptr;
  pthread_t completer_ = {};
  bool has_completer_ = false;
};

}  // namespace ring::ec_offload::eco

#endif  // RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_
