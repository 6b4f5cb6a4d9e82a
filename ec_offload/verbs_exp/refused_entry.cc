// The exported calls of libibverbs for what the software device does not have: refused for its
// objects as the manual pages have it, handed on to the system's libibverbs for others.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>

#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/real_verbs.h"
#include "ec_offload/verbs_exp/soft_device.h"

using ring::ec_verbs::CallReal;
using ring::ec_verbs::IsSoft;
using ring::ec_verbs::Refused;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (IsSoft(pd->context)) return Refused<ibv_srq>(EOPNOTSUPP);
  return RING_REAL(ibv_create_srq)(pd, attr);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (IsSoft(pd->context)) return Refused<ibv_ah>(EOPNOTSUPP);
  return RING_REAL(ibv_create_ah)(pd, attr);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  if (IsSoft(pd->context)) return Refused<ibv_ah>(EOPNOTSUPP);
  return RING_REAL(ibv_create_ah_from_wc)(pd, wc, grh, port);
}

// Its port is InfiniBand's: nothing there has an Ethernet address.
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                std::uint8_t mac[ETHERNET_LL_SIZE], std::uint16_t* vid) {
  if (!IsSoft(context)) return RING_REAL(ibv_resolve_eth_l2_from_gid)(context, attr, mac, vid);
  errno = EOPNOTSUPP;
  return -EOPNOTSUPP;
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (IsSoft(qp->context)) return EOPNOTSUPP;
  return RING_REAL(ibv_attach_mcast)(qp, gid, lid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (IsSoft(qp->context)) return EOPNOTSUPP;
  return RING_REAL(ibv_detach_mcast)(qp, gid, lid);
}

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (IsSoft(qp->context)) return EOPNOTSUPP;
  return CallReal(RING_REAL(ibv_query_ece), EOPNOTSUPP, qp, ece);
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (IsSoft(qp->context)) return EOPNOTSUPP;
  return CallReal(RING_REAL(ibv_set_ece), EOPNOTSUPP, qp, ece);
}

// The extended interface is there only where ibv_create_qp_ex asked for it.
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (IsSoft(qp->context)) return nullptr;
  return CallReal<ibv_qp_ex*>(RING_REAL(ibv_qp_to_qp_ex), nullptr, qp);
}

// The kernel knows nothing of the software device's objects: there is no handle to import one by.
ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  if (IsSoft(context)) return Refused<ibv_pd>(EOPNOTSUPP);
  return CallReal<ibv_pd*>(RING_REAL(ibv_import_pd), nullptr, context, handle);
}

void ibv_unimport_pd(ibv_pd* pd) {
  const auto real = RING_REAL(ibv_unimport_pd);
  if (IsSoft(pd->context) || real == nullptr) {
    errno = EOPNOTSUPP;
  } else {
    real(pd);
  }
}

ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  if (IsSoft(context)) return Refused<ibv_dm>(EOPNOTSUPP);
  return CallReal<ibv_dm*>(RING_REAL(ibv_import_dm), nullptr, context, handle);
}

}  // extern "C"
