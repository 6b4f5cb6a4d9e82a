// ec_offload/verbs_exp/soft_device.h — a verbs device that is no hardware, for programs in verbs.
//
// What:      The calls of libibverbs for one software device: contexts, protection domains, memory
//            regions, attributes. Its queues are soft_nic.h. verbs_entry.cc sends a call here when
//            its object is of this device, and to the real libibverbs otherwise.
// Ownership: as in verbs: what a call made, its opposite frees.
// Threads:   any.
// Errors:    as the manual pages of rdma-core say: null and errno, or an errno. SoftOpen,
//            SoftAllocPd and SoftRegMr throw std::bad_alloc, and have done nothing then.
// Source:    ibv_open_device(3), ibv_alloc_pd(3), ibv_reg_mr(3), ibv_query_port(3).
#ifndef RING_EC_OFFLOAD_VERBS_EXP_SOFT_DEVICE_H_
#define RING_EC_OFFLOAD_VERBS_EXP_SOFT_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace ring::ec_verbs {

// Its name: this variable of the environment, or kSoftDeviceName. When the variable is set the
// device is there, and first in the list, also beside real ones.
inline constexpr char kSoftDeviceVariable[] = "RING_VERBS_DEVICE_NAME";
inline constexpr char kSoftDeviceName[] = "ring0";

ibv_device* SoftDevice();
bool SoftDeviceAsked();
inline bool IsSoft(const ibv_device* device) { return device == SoftDevice(); }
inline bool IsSoft(const ibv_context* context) {
  return context != nullptr && IsSoft(context->device);
}

ibv_context* SoftOpen();
int SoftClose(ibv_context* context);
// Blocks, as no event ever comes; returns when async_fd is non-blocking.
void SoftWaitForEvents(ibv_context* context);
std::uint64_t SoftGuid();  // in network order

int SoftQueryDevice(ibv_device_attr* attr);
// Writes the first `size` bytes of the attributes.
int SoftQueryPort(std::uint8_t port, void* attr, std::size_t size);
int SoftQueryGid(std::uint8_t port, int index, ibv_gid* gid);
int SoftQueryPkey(std::uint8_t port, int index, __be16* pkey);

ibv_pd* SoftAllocPd(ibv_context* context);
int SoftDeallocPd(ibv_pd* pd);
ibv_mr* SoftRegMr(ibv_pd* pd, void* address, std::size_t length, unsigned access);
int SoftDeregMr(ibv_mr* mr);

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_SOFT_DEVICE_H_
