#include "ring/node/sent_copies.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/local_memory.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::size_t kSizeMin = std::size_t{64} << 10;
}  // namespace

absl::StatusOr<std::uint32_t> SentCopies::Keep(absl::string_view bytes) {
  if (latest_ >= copies_.size() || copies_[latest_].bytes != bytes) {
    std::size_t number = 0;
    while (number < copies_.size() && copies_[number].sends > 0) ++number;
    if (number == kCopiesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kCopiesMax, " copies are being sent to clients that take nothing"));
    }
    if (number == copies_.size()) copies_.emplace_back();
    RING_RETURN_IF_ERROR(Fill(copies_[number], bytes));
    latest_ = number;
  }
  ++copies_[latest_].sends;
  return static_cast<std::uint32_t>(latest_);
}

absl::Status SentCopies::Fill(Copy& copy, absl::string_view bytes) {
  const std::size_t size = std::bit_ceil(std::max(kSizeMin, bytes.size()));
  if (copy.region == nullptr || copy.region->length() < size) {
    RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::MemoryRegion> region,
                          rdma::AllocateLocal(device_, size));
    if (copy.region != nullptr) rdma::FreeLocal(device_, std::move(copy.region));
    copy.region = std::move(region);
  }
  std::memcpy(copy.region->address(), bytes.data(), bytes.size());
  copy.bytes = std::string(bytes);
  return absl::OkStatus();
}

rdma::Sge SentCopies::At(std::uint32_t number) const {
  const Copy& copy = copies_[number];
  return {copy.region->address(), static_cast<std::uint32_t>(copy.bytes.size()),
          copy.region->lkey()};
}

void SentCopies::Release(std::uint32_t number) {
  RING_CHECK(copies_[number].sends > 0) << "copy=" << number;
  --copies_[number].sends;
}

}  // namespace ring::node
