// rdma/verbs/verbs_endpoint.h — "rdma:HOST:PORT": connections over an RDMA card.
//
// What:      listens, connects, takes the card's completions and events, and registers the device's
//            memory. HOST is an address of the card; empty, to listen at the one that VerbsOptions
//            lead to.
// Shape:     one card a device, opened with the first address: what the device allocated until then
//            is registered in that call. Connections of other cards are refused.
// Units:     bytes, milliseconds.
// Threads:   the device's. Opening a card pins memory, and may take its time.
// Errors:    kFailedPrecondition (no card, no active port, a card of another address), kNotFound
//            (no such card, port or GID), kInvalidArgument (address), kAlreadyExists (in use),
//            kResourceExhausted (locked memory), kUnimplemented (built without libibverbs; iWARP).
//            What comes out only later is a rejection with the same text.
// Cost:      a turn in which nothing happens is one look at the completion queue.
// Source:    rdma_cm(7).
#ifndef RING_RDMA_VERBS_VERBS_ENDPOINT_H_
#define RING_RDMA_VERBS_VERBS_ENDPOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "rdma/soft/nic_endpoint.h"

namespace ring::rdma::soft {
class SoftDevice;
}  // namespace ring::rdma::soft

namespace ring::rdma::verbs {

absl::StatusOr<std::unique_ptr<soft::NicEndpoint>> MakeVerbsEndpoint(soft::SoftDevice* device);

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_VERBS_ENDPOINT_H_
