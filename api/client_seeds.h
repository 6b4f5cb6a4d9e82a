// api/client_seeds.h — the addresses a client starts from, and which link to a node to take.
//
// What:      ParseSeeds; ResolveSeed; TransportOf an address; HasSeed; NodeAddresses, best first.
// Ownership: values.
// Threads:   any; pure but for ResolveSeed, which may wait for the system's resolver.
// Errors:    kInvalidArgument naming the seed and what is wrong with it; ResolveSeed: as
//            ResolveHostPort (ring/base/host_port.h).
#ifndef RING_API_CLIENT_SEEDS_H_
#define RING_API_CLIENT_SEEDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/client.h"
#include "ring/cluster/view.h"

namespace ring::api {

// Full addresses ("tcp:HOST:PORT", ...), in order, each once.
absl::StatusOr<std::vector<std::string>> ParseSeeds(absl::Span<const std::string> seeds);

// Puts a number in the place of the name of a tcp or rdma seed's host: devices connect to numbers
// alone. A seed that has one stays, and nobody is asked.
absl::Status ResolveSeed(std::string* seed);

// REQUIRES: an address that ParseSeeds gave or that a view holds.
Transport TransportOf(absl::string_view address);

// Whether one of the seeds, as ParseSeeds gave them, is of this transport.
bool HasSeed(absl::Span<const std::string> seeds, Transport transport);

// Where to try to reach a node, best first. host: rdma::HostIdentity() of this one. rdma: kAuto may
// take that, too; a host without a device is told at once, and goes on with the next.
std::vector<std::string> NodeAddresses(const cluster::NodeInfo& node, Transport transport,
                                       absl::string_view host, bool rdma);

}  // namespace ring::api

#endif  // RING_API_CLIENT_SEEDS_H_
