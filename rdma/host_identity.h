// rdma/host_identity.h — which machine this is, as far as sharing memory goes.
//
// What:      HostIdentity: equal in two processes exactly if they run on one machine since its last
//            boot.
// Threads:   any; reads a file of the system.
// Errors:    empty if the system does not say.
#ifndef RING_RDMA_HOST_IDENTITY_H_
#define RING_RDMA_HOST_IDENTITY_H_

#include <string>

namespace ring::rdma {

std::string HostIdentity();

}  // namespace ring::rdma

#endif  // RING_RDMA_HOST_IDENTITY_H_
