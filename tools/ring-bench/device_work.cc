#include "tools/ring-bench/device_work.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ring::bench {

rdma::DeviceCounters Difference(const rdma::DeviceCounters& after,
                                const rdma::DeviceCounters& before) {
  rdma::DeviceCounters difference;
  for (const auto& [name, member] : rdma::kDeviceCounters)
    difference.*member = after.*member - before.*member;
  return difference;
}

double Per(std::uint64_t count, std::uint64_t of) {
  const double ratio =
      static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(of, 1));
  return std::round(ratio * 1e3) / 1e3;
}

Row WorkRow(absl::string_view memgest, absl::string_view op, const rdma::DeviceCounters& calls,
            std::uint64_t operations) {
  Row row;
  row["memgest"] = std::string(memgest);
  row["op"] = std::string(op);
  row["chains"] = Per(calls.chains, operations);
  row["requests"] = Per(calls.requests, operations);
  row["bytes"] = std::round(Per(calls.request_bytes, operations));
  row["completions"] = Per(calls.completions, operations);
  row["card requests"] = Per(calls.card_requests, operations);
  row["doorbells"] = Per(calls.card_doorbells, operations);
  row["card receives"] = Per(calls.card_receives, operations);
  row["card completions"] = Per(calls.card_completions, operations);
  row["registrations made"] = calls.card_registrations;
  row["queue pairs made"] = calls.card_queue_pairs;
  return row;
}

}  // namespace ring::bench
