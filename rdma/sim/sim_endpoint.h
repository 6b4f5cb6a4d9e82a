// rdma/sim/sim_endpoint.h — where a device's connections of the simulated fabric come from.
//
// What:      SimEndpoint listens and connects by name; any address is just a name.
// Ownership: its device's.
// Threads:   one.
// Errors:    kAlreadyExists when the name is taken or empty.
#ifndef RING_RDMA_SIM_SIM_ENDPOINT_H_
#define RING_RDMA_SIM_SIM_ENDPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "rdma/sim/sim_connection.h"
#include "rdma/sim/sim_network.h"
#include "rdma/soft/endpoint.h"

namespace ring::rdma::sim {

class SimEndpoint final : public soft::Endpoint {
 public:
  SimEndpoint(SimNetwork* network, HostId host, soft::SoftDevice* device)
      : network_(network), host_(host), device_(device) {}
  ~SimEndpoint() override;

  bool mapped() const override { return false; }
  absl::StatusOr<std::string> Listen(absl::string_view address) override;
  absl::Status Connect(absl::string_view address, soft::SoftQueuePair* qp,
                       absl::string_view private_data) override;
  bool Progress() override { return false; }

  // A connection that arrived.
  void OnConnect(const std::shared_ptr<SimConnection>& connection, std::string private_data);
  soft::SoftDevice* device() const { return device_; }
  HostId host() const { return host_; }

 private:
  SimNetwork* network_;
  HostId host_;
  soft::SoftDevice* device_;
  std::vector<std::string> names_;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_SIM_ENDPOINT_H_
