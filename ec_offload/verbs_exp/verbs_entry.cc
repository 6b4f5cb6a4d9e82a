// The exported calls of libibverbs that take a device, a context or what is made from one: to the
// software device when the object is its, to the system's libibverbs otherwise. Memory regions are
// in memory_entry.cc, what the software device does not have in refused_entry.cc.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/calc.h"
#include "ec_offload/verbs_exp/real_verbs.h"
#include "ec_offload/verbs_exp/soft_device.h"
#include "ec_offload/verbs_exp/soft_nic.h"

// rdma-core has a macro over it.
#undef ibv_query_port

using ring::ec_verbs::CallReal;
using ring::ec_verbs::IsSoft;
using ring::ec_verbs::OrNoMemory;
using ring::ec_verbs::Refused;

namespace {

// What ibv_get_device_list gives: the program sees `devices`, ibv_free_device_list finds the rest.
struct DeviceList {
  ibv_device** real;       // the system's list, which keeps its devices
  ibv_device* devices[1];  // the first of them, and null behind the last
};

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  int real_count = 0;
  ibv_device** real = nullptr;
  if (const auto get = RING_REAL(ibv_get_device_list); get != nullptr) real = get(&real_count);
  if (real == nullptr) real_count = 0;
  const bool soft = real_count == 0 || ring::ec_verbs::SoftDeviceAsked();
  const auto count = static_cast<std::size_t>(real_count) + (soft ? 1 : 0);
  auto* list =
      static_cast<DeviceList*>(std::calloc(1, sizeof(DeviceList) + count * sizeof(ibv_device*)));
  if (list == nullptr) {
    if (real != nullptr) RING_REAL(ibv_free_device_list)(real);
    return Refused<ibv_device*>(ENOMEM);
  }
  list->real = real;
  ibv_device** next = list->devices;
  if (soft) *next++ = ring::ec_verbs::SoftDevice();
  for (int i = 0; i < real_count; ++i) *next++ = real[i];
  if (num_devices != nullptr) *num_devices = static_cast<int>(count);
  return list->devices;
}

void ibv_free_device_list(ibv_device** devices) {
  if (devices == nullptr) return;
  auto* const list = reinterpret_cast<DeviceList*>(reinterpret_cast<char*>(devices) -
                                                   offsetof(DeviceList, devices));
  if (list->real != nullptr) RING_REAL(ibv_free_device_list)(list->real);
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(ibv_device* device) {
  if (IsSoft(device)) return ring::ec_verbs::SoftGuid();
  return RING_REAL(ibv_get_device_guid)(device);
}

int ibv_get_device_index(ibv_device* device) {
  const auto real = RING_REAL(ibv_get_device_index);
  return IsSoft(device) || real == nullptr ? -1 : real(device);
}

ibv_context* ibv_open_device(ibv_device* device) {
  if (device == nullptr) return Refused<ibv_context>(EINVAL);
  if (IsSoft(device)) {
    return OrNoMemory<ibv_context*>(nullptr, [] { return ring::ec_verbs::SoftOpen(); });
  }
  return RING_REAL(ibv_open_device)(device);
}

// Null is refused: a test program of the EC library closes what it failed to open.
int ibv_close_device(ibv_context* context) {
  if (context == nullptr) return EINVAL;
  if (IsSoft(context)) return ring::ec_verbs::SoftClose(context);
  return RING_REAL(ibv_close_device)(context);
}

// A program that waits for asynchronous events of the software device waits until it is closed.
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!IsSoft(context)) return RING_REAL(ibv_get_async_event)(context, event);
  ring::ec_verbs::SoftWaitForEvents(context);
  return -1;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (IsSoft(context)) return ring::ec_verbs::SoftQueryDevice(attr);
  return RING_REAL(ibv_query_device)(context, attr);
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  // The fields of old; a program that knows the later ones has set them to 0 itself.
  constexpr std::size_t kSize = offsetof(ibv_port_attr, port_cap_flags2);
  if (IsSoft(context)) return ring::ec_verbs::SoftQueryPort(port, attr, kSize);
  return RING_REAL(ibv_query_port)(context, port, attr);
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (IsSoft(context)) return ring::ec_verbs::SoftQueryGid(port, index, gid);
  return RING_REAL(ibv_query_gid)(context, port, index, gid);
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  if (!IsSoft(context)) {
    return RING_REAL(_ibv_query_gid_ex)(context, port, index, entry, flags, entry_size);
  }
  ibv_gid_entry full = {};
  full.port_num = ring::ec_verbs::kNicPort;
  full.gid_type = IBV_GID_TYPE_IB;
  const bool known = port == full.port_num && index == 0 && flags == 0;
  if (!known) return port == full.port_num && flags == 0 ? ENODATA : EINVAL;
  ring::ec_verbs::SoftQueryGid(ring::ec_verbs::kNicPort, 0, &full.gid);
  std::memcpy(entry, &full, entry_size < sizeof(full) ? entry_size : sizeof(full));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t count_max,
                             std::uint32_t flags, std::size_t entry_size) {
  if (!IsSoft(context)) {
    return RING_REAL(_ibv_query_gid_table)(context, entries, count_max, flags, entry_size);
  }
  if (count_max < 1) return -EINVAL;
  const int error =
      _ibv_query_gid_ex(context, ring::ec_verbs::kNicPort, 0, entries, flags, entry_size);
  return error == 0 ? 1 : -error;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  if (IsSoft(context)) return ring::ec_verbs::SoftQueryPkey(port, index, pkey);
  return RING_REAL(ibv_query_pkey)(context, port, index, pkey);
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (!IsSoft(context)) return RING_REAL(ibv_get_pkey_index)(context, port, pkey);
  __be16 own = 0;
  if (ring::ec_verbs::SoftQueryPkey(port, 0, &own) != 0) return -1;
  if (own == pkey) return 0;
  errno = EINVAL;
  return -1;
}

// A completion of the software device has no global header.
int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attr) {
  if (!IsSoft(context)) return RING_REAL(ibv_init_ah_from_wc)(context, port, wc, grh, attr);
  if (port != ring::ec_verbs::kNicPort || (wc->wc_flags & IBV_WC_GRH) != 0) {
    errno = EINVAL;
    return -1;
  }
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (context == nullptr) return Refused<ibv_pd>(EINVAL);
  if (IsSoft(context)) {
    return OrNoMemory<ibv_pd*>(nullptr, [&] { return ring::ec_verbs::SoftAllocPd(context); });
  }
  return RING_REAL(ibv_alloc_pd)(context);
}

// On any device: a context calculates in it.
int ibv_dealloc_pd(ibv_pd* pd) {
  if (ring::ec_verbs::Calc::AnyOf(pd)) return EBUSY;
  if (IsSoft(pd->context)) return ring::ec_verbs::SoftDeallocPd(pd);
  return RING_REAL(ibv_dealloc_pd)(pd);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (IsSoft(context)) {
    return OrNoMemory<ibv_comp_channel*>(nullptr,
                                         [&] { return ring::ec_verbs::NicCreateChannel(context); });
  }
  return RING_REAL(ibv_create_comp_channel)(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (IsSoft(channel->context)) return ring::ec_verbs::NicDestroyChannel(channel);
  return RING_REAL(ibv_destroy_comp_channel)(channel);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (IsSoft(channel->context)) return ring::ec_verbs::NicGetCqEvent(channel, cq, cq_context);
  return RING_REAL(ibv_get_cq_event)(channel, cq, cq_context);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  if (IsSoft(cq->context)) {
    ring::ec_verbs::NicAckCqEvents(cq, count);
  } else {
    RING_REAL(ibv_ack_cq_events)(cq, count);
  }
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  if (!IsSoft(context)) {
    return RING_REAL(ibv_create_cq)(context, cqe, cq_context, channel, comp_vector);
  }
  if (comp_vector < 0 || comp_vector >= context->num_comp_vectors) return Refused<ibv_cq>(EINVAL);
  return OrNoMemory<ibv_cq*>(
      nullptr, [&] { return ring::ec_verbs::NicCreateCq(context, cqe, cq_context, channel); });
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (IsSoft(cq->context)) {
    return OrNoMemory(ENOMEM, [&] { return ring::ec_verbs::NicResizeCq(cq, cqe); });
  }
  return RING_REAL(ibv_resize_cq)(cq, cqe);
}

int ibv_destroy_cq(ibv_cq* cq) {
  if (IsSoft(cq->context)) return ring::ec_verbs::NicDestroyCq(cq);
  return RING_REAL(ibv_destroy_cq)(cq);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (IsSoft(pd->context)) {
    return OrNoMemory<ibv_qp*>(nullptr, [&] { return ring::ec_verbs::NicCreateQp(pd, attr); });
  }
  return RING_REAL(ibv_create_qp)(pd, attr);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (IsSoft(qp->context)) return ring::ec_verbs::NicModifyQp(qp, *attr, mask);
  return RING_REAL(ibv_modify_qp)(qp, attr, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
  if (IsSoft(qp->context)) return ring::ec_verbs::NicQueryQp(qp, attr, init_attr);
  return RING_REAL(ibv_query_qp)(qp, attr, mask, init_attr);
}

int ibv_destroy_qp(ibv_qp* qp) {
  if (IsSoft(qp->context)) return ring::ec_verbs::NicDestroyQp(qp);
  return RING_REAL(ibv_destroy_qp)(qp);
}

// Requests of the software device are carried out by copies, in an order that nothing promises.
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  if (IsSoft(qp->context)) return 0;
  return CallReal(RING_REAL(ibv_query_qp_data_in_order), 0, qp, opcode, flags);
}

}  // extern "C"
