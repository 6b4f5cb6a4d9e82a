#include "ring/node/fence/lease_message.h"

#include "ring/base/wire.h"

namespace ring::node {

std::string EncodeRenewal(const LeaseRenewal& renewal) {
  ByteWriter out;
  out.Put(renewal.incarnation.value());
  out.Put(renewal.view_epoch);
  return out.Take();
}

absl::StatusOr<LeaseRenewal> DecodeRenewal(absl::string_view bytes) {
  ByteReader in(bytes);
  LeaseRenewal renewal;
  renewal.incarnation = Incarnation(in.Get<std::uint64_t>());
  renewal.view_epoch = in.Get<std::uint32_t>();
  if (!in.finished()) {
    return absl::InvalidArgumentError("renewal of a lease has a wrong size");
  }
  return renewal;
}

}  // namespace ring::node
