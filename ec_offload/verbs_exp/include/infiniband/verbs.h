// ec_offload/verbs_exp/include/infiniband/verbs.h — rdma-core's verbs.h, and verbs_exp.h after it.
//
// What:      MLNX_OFED's verbs.h ends by including verbs_exp.h, so programs written for it name
//            verbs.h alone. This file stands before rdma-core's on the include path.
// Threads:   none.
// Errors:    none.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_H_
#define RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_H_

#pragma GCC system_header

#include_next <infiniband/verbs.h>

#include <infiniband/verbs_exp.h>

#endif  // RING_EC_OFFLOAD_VERBS_EXP_INCLUDE_INFINIBAND_VERBS_H_
