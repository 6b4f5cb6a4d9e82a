// rdma/soft/endpoint.h — the seam between the device and how connections of one scheme are made.
//
// What:      Endpoint listens and connects for one scheme; PendingRequest is a connection request
//            that the owner has not yet answered.
// Ownership: the device owns both. An endpoint finds queue pairs by number: they may be gone by the
//            time a peer answers.
// Threads:   the device's.
// Errors:    kInvalidArgument (address), kAlreadyExists (in use), kResourceExhausted (descriptors).
//            A peer that is not there or refuses is an event, not a status.
#ifndef RING_RDMA_SOFT_ENDPOINT_H_
#define RING_RDMA_SOFT_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::rdma::soft {

class SoftQueuePair;

class PendingRequest {
 public:
  virtual ~PendingRequest() = default;  // not answered: the peer is told that we vanished
  // Whether accepting makes a queue pair on mapped memory.
  virtual bool mapped() const = 0;
  virtual absl::Status Accept(SoftQueuePair* qp, absl::string_view private_data) = 0;
  virtual void Reject(absl::string_view private_data) = 0;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual bool mapped() const = 0;
  virtual absl::StatusOr<std::string> Listen(absl::string_view address) = 0;
  virtual absl::Status Connect(absl::string_view address, SoftQueuePair* qp,
                               absl::string_view private_data) = 0;
  // Does what is due without a ready descriptor: inbox, deadlines, sending. Gives whether anything
  // happened.
  virtual bool Progress() = 0;
};

// Something that waits for a descriptor in the device's epoll set.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  virtual void OnReady(std::uint32_t epoll_events) = 0;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_ENDPOINT_H_
