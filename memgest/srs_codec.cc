#include "memgest/srs_codec.h"

#include <utility>

#include "ring/base/check.h"

namespace ring::memgest {

srs::Codec MakeCodec(const protocol::MemgestDescriptor& descriptor, int s) {
  absl::StatusOr<srs::Codec> codec = srs::Codec::Create(
      {descriptor.k, descriptor.m, static_cast<std::uint32_t>(s), descriptor.block_size});
  RING_CHECK(codec.ok()) << "memgest=" << descriptor.id.value() << ": "
                         << codec.status().ToString();
  return *std::move(codec);
}

}  // namespace ring::memgest
