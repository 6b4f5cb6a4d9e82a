// rdma/soft/attachment.h — the seam through which a simulated network takes the system's place.
//
// What:      Attachment: a device that is opened with one has no descriptors and makes no system
//            call but for memory. Its connections all come from the attachment's endpoint, whatever
//            the scheme of the address; who sleeps on it is woken by a call; its CALC may fail.
// Ownership: borrowed; outlives the device.
// Threads:   the device's.
// Errors:    see fabric.h.
#ifndef RING_RDMA_SOFT_ATTACHMENT_H_
#define RING_RDMA_SOFT_ATTACHMENT_H_

#include <cstdint>
#include <memory>

#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class SoftDevice;

enum class CalcVerdict : std::uint8_t {
  kRun = 0,
  kFail = 1,   // completes as kCalcFailed
  kWrong = 2,  // succeeds with a wrong result
  kLater = 3,  // not now: asked again with the device's next Progress
};

class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual std::unique_ptr<Endpoint> MakeEndpoint(SoftDevice* device) = 0;
  // What else would make Device::event_fd() readable.
  virtual void Wake() = 0;
  virtual CalcVerdict JudgeCalc() = 0;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_ATTACHMENT_H_
