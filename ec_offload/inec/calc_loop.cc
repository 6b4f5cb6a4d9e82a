#include "ec_offload/inec/calc_loop.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

using rdma::ConnectionEvent;

namespace {

constexpr absl::string_view kWordPrefix = "inec-calc-loop ";

// Loops of all devices of the process may listen at one address.
std::string FreshWord() {
  static std::atomic<std::uint64_t> counter{0};
  return absl::StrCat(kWordPrefix, counter.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CalcLoop>> CalcLoop::Create(rdma::Device* device,
                                                           std::string address,
                                                           std::uint32_t depth) {
  if (address.empty())
    return absl::InvalidArgumentError("calc loop without an address at which the device listens");
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::CompletionQueue> cq,
                        device->CreateCompletionQueue(std::size_t{depth} + 2));
  return std::unique_ptr<CalcLoop>(new CalcLoop(device, std::move(address), depth, std::move(cq)));
}

CalcLoop::CalcLoop(rdma::Device* device, std::string address, std::uint32_t depth,
                   std::unique_ptr<rdma::CompletionQueue> cq)
    : device_(device), address_(std::move(address)), depth_(depth), cq_(std::move(cq)) {}

void CalcLoop::Progress(std::uint64_t now_ns) {
  if (near_ != nullptr || now_ns < retry_ns_) return;
  retry_ns_ = now_ns + kRetryNs;
  word_ = FreshWord();
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp = device_->Connect(
      address_, {.send_cq = cq_.get(), .recv_cq = cq_.get(), .send_depth = depth_, .recv_depth = 1},
      word_);
  if (qp.ok()) near_ = *std::move(qp);  // what ran out may come back
}

void CalcLoop::Accept(std::uint64_t request) {
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp = device_->Accept(
      request, {.send_cq = cq_.get(), .recv_cq = cq_.get(), .send_depth = 1, .recv_depth = 1}, "");
  if (qp.ok()) {
    far_ = *std::move(qp);
  } else {
    device_->Reject(request, qp.status().message());
  }
}

bool CalcLoop::OnEvent(const ConnectionEvent& event) {
  if (event.kind == ConnectionEvent::Kind::kConnectRequest) {
    if (event.private_data != word_ || far_ != nullptr) return false;
    Accept(event.request);
    return true;
  }
  if (event.qp == nullptr || (event.qp != near_.get() && event.qp != far_.get())) return false;
  if (event.kind == ConnectionEvent::Kind::kEstablished) {
    ready_ |= event.qp == near_.get();
  } else if (ready_) {
    lost_ = true;
  } else {
    Break();
  }
  return true;
}

void CalcLoop::Reset() {
  if (near_ != nullptr) near_->Reset();
}

void CalcLoop::Break() {
  near_.reset();
  far_.reset();
  word_.clear();
  ready_ = lost_ = false;
}

}  // namespace ring::ec_offload
