// tests/ec_offload/verbs_exp/fake_system.h — a libibverbs of the system, with a device that is not
// ours.
//
// What:      FakeSystem: what ring::ec_verbs::RealSymbol finds in a test program that links the
//            source file: regions, protection domains, and all that the software device does not
//            have. Each call leaves its name; regions behave as rdma-core's do.
// Ownership: a region is freed by ibv_dereg_mr or ibv_unimport_mr; the rest are members.
// Threads:   one.
// Errors:    `result` is what the next calls that give an int give.
#ifndef RING_TESTS_EC_OFFLOAD_VERBS_EXP_FAKE_SYSTEM_H_
#define RING_TESTS_EC_OFFLOAD_VERBS_EXP_FAKE_SYSTEM_H_

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace ring::ec_verbs {

struct FakeSystem {
  static FakeSystem& Get();
  void Reset();
  // Throws nothing, as no C library does.
  int Called(const char* name) {
    try {
      calls.push_back(name);
    } catch (const std::bad_alloc&) {
      return errno = ENOMEM;
    }
    return result;
  }

  ibv_device device;
  ibv_context context;
  ibv_pd pd;
  ibv_pd other_pd;
  ibv_qp qp;
  std::uint32_t next_key;
  int live_regions;
  int result;
  std::vector<std::string> calls;
};

}  // namespace ring::ec_verbs

#endif  // RING_TESTS_EC_OFFLOAD_VERBS_EXP_FAKE_SYSTEM_H_
