// The exported calls on calculation contexts, and ibv_exp_query_device and ibv_exp_reg_mr: what the
// manual pages say, over calc.h.
#include <infiniband/verbs_exp.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/calc.h"
#include "ec_offload/verbs_exp/job.h"

using ring::ec_verbs::Calc;
using ring::ec_verbs::Job;
using ring::ec_verbs::OrNoMemory;

namespace {

// Runs plan(context, &job), then submits the job with comp, or, without one, waits for it.
template <class Plan>
int Do(ibv_exp_ec_calc* handle, ibv_exp_ec_comp* comp, bool wait, Plan plan) {
  const std::shared_ptr<Calc> calc = Calc::Find(handle);
  if (calc == nullptr) return -EINVAL;
  if (!wait && (comp == nullptr || comp->done == nullptr)) return -EINVAL;
  return OrNoMemory(-ENOMEM, [&] {
    Job job;
    if (const int error = plan(*calc, &job); error != 0) return error;
    return wait ? calc->Run(std::move(job)) : calc->Submit(std::move(job), comp);
  });
}

int Encode(ibv_exp_ec_calc* calc, const ibv_exp_ec_mem* mem, ibv_exp_ec_comp* comp, bool wait) {
  return Do(calc, comp, wait,
            [&](const Calc& own, Job* job) { return PlanEncode(own.code(), mem, job); });
}

int Decode(ibv_exp_ec_calc* calc, const ibv_exp_ec_mem* mem, const std::uint8_t* erasures,
           const std::uint8_t* matrix, ibv_exp_ec_comp* comp, bool wait) {
  return Do(calc, comp, wait, [&](const Calc& own, Job* job) {
    return PlanDecode(own.code(), mem, erasures, matrix, job);
  });
}

int Update(ibv_exp_ec_calc* calc, const ibv_exp_ec_mem* mem, const std::uint8_t* data_updates,
           const std::uint8_t* code_updates, ibv_exp_ec_comp* comp, bool wait) {
  return Do(calc, comp, wait, [&](const Calc& own, Job* job) {
    return PlanUpdate(own.code(), mem, data_updates, code_updates, job);
  });
}

bool Usable(const ibv_exp_ec_stripe* stripes, std::size_t count) {
  return stripes != nullptr && std::all_of(stripes, stripes + count, [](const auto& stripe) {
           return stripe.qp != nullptr && stripe.wr != nullptr;
         });
}

// 0, or the error of the first post that failed: the posts before it stand.
int PostAll(const ibv_exp_ec_stripe* stripes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(stripes[i].qp, stripes[i].wr, &bad); error != 0) {
      return error;
    }
  }
  return 0;
}

int EncodeAndSend(Calc& calc, const ibv_exp_ec_mem* mem, const ibv_exp_ec_stripe* data_stripes,
                  const ibv_exp_ec_stripe* code_stripes) {
  Job job;
  if (const int error = PlanEncode(calc.code(), mem, &job); error != 0) return error;
  if (!Usable(data_stripes, calc.code().k) || !Usable(code_stripes, calc.code().m)) return -EINVAL;
  if (const int error = PostAll(data_stripes, calc.code().k); error != 0) return error;
  // Waiting here for the code blocks is what hardware does with a wait in each send queue.
  if (const int error = calc.Run(std::move(job)); error != 0) return error;
  return PostAll(code_stripes, calc.code().m);
}

}  // namespace

extern "C" {

ibv_exp_ec_calc* ibv_exp_alloc_ec_calc(ibv_pd* pd, ibv_exp_ec_calc_init_attr* attr) {
  if (pd == nullptr || attr == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  if (attr->comp_mask >= IBV_EXP_EC_CALC_INIT_ATTR_RESERVED) {
    std::fprintf(stderr, "ibv_exp_alloc_ec_calc: invalid comp_mask 0x%x\n", attr->comp_mask);
    errno = EINVAL;
    return nullptr;
  }
  return OrNoMemory<ibv_exp_ec_calc*>(nullptr, [&] { return Calc::Open(pd, *attr); });
}

void ibv_exp_dealloc_ec_calc(ibv_exp_ec_calc* calc) {
  if (!Calc::Close(calc)) errno = EINVAL;
}

int ibv_exp_ec_encode_async(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, ibv_exp_ec_comp* comp) {
  return Encode(calc, mem, comp, false);
}

int ibv_exp_ec_encode_sync(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem) {
  return Encode(calc, mem, nullptr, true);
}

int ibv_exp_ec_decode_async(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, std::uint8_t* erasures,
                            std::uint8_t* decode_matrix, ibv_exp_ec_comp* comp) {
  return Decode(calc, mem, erasures, decode_matrix, comp, false);
}

int ibv_exp_ec_decode_sync(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, std::uint8_t* erasures,
                           std::uint8_t* decode_matrix) {
  return Decode(calc, mem, erasures, decode_matrix, nullptr, true);
}

int ibv_exp_ec_update_async(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, std::uint8_t* data_updates,
                            std::uint8_t* code_updates, ibv_exp_ec_comp* comp) {
  return Update(calc, mem, data_updates, code_updates, comp, false);
}

int ibv_exp_ec_update_sync(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, std::uint8_t* data_updates,
                           std::uint8_t* code_updates) {
  return Update(calc, mem, data_updates, code_updates, nullptr, true);
}

int ibv_exp_ec_poll(ibv_exp_ec_calc* calc, int n) {
  const std::shared_ptr<Calc> own = Calc::Find(calc);
  return own == nullptr ? -EINVAL : own->Poll(n);
}

int ibv_exp_ec_encode_send(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem,
                           ibv_exp_ec_stripe* data_stripes, ibv_exp_ec_stripe* code_stripes) {
  const std::shared_ptr<Calc> own = Calc::Find(calc);
  if (own == nullptr || own->polling()) return -EINVAL;
  return OrNoMemory(-ENOMEM, [&] { return EncodeAndSend(*own, mem, data_stripes, code_stripes); });
}

int ibv_exp_query_device(ibv_context* context, ibv_exp_device_attr* attr) {
  if (context == nullptr || attr == nullptr) return EINVAL;
  ibv_device_attr plain;
  if (const int error = ibv_query_device(context, &plain); error != 0) return error;
  // Up to phys_port_cnt both have the same fields in the same places, except that device_cap_flags
  // is reserved in the experimental one.
  constexpr std::size_t kAlike = offsetof(ibv_exp_device_attr, comp_mask);
  static_assert(offsetof(ibv_exp_device_attr, phys_port_cnt) ==
                offsetof(ibv_device_attr, phys_port_cnt));
  static_assert(offsetof(ibv_exp_device_attr, max_sge) == offsetof(ibv_device_attr, max_sge));
  static_assert(sizeof(ibv_device_attr) >= offsetof(ibv_device_attr, phys_port_cnt) + 1);
  const std::uint32_t asked = attr->comp_mask;
  std::memcpy(attr, &plain, std::min(kAlike, sizeof(plain)));
  attr->reserved = 0;
  attr->comp_mask = 0;
  if ((asked & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS) != 0) {
    attr->exp_device_cap_flags = IBV_EXP_DEVICE_EC_OFFLOAD;
    attr->comp_mask |= IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
  }
  if ((asked & IBV_EXP_DEVICE_ATTR_EC_CAPS) != 0) {
    attr->ec_caps.max_ec_data_vector_count = ring::ec_verbs::kBlocksMax - 1;
    attr->ec_caps.max_ec_calc_inflight_calcs = ring::ec_verbs::kInflightMax;
    attr->comp_mask |= IBV_EXP_DEVICE_ATTR_EC_CAPS;
    if ((asked & IBV_EXP_DEVICE_ATTR_EC_GF_BASE) != 0) {
      attr->ec_w_mask = 1U << 0 | 1U << 1 | 1U << 3 | 1U << 7;  // bit w - 1
      attr->comp_mask |= IBV_EXP_DEVICE_ATTR_EC_GF_BASE;
    }
  }
  return 0;
}

ibv_mr* ibv_exp_reg_mr(ibv_exp_reg_mr_in* in) {
  constexpr std::uint64_t kPlain = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_MW_BIND;
  if (in == nullptr || in->pd == nullptr || in->comp_mask != 0 || in->create_flags != 0 ||
      (in->exp_access & ~(kPlain | IBV_EXP_ACCESS_ON_DEMAND)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  auto access = static_cast<unsigned>(in->exp_access & kPlain);
  if ((in->exp_access & IBV_EXP_ACCESS_ON_DEMAND) != 0) access |= IBV_ACCESS_ON_DEMAND;
  // The function, not rdma-core's macro of its name, which wants a constant to choose by.
  return (ibv_reg_mr)(in->pd, in->addr, in->length, static_cast<int>(access));
}

}  // extern "C"
