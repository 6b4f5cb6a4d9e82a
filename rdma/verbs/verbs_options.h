// rdma/verbs/verbs_options.h — which RDMA card carries "rdma:" addresses.
//
// What:      VerbsOptions of a device. A device uses one card: the one that is named here, or the
//            one that its first address belongs to.
// Shape:     docs/RDMA.md says how to find the values.
// Threads:   thread-compatible.
// Errors:    of values that do not fit: see verbs_endpoint.h.
#ifndef RING_RDMA_VERBS_VERBS_OPTIONS_H_
#define RING_RDMA_VERBS_VERBS_OPTIONS_H_

#include <cstdint>
#include <string>

namespace ring::rdma {

struct VerbsOptions {
  std::string device;      // as "mlx5_0"; empty: the first address decides
  std::uint32_t port = 0;  // 0: the first one that is active
  int gid_index = -1;  // RoCE: whose address requests come from; -1: a RoCEv2 one with an address
};

}  // namespace ring::rdma

#endif  // RING_RDMA_VERBS_VERBS_OPTIONS_H_
