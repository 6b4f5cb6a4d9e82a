// tests/node/control/two_ports.h — two control ports and nobody else, driven by the test.
//
// What:      Nodes 0 and 1, each a port on a device of its own; node 0 connects.
// Ownership: owns devices and ports.
// Threads:   the test's.
// Errors:    those of devices and ports, unchanged.
#ifndef RING_TESTS_NODE_CONTROL_TWO_PORTS_H_
#define RING_TESTS_NODE_CONTROL_TWO_PORTS_H_

#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/base/status.h"
#include "ring/node/control/control_port.h"
#include "tests/support/await.h"

namespace ring::node::testing {

class TwoPorts {
 public:
  static constexpr std::uint64_t kStart = 9;  // of node 1

  explicit TwoPorts(std::array<std::uint64_t, 2> clusters = {0, 0},
                    std::array<std::uint32_t, 2> fences = {0, 0})
      : clusters_(clusters), fences_(fences) {}

  absl::Status Connect() {
    RING_RETURN_IF_ERROR(Open());
    ring::testing::Await("both ports", [&] {
      Progress();
      return ports_[0]->ready() && ports_[1]->ready();
    });
    return absl::OkStatus();
  }
  absl::Status Open() {
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < 2; ++i) {
      rdma::SoftDeviceOptions device;
      device.name = absl::StrCat("port", i);
      device.clock = &clock_;
      RING_ASSIGN_OR_RETURN(devices_[i], rdma::OpenSoftDevice(device));
      RING_ASSIGN_OR_RETURN(const std::string address, devices_[i]->Listen(absl::StrCat(
                                                           "local:two-ports-", getpid(), "-", i)));
      addresses.push_back(address);
      ControlPort::Options options;
      options.device = devices_[i].get();
      options.node = NodeId(i);
      options.incarnation = Incarnation(kStart - 1 + i);
      options.cluster = clusters_[i];
      options.fence = fences_[i];
      options.node_count = 2;
      RING_ASSIGN_OR_RETURN(ports_[i], ControlPort::Create(options));
    }
    ports_[0]->SetAddresses(addresses, {true, true});
    return absl::OkStatus();
  }
  void Progress() {
    for (std::size_t i = 0; i < 2; ++i) Progress(i);
  }
  void Progress(std::size_t i) {
    devices_[i]->Progress();
    for (rdma::ConnectionEvent event; devices_[i]->PollEvent(&event);) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
        ports_[i]->OnConnectRequest(event.request, event.private_data);
      } else {
        refused_ += event.kind == rdma::ConnectionEvent::Kind::kRejected ? 1 : 0;
        ports_[i]->OnEvent(event, clock_.NowNs());
      }
    }
    ports_[i]->Progress(clock_.NowNs());
  }
  ControlPort& port(std::size_t i) { return *ports_[i]; }
  rdma::Device& device(std::size_t i) { return *devices_[i]; }
  // How many connections were refused so far.
  int refused() const { return refused_; }

 private:
  BootClock clock_;
  std::array<std::uint64_t, 2> clusters_;
  std::array<std::uint32_t, 2> fences_;
  int refused_ = 0;
  std::array<std::unique_ptr<rdma::Device>, 2> devices_;
  std::array<std::unique_ptr<ControlPort>, 2> ports_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_CONTROL_TWO_PORTS_H_
