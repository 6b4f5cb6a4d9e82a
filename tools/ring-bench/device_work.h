// tools/ring-bench/device_work.h — what the nodes' devices did for an operation.
//
// What:      WorkRow: a row of what was posted and polled over whatever link, and of what an RDMA
//            card was asked for. Difference: of two counts.
// Shape:     counts of all nodes' devices, not of the clients'. What is made (registrations, queue
//            pairs) is a number, since on the path of an operation nothing is.
// Threads:   any.
// Errors:    none.
#ifndef RING_TOOLS_RING_BENCH_DEVICE_WORK_H_
#define RING_TOOLS_RING_BENCH_DEVICE_WORK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "rdma/fabric.h"
#include "tools/ring-bench/report.h"

namespace ring::bench {

rdma::DeviceCounters Difference(const rdma::DeviceCounters& after,
                                const rdma::DeviceCounters& before);

// count / of, to three digits behind the point.
double Per(std::uint64_t count, std::uint64_t of);

Row WorkRow(absl::string_view memgest, absl::string_view op, const rdma::DeviceCounters& calls,
            std::uint64_t operations);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_DEVICE_WORK_H_
