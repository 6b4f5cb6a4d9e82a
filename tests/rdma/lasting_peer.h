// tests/rdma/lasting_peer.h — a peer whose end of a connection lasts as long as the test wants.
//
// What:      LastingPeer connects to a device; when that side has dropped its queue pair, the peer
//            holds on (Device::PeerHoldsOn) until it makes progress or is gone.
// Ownership: its own device.
// Threads:   one, also the other device's.
// Errors:    end the test.
#ifndef RING_TESTS_RDMA_LASTING_PEER_H_
#define RING_TESTS_RDMA_LASTING_PEER_H_

#include <memory>
#include <string>

#include "rdma/soft/soft_device.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::testing {

struct LastingPeer {
  explicit LastingPeer(rdma::soft::CopyHook copy_hook = {}) {
    rdma::SoftDeviceOptions options;
    options.name = "peer";
    options.arena_size_max = std::uint64_t{64} << 20;
    options.copy_hook = copy_hook;
    device = *rdma::OpenSoftDevice(options);
    cq = *device->CreateCompletionQueue(64);
  }
  // Gives the other side's queue pair.
  std::unique_ptr<rdma::QueuePair> Connect(const std::string& address, rdma::Device* to,
                                           rdma::CompletionQueue* to_cq) {
    qp = *device->Connect(address, {.send_cq = cq.get(), .recv_cq = cq.get()}, "");
    std::unique_ptr<rdma::QueuePair> other;
    Await("the connection", [&] {
      device->Progress();
      to->Progress();
      rdma::ConnectionEvent event;
      if (other == nullptr && to->PollEvent(&event))
        other = *to->Accept(event.request, {.send_cq = to_cq, .recv_cq = to_cq}, "");
      return qp->state() == rdma::QpState::kReadyToSend;
    });
    return other;
  }
  std::unique_ptr<rdma::Device> device;
  std::unique_ptr<rdma::CompletionQueue> cq;
  std::unique_ptr<rdma::QueuePair> qp;
};

}  // namespace ring::testing

#endif  // RING_TESTS_RDMA_LASTING_PEER_H_
