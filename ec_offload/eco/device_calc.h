// ec_offload/eco/device_calc.h — a calculator of the verbs that the program has, if it has any.
//
// What:      DeviceCalc: device, protection domain and calculator behind `calc` of a context of
//            mlx_eco_init, and the memory regions of the blocks registered with it. For programs
//            that submit ibv_exp_ec_encode_async and the like themselves.
// Ownership: owns all of these; closing it ends operations in flight with a failure.
// Threads:   one at a time, but for the completions, which come in a thread of the calculator.
// Errors:    Open: null, when the program has no ibv_exp_ec_* functions, or no device takes them.
//            Register: false, and nothing is registered.
// Source:    the functions are weak references: this library itself needs no verbs.
#ifndef RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_
#define RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace ring::ec_offload::eco {

class DeviceCalc {
 public:
  // On mlx5_0 as published, or else on the first device there is.
  static std::unique_ptr<DeviceCalc> Open(const ibv_exp_ec_calc_init_attr& attr);
  ~DeviceCalc();
  DeviceCalc(const DeviceCalc&) = delete;
  DeviceCalc& operator=(const DeviceCalc&) = delete;

  ibv_exp_ec_calc* calc() const { return calc_; }
  // Sets the keys of blocks, in place of those registered before; blocks of length 0 need none.
  bool Register(absl::Span<ibv_sge> blocks);

 private:
  DeviceCalc() = default;
  void Forget();

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_exp_ec_calc* calc_ = nullptr;
  std::vector<ibv_mr*> regions_;
};

}  // namespace ring::ec_offload::eco

#endif  // RING_EC_OFFLOAD_ECO_DEVICE_CALC_H_
