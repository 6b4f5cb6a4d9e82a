// rdma/soft/local_endpoint.h — "local:NAME": connections between devices of one process.
//
// What:      listeners register their name with the process; devices talk through inboxes while a
//            connection is made or ended. The data path is MappedLink on the peer's own mapping.
// Threads:   devices may belong to different threads; the registry and the inboxes are locked.
// Errors:    kAlreadyExists when the name is taken.
#ifndef RING_RDMA_SOFT_LOCAL_ENDPOINT_H_
#define RING_RDMA_SOFT_LOCAL_ENDPOINT_H_

#include <memory>

#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class SoftDevice;

std::unique_ptr<Endpoint> MakeLocalEndpoint(SoftDevice* device);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_LOCAL_ENDPOINT_H_
