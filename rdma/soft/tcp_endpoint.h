// rdma/soft/tcp_endpoint.h — "tcp:HOST:PORT": connections between hosts.
//
// What:      listens, connects, and drives the connections. HOST is an address, no name, "[...]"
//            around IPv6: looking names up may block.
// Shape:     limits as for "shm:" (SoftDeviceOptions).
// Threads:   the device's.
// Errors:    kInvalidArgument (address), kAlreadyExists (port in use).
#ifndef RING_RDMA_SOFT_TCP_ENDPOINT_H_
#define RING_RDMA_SOFT_TCP_ENDPOINT_H_

#include <memory>

#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class SoftDevice;

std::unique_ptr<Endpoint> MakeTcpEndpoint(SoftDevice* device);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_TCP_ENDPOINT_H_
