// rdma/verbs/gid.h — by which of its addresses a card takes part.
//
// What:      ChooseGid picks an entry of a port's GID table; GidAddress is the IP address that a
//            RoCE entry stands for.
// Threads:   any: pure functions.
// Errors:    kNotFound (no such entry), kFailedPrecondition (none has an address), each naming what
//            is there.
#ifndef RING_RDMA_VERBS_GID_H_
#define RING_RDMA_VERBS_GID_H_

#include <infiniband/verbs.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ring::rdma::verbs {

// "10.0.0.1", "fd00::1".
std::string GidAddress(const ibv_gid& gid);

// wanted_index: VerbsOptions::gid_index. Without one: RoCEv2 before RoCEv1, an IPv4 address before
// IPv6, and never one that is good for a single wire (fe80::), since it needs an interface's name.
absl::StatusOr<ibv_gid_entry> ChooseGid(absl::Span<const ibv_gid_entry> entries, int wanted_index,
                                        absl::string_view device);

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_GID_H_
