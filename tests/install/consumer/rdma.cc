// A program that uses the fabric alone: two devices, and a WRITE of one into the memory of the
// other.
#include <cstdio>
#include <cstring>
#include <memory>

#include "rdma/fabric.h"
#include "rdma/soft/soft_device.h"

namespace {

namespace rdma = ring::rdma;

constexpr std::size_t kSize = 4096;

struct Host {
  std::unique_ptr<rdma::Device> device;
  std::unique_ptr<rdma::CompletionQueue> queue;
  std::byte* memory = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region;
  std::unique_ptr<rdma::QueuePair> qp;

  bool Open() {
    auto opened = rdma::OpenSoftDevice({});
    if (!opened.ok()) return false;
    device = *std::move(opened);
    auto created = device->CreateCompletionQueue(64);
    auto allocated = device->Allocate(kSize, rdma::MemoryKind::kShared);
    if (!created.ok() || !allocated.ok()) return false;
    queue = *std::move(created);
    memory = *allocated;
    auto registered = device->Register(memory, kSize, rdma::kRemoteWrite);
    if (registered.ok()) region = *std::move(registered);
    return registered.ok();
  }
  rdma::QueuePairOptions options() const {
    return {.send_cq = queue.get(), .recv_cq = queue.get()};
  }
};

// True when a has a queue pair to b.
bool Connect(Host& a, Host& b) {
  const auto address = b.device->Listen("local:consumer");
  if (!address.ok()) return false;
  auto qp = a.device->Connect(*address, a.options(), "");
  if (!qp.ok()) return false;
  a.qp = *std::move(qp);
  rdma::ConnectionEvent event;
  for (int i = 0; i < 1000; ++i) {
    a.device->Progress();
    b.device->Progress();
    if (b.device->PollEvent(&event) && event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
      auto accepted = b.device->Accept(event.request, b.options(), "");
      if (!accepted.ok()) return false;
      b.qp = *std::move(accepted);
    }
    if (a.device->PollEvent(&event)) return event.kind == rdma::ConnectionEvent::Kind::kEstablished;
  }
  return false;
}

bool WriteHello(Host& a, const rdma::RemoteBuffer& to) {
  std::memcpy(a.memory, "hello", 6);
  const rdma::Sge sge{a.memory, 6, a.region->lkey()};
  rdma::WorkRequest write;
  write.opcode = rdma::Opcode::kWrite;
  write.sges = absl::MakeConstSpan(&sge, 1);
  write.remote_address = to.address;
  write.rkey = to.rkey;
  write.signaled = true;
  if (!a.qp->PostSend(write).ok()) return false;
  rdma::WorkCompletion done;
  for (int i = 0; i < 1000; ++i) {
    a.device->Progress();
    if (a.queue->Poll(absl::MakeSpan(&done, 1)) == 1)
      return done.status == rdma::WcStatus::kSuccess;
  }
  return false;
}

}  // namespace

int main() {
  Host a;
  Host b;
  const bool good = a.Open() && b.Open() && Connect(a, b) && WriteHello(a, b.region->remote()) &&
                    std::memcmp(b.memory, "hello", 6) == 0;
  std::puts(good ? "rdma: good" : "rdma: wrong");
  return good ? 0 : 1;
}
