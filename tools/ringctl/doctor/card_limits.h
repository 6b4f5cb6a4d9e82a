// tools/ringctl/doctor/card_limits.h — what files do not tell of an RDMA device.
//
// What:      ReadLimits asks libibverbs for the limits of devices, and for their ports' MTU.
// Threads:   any.
// Errors:    none: what cannot be asked is said in RdmaDevice::limits_error.
// Cost:      a device is opened and closed: some milliseconds.
// Source:    ibv_query_device(3), ibv_query_port(3).
#ifndef RING_TOOLS_RINGCTL_DOCTOR_CARD_LIMITS_H_
#define RING_TOOLS_RINGCTL_DOCTOR_CARD_LIMITS_H_

#include <vector>

#include "tools/ringctl/doctor/rdma_view.h"

namespace ring::tools {

void ReadLimits(std::vector<RdmaDevice>* devices);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_CARD_LIMITS_H_
