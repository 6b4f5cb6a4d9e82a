#include "ec_offload/verbs_exp/soft_device.h"

#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/region_book.h"
#include "ec_offload/verbs_exp/soft_nic.h"
#include "ec_offload/verbs_exp/soft_queues.h"

namespace ring::ec_verbs {
namespace {

constexpr std::uint64_t kGuid = 0x52494e4700000001;
constexpr std::uint64_t kGidPrefix = 0xfe80000000000000;
constexpr std::uint16_t kPkey = 0xffff;

ibv_device MakeDevice() {
  ibv_device device = {};
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  const char* name = std::getenv(kSoftDeviceVariable);
  if (name == nullptr || *name == '\0') name = kSoftDeviceName;
  std::strncpy(device.name, name, sizeof(device.name) - 1);
  std::strncpy(device.dev_name, "ring_verbs", sizeof(device.dev_name) - 1);
  return device;
}

}  // namespace

ibv_device* SoftDevice() {
  static ibv_device device = MakeDevice();
  return &device;
}

bool SoftDeviceAsked() {
  const char* name = std::getenv(kSoftDeviceVariable);
  return name != nullptr && *name != '\0';
}

ibv_context* SoftOpen() {
  auto context = std::make_unique<ibv_context>();
  context->async_fd = eventfd(0, EFD_CLOEXEC);  // nothing ever comes
  if (context->async_fd < 0) return nullptr;
  context->device = SoftDevice();
  context->ops.poll_cq = NicPollCq;
  context->ops.req_notify_cq = NicRequestNotify;
  context->ops.post_send = NicPostSend;
  context->ops.post_recv = NicPostRecv;
  context->cmd_fd = -1;
  context->num_comp_vectors = 1;
  pthread_mutex_init(&context->mutex, nullptr);
  return context.release();
}

int SoftClose(ibv_context* context) {
  close(context->async_fd);
  pthread_mutex_destroy(&context->mutex);
  delete context;
  return 0;
}

void SoftWaitForEvents(ibv_context* context) {
  std::uint64_t never = 0;
  while (read(context->async_fd, &never, sizeof(never)) < 0 && errno == EINTR) {
  }
}

std::uint64_t SoftGuid() { return htobe64(kGuid); }

int SoftQueryDevice(ibv_device_attr* attr) {
  *attr = {};
  std::strncpy(attr->fw_ver, "ring", sizeof(attr->fw_ver) - 1);
  attr->node_guid = SoftGuid();
  attr->sys_image_guid = SoftGuid();
  attr->max_mr_size = std::numeric_limits<std::uint64_t>::max();
  attr->page_size_cap = 4096;
  attr->max_qp = kNicQpMax;
  attr->max_qp_wr = kNicDepthMax;
  attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN;
  attr->max_sge = kNicSgeMax;
  attr->max_sge_rd = kNicSgeMax;
  attr->max_cq = kNicQpMax;
  attr->max_cqe = kNicCqeMax;
  attr->max_mr = std::numeric_limits<int>::max();
  attr->max_pd = std::numeric_limits<int>::max();
  attr->max_qp_rd_atom = kNicRdAtomicMax;
  attr->max_res_rd_atom = kNicRdAtomicMax;
  attr->max_qp_init_rd_atom = kNicRdAtomicMax;
  attr->atomic_cap = IBV_ATOMIC_HCA;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = 1;
  return 0;
}

int SoftQueryPort(std::uint8_t port, void* attr, std::size_t size) {
  if (port != kNicPort) return EINVAL;
  ibv_port_attr full = {};
  full.state = IBV_PORT_ACTIVE;
  full.max_mtu = IBV_MTU_4096;
  full.active_mtu = IBV_MTU_4096;
  full.gid_tbl_len = 1;
  full.max_msg_sz = kNicMessageMax;
  full.pkey_tbl_len = 1;
  full.lid = kNicLid;
  full.sm_lid = kNicLid;
  full.max_vl_num = 1;
  full.active_width = 2;  // 4 lanes
  full.active_speed = 32;
  full.phys_state = 5;  // link up
  full.link_layer = IBV_LINK_LAYER_INFINIBAND;
  std::memcpy(attr, &full, std::min(size, sizeof(full)));
  return 0;
}

int SoftQueryGid(std::uint8_t port, int index, ibv_gid* gid) {
  if (port != kNicPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  gid->global.subnet_prefix = htobe64(kGidPrefix);
  gid->global.interface_id = SoftGuid();
  return 0;
}

int SoftQueryPkey(std::uint8_t port, int index, __be16* pkey) {
  if (port != kNicPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(kPkey);
  return 0;
}

ibv_pd* SoftAllocPd(ibv_context* context) {
  auto* pd = new ibv_pd();
  pd->context = context;
  return pd;
}

int SoftDeallocPd(ibv_pd* pd) {
  if (RegionBook::Get().HasAny(pd) || NicUses(pd)) return EBUSY;
  delete pd;
  return 0;
}

ibv_mr* SoftRegMr(ibv_pd* pd, void* address, std::size_t length, unsigned access) {
  static std::atomic<std::uint32_t> next_key{0x1000};
  // The whole address space, as with on-demand paging: pages are only touched when they are used.
  const bool whole = address == nullptr && length == std::numeric_limits<std::size_t>::max() &&
                     (access & IBV_ACCESS_ON_DEMAND) != 0;
  const auto from = reinterpret_cast<std::uint64_t>(address);
  const bool remote_change = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if ((!whole && (address == nullptr || length == 0 || from + length < from)) ||
      (remote_change && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    return Refused<ibv_mr>(EINVAL);
  }
  auto mr = std::make_unique<ibv_mr>();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = next_key.fetch_add(1);
  RegionBook::Get().Set(pd, mr->lkey, {from, length, access});
  return mr.release();
}

// A peer's request that was allowed to use the region is over when this returns: its owner may free
// the memory.
int SoftDeregMr(ibv_mr* mr) {
  {
    MutexLock lock(Nic::Get().mutex);
    RegionBook::Get().Remove(mr->pd, mr->lkey);
  }
  delete mr;
  return 0;
}

}  // namespace ring::ec_verbs
