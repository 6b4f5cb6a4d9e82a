// ring/node/sent_copies.h — copies of what is sent and changes meanwhile: views, decoded values.
//
// What:      SentCopies: Keep gives a registered copy of the bytes, the same one for the same
//            bytes; it stays as it is until each Keep of it was answered by a Release.
// Shape:     few: views change seldom, and degraded reads are for measurements. A client that takes
//            nothing holds the one that it was sent.
// Units:     bytes.
// Ownership: owns the memory, until the device goes.
// Threads:   one, the node's.
// Errors:    kResourceExhausted: kCopiesMax of them are being sent, or no memory.
// Cost:      a comparison with the latest copy; a new one is copied.
// Source:    rule V6.
#ifndef RING_NODE_SENT_COPIES_H_
#define RING_NODE_SENT_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/fabric.h"

namespace ring::node {

class SentCopies {
 public:
  static constexpr std::size_t kCopiesMax = 16;

  explicit SentCopies(rdma::Device* device) : device_(device) {}
  SentCopies(const SentCopies&) = delete;
  SentCopies& operator=(const SentCopies&) = delete;

  absl::StatusOr<std::uint32_t> Keep(absl::string_view bytes);
  rdma::Sge At(std::uint32_t number) const;
  void Release(std::uint32_t number);

 private:
  struct Copy {
    std::string bytes;
    std::unique_ptr<rdma::MemoryRegion> region;
    std::uint64_t sends = 0;
  };

  // Errors leave the copy as it was.
  absl::Status Fill(Copy& copy, absl::string_view bytes);

  rdma::Device* device_;
  std::vector<Copy> copies_;
  std::size_t latest_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_SENT_COPIES_H_
