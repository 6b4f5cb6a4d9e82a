#include "api/client_memory.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::api {

absl::StatusOr<ClientBuffer> ClientBuffers::Acquire(std::size_t size) {
  const int size_class =
      std::max(kClassMin, static_cast<int>(std::bit_width(std::max<std::size_t>(size, 1) - 1)));
  if (size_class > kClassMax) {
    return absl::InvalidArgumentError(absl::StrCat("no buffer has size=", size));
  }
  std::vector<ClientBuffer>& free = free_[static_cast<std::size_t>(size_class)];
  if (!free.empty()) {
    ClientBuffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }
  absl::StatusOr<ClientBuffer> buffer = Make(size_class);
  if (!absl::IsResourceExhausted(buffer.status())) return buffer;
  // The device counts runs and regions: other classes may have them all.
  GiveBackAll();
  return Make(size_class);
}

absl::StatusOr<ClientBuffer> ClientBuffers::Make(int size_class) {
  ClientBuffer buffer;
  buffer.size = std::size_t{1} << size_class;
  const auto old = std::find_if(retired_.begin(), retired_.end(), [&](const Retired& retired) {
    return retired.size_class == size_class && IsSafe(retired);
  });
  if (old != retired_.end()) {
    buffer.address = old->address;
    retired_.erase(old);
    device_->Discard(buffer.address, buffer.size);
  } else {
    RING_ASSIGN_OR_RETURN(buffer.address,
                          device_->Allocate(buffer.size, rdma::MemoryKind::kShared));
  }
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> region =
      device_->Register(buffer.address, buffer.size, rdma::kRemoteRead | rdma::kRemoteWrite);
  if (!region.ok()) {
    device_->Free(buffer.address, buffer.size, rdma::MemoryKind::kShared);
    return region.status();
  }
  buffer.region = *std::move(region);
  return buffer;
}

bool ClientBuffers::IsSafe(const Retired& retired) const {
  return retired.holders == 0 && (!device_->PeerHoldsOn(retired.qp_number) || Mutant("L5-buffer"));
}

void ClientBuffers::GiveBackAll() {
  for (std::vector<ClientBuffer>& free : free_) {
    for (ClientBuffer& buffer : free) {
      buffer.region.reset();
      device_->Free(buffer.address, buffer.size, rdma::MemoryKind::kShared);
    }
    free.clear();
  }
  std::erase_if(retired_, [this](const Retired& retired) {
    if (!IsSafe(retired)) return false;
    device_->Free(retired.address, std::size_t{1} << retired.size_class, rdma::MemoryKind::kShared);
    return true;
  });
}

void ClientBuffers::Release(ClientBuffer buffer) {
  if (!buffer) return;
  const auto size_class = static_cast<std::size_t>(std::bit_width(buffer.size - 1));
  buffer.zeroed = false;
  free_[size_class].push_back(std::move(buffer));
}

void ClientBuffers::Retire(ClientBuffer buffer, std::uint32_t qp_number) {
  if (!buffer) return;
  buffer.region->Revoke();
  const int size_class = static_cast<int>(std::bit_width(buffer.size - 1));
  retired_.push_back({buffer.address, size_class, qp_number});
}

ClientBuffers::Retired* ClientBuffers::FindRetired(const std::byte* bytes) {
  const auto found = std::find_if(retired_.begin(), retired_.end(), [=](const Retired& retired) {
    return bytes >= retired.address &&
           bytes < retired.address + (std::size_t{1} << retired.size_class);
  });
  return found == retired_.end() ? nullptr : &*found;
}

bool ClientBuffers::Hold(const std::byte* bytes) {
  Retired* const retired = FindRetired(bytes);
  if (retired != nullptr) ++retired->holders;
  return retired != nullptr;
}

void ClientBuffers::LetGo(const std::byte* bytes) {
  Retired* const retired = FindRetired(bytes);
  RING_CHECK(retired != nullptr && retired->holders > 0) << "nobody holds these bytes";
  --retired->holders;
}

}  // namespace ring::api
