// The part of SoftDevice that makes, answers and ends connections.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rdma/soft/completion_queue.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/shm_endpoint.h"
#include "rdma/soft/tcp_endpoint.h"
#include "rdma/verbs/verbs_endpoint.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

absl::Status CheckPrivateData(absl::string_view private_data) {
  if (private_data.size() <= kPrivateDataSizeMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("private data size=", private_data.size(), " exceeds ", kPrivateDataSizeMax));
}

}  // namespace

absl::StatusOr<Endpoint*> SoftDevice::EndpointOf(absl::string_view* address) {
  BindThread();
  if (options_.attachment != nullptr) return local_.get();
  const absl::string_view whole = *address;
  if (absl::ConsumePrefix(address, "local:")) return local_.get();
  if (absl::ConsumePrefix(address, "shm:")) {
    if (!options_.shareable) {
      return absl::FailedPreconditionError(absl::StrCat("device ", options_.name,
                                                        " cannot use address=", whole,
                                                        ": open it with shareable=true"));
    }
    if (shm_ == nullptr) shm_ = MakeShmEndpoint(this);
    return shm_.get();
  }
  if (absl::ConsumePrefix(address, "tcp:")) {
    if (tcp_ == nullptr) {
      if (options_.tcp_uring) OpenUring();
      tcp_ = MakeTcpEndpoint(this);
    }
    return tcp_.get();
  }
  if (absl::ConsumePrefix(address, "rdma:")) {
    if (verbs_ == nullptr) {
      RING_ASSIGN_OR_RETURN(verbs_, verbs::MakeVerbsEndpoint(this));
      regions_.set_watcher(verbs_.get());
    }
    return verbs_.get();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "address=", whole, ": give local:NAME, shm:PATH, tcp:HOST:PORT or rdma:HOST:PORT"));
}

absl::StatusOr<std::string> SoftDevice::Listen(absl::string_view address) {
  RING_ASSIGN_OR_RETURN(Endpoint * endpoint, EndpointOf(&address));
  return endpoint->Listen(address);
}

absl::StatusOr<std::unique_ptr<SoftQueuePair>> SoftDevice::MakeQueuePair(
    const QueuePairOptions& options, bool mapped) {
  if (options.send_cq == nullptr || options.recv_cq == nullptr || options.send_depth == 0 ||
      options.recv_depth == 0 || options.recv_depth > options_.recv_depth_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "queue pair needs two completion queues, send_depth=", options.send_depth,
        " > 0 and recv_depth=", options.recv_depth, " in [1, ", options_.recv_depth_max, "]"));
  }
  MailboxName name;
  name.depth = options.recv_depth;
  name.cq_cell = static_cast<SoftCompletionQueue*>(options.recv_cq)->cell_index();
  RING_ASSIGN_OR_RETURN(const MailboxPool::Name taken, mailboxes_.Take());
  name.index = taken.index;
  name.key = taken.key;
  // Its mailbox's key is a queue pair's number.
  auto qp = std::make_unique<SoftQueuePair>(this, options, name.key, name, mapped);
  queue_pairs_[qp->number()] = qp.get();
  return qp;
}

void SoftDevice::Forget(SoftQueuePair* qp) {
  queue_pairs_.erase(qp->number());
  RemoveDeferred(qp);
  mailboxes_.Release({qp->mailbox_name().index, qp->mailbox_name().key});
  for (auto it = events_.begin(); it != events_.end();) {
    it = it->qp == qp ? events_.erase(it) : it + 1;
  }
}

SoftQueuePair* SoftDevice::FindQueuePair(std::uint32_t number) const {
  const auto it = queue_pairs_.find(number);
  return it == queue_pairs_.end() ? nullptr : it->second;
}

absl::StatusOr<std::unique_ptr<QueuePair>> SoftDevice::Connect(absl::string_view address,
                                                               const QueuePairOptions& options,
                                                               absl::string_view private_data) {
  RING_RETURN_IF_ERROR(CheckPrivateData(private_data));
  RING_ASSIGN_OR_RETURN(Endpoint * endpoint, EndpointOf(&address));
  RING_ASSIGN_OR_RETURN(std::unique_ptr<SoftQueuePair> qp,
                        MakeQueuePair(options, endpoint->mapped()));
  RING_RETURN_IF_ERROR(endpoint->Connect(address, qp.get(), private_data));
  return qp;
}

absl::StatusOr<std::unique_ptr<QueuePair>> SoftDevice::Accept(std::uint64_t request,
                                                              const QueuePairOptions& options,
                                                              absl::string_view private_data) {
  RING_RETURN_IF_ERROR(CheckPrivateData(private_data));
  const auto it = requests_.find(request);
  if (it == requests_.end()) {
    return absl::NotFoundError(
        absl::StrCat("connection request=", request, " is not there, or the peer gave up"));
  }
  BindThread();
  // A queue pair that cannot be made leaves the request open, to be rejected.
  RING_ASSIGN_OR_RETURN(std::unique_ptr<SoftQueuePair> qp,
                        MakeQueuePair(options, it->second->mapped()));
  const std::unique_ptr<PendingRequest> pending = std::move(it->second);
  requests_.erase(it);
  RING_RETURN_IF_ERROR(pending->Accept(qp.get(), private_data));
  return qp;
}

void SoftDevice::Reject(std::uint64_t request, absl::string_view private_data) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  it->second->Reject(private_data.substr(0, kPrivateDataSizeMax));
  requests_.erase(it);
}

std::uint64_t SoftDevice::AddRequest(std::unique_ptr<PendingRequest> request,
                                     std::string private_data) {
  const std::uint64_t id = next_request_++;
  requests_[id] = std::move(request);
  ConnectionEvent event;
  event.kind = ConnectionEvent::Kind::kConnectRequest;
  event.request = id;
  event.private_data = std::move(private_data);
  PushEvent(std::move(event));
  return id;
}

void SoftDevice::Establish(SoftQueuePair* qp, std::unique_ptr<Link> link,
                           std::string private_data) {
  qp->Establish(std::move(link));
  ConnectionEvent event;
  event.kind = ConnectionEvent::Kind::kEstablished;
  event.qp = qp;
  event.private_data = std::move(private_data);
  PushEvent(std::move(event));
  qp->HarvestArrivals();
  // The peer may have gone before we knew it.
  CheckPeer(qp);
}

void SoftDevice::FailConnect(SoftQueuePair* qp, std::string private_data) {
  qp->EnterError();
  ConnectionEvent event;
  event.kind = ConnectionEvent::Kind::kRejected;
  event.qp = qp;
  event.private_data = std::move(private_data);
  PushEvent(std::move(event));
}

void SoftDevice::PushEvent(ConnectionEvent event) {
  events_.push_back(std::move(event));
  // Who sleeps on the descriptor must learn of events made outside its Progress as well.
  mapping_->Wake();
  check_descriptors_ = true;
}

bool SoftDevice::PollEvent(ConnectionEvent* event) {
  if (events_.empty()) return false;
  *event = std::move(events_.front());
  events_.pop_front();
  return true;
}

void SoftDevice::CheckPeer(SoftQueuePair* qp) {
  if (!qp->ShouldReportPeerClosed()) return;
  qp->set_peer_close_reported();
  qp->OnPeerClosed();
  ConnectionEvent event;
  event.kind = ConnectionEvent::Kind::kDisconnected;
  event.qp = qp;
  PushEvent(std::move(event));
}

bool SoftDevice::CheckPeers() {
  const std::size_t events_before = events_.size();
  for (const auto& [number, qp] : queue_pairs_) CheckPeer(qp);
  return events_.size() != events_before;
}

}  // namespace ring::rdma::soft
