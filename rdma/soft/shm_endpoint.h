// rdma/soft/shm_endpoint.h — "shm:PATH": connections between processes of one host.
//
// What:      a unix socket at PATH for the handshake (shm_wire.h). The data path is MappedLink on
//            the peer's memfd. The socket stays open: its end of file means that the peer let go of
//            our mailbox, or died.
// Shape:     a connection without a valid hello is closed after hello_timeout_ms; at most
//            hello_count_max of those and connection_count_max in all; others are refused with a
//            reason. One that a queue pair asked for and that its peer has not answered
//            ends with the queue pair.
// Threads:   the device's.
// Errors:    kFailedPrecondition when the device is not shareable.
#ifndef RING_RDMA_SOFT_SHM_ENDPOINT_H_
#define RING_RDMA_SOFT_SHM_ENDPOINT_H_

#include <memory>

#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class SoftDevice;

std::unique_ptr<Endpoint> MakeShmEndpoint(SoftDevice* device);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SHM_ENDPOINT_H_
