#include "rdma/faulty/faulty_device.h"

#include "absl/strings/str_cat.h"
#include "rdma/faulty/faulty_queue_pair.h"
#include "ring/base/status.h"

namespace ring::rdma {
namespace {

QueuePairOptions Below(QueuePairOptions options) {
  options.send_cq = static_cast<FaultyCompletionQueue*>(options.send_cq)->below();
  options.recv_cq = static_cast<FaultyCompletionQueue*>(options.recv_cq)->below();
  return options;
}

}  // namespace

absl::Status FaultyDevice::Inject(const DeviceFault& fault) {
  RING_RETURN_IF_ERROR(CheckDeviceFault(fault));
  plan_.Add(fault);
  return absl::OkStatus();
}

absl::Status FaultyDevice::Refuses(DeviceFaultKind kind, absl::string_view what) {
  if (!plan_.armed() || !plan_.Takes(kind)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " is refused: fault ", DeviceFaultName(kind), " was injected"));
}

absl::StatusOr<std::byte*> FaultyDevice::Allocate(std::size_t size, MemoryKind kind) {
  RING_RETURN_IF_ERROR(Refuses(DeviceFaultKind::kNoMemory, absl::StrCat("memory of size=", size)));
  return below()->Allocate(size, kind);
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> FaultyDevice::Register(std::byte* address,
                                                                     std::size_t length,
                                                                     std::uint32_t access) {
  RING_RETURN_IF_ERROR(
      Refuses(DeviceFaultKind::kNoMemory, absl::StrCat("a memory region of length=", length)));
  return below()->Register(address, length, access);
}

absl::StatusOr<std::unique_ptr<CompletionQueue>> FaultyDevice::CreateCompletionQueue(
    std::size_t depth) {
  RING_RETURN_IF_ERROR(
      Refuses(DeviceFaultKind::kNoQueuePair, absl::StrCat("a completion queue of depth=", depth)));
  RING_ASSIGN_OR_RETURN(std::unique_ptr<CompletionQueue> cq, below()->CreateCompletionQueue(depth));
  return std::make_unique<FaultyCompletionQueue>(&plan_, std::move(cq));
}

std::unique_ptr<QueuePair> FaultyDevice::Wrap(std::unique_ptr<QueuePair> qp,
                                              const QueuePairOptions& options,
                                              absl::string_view address) {
  return std::make_unique<FaultyQueuePair>(
      &plan_, below(), std::move(qp), static_cast<FaultyCompletionQueue*>(options.send_cq),
      static_cast<FaultyCompletionQueue*>(options.recv_cq), std::string(address));
}

absl::StatusOr<std::unique_ptr<QueuePair>> FaultyDevice::Connect(absl::string_view address,
                                                                 const QueuePairOptions& options,
                                                                 absl::string_view private_data) {
  RING_RETURN_IF_ERROR(
      Refuses(DeviceFaultKind::kNoQueuePair, absl::StrCat("a queue pair to ", address)));
  if (plan_.Stops(address)) {
    return absl::UnavailableError(
        absl::StrCat("address=", address, " is cut off: the fault was injected"));
  }
  RING_ASSIGN_OR_RETURN(std::unique_ptr<QueuePair> qp,
                        below()->Connect(address, Below(options), private_data));
  return Wrap(std::move(qp), options, address);
}

absl::StatusOr<std::unique_ptr<QueuePair>> FaultyDevice::Accept(std::uint64_t request,
                                                                const QueuePairOptions& options,
                                                                absl::string_view private_data) {
  RING_RETURN_IF_ERROR(
      Refuses(DeviceFaultKind::kNoQueuePair, absl::StrCat("a queue pair for request=", request)));
  RING_ASSIGN_OR_RETURN(std::unique_ptr<QueuePair> qp,
                        below()->Accept(request, Below(options), private_data));
  return Wrap(std::move(qp), options, "");
}

bool FaultyDevice::PollEvent(ConnectionEvent* event) {
  if (!below()->PollEvent(event)) return false;
  if (event->qp != nullptr) event->qp = static_cast<FaultyQueuePair*>(event->qp->context());
  return true;
}

}  // namespace ring::rdma
